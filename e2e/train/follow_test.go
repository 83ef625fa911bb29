// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	follower := Follow(dir)
	next := func() Record {
		record, err := follower.Next()
		must.NoError(t, err)
		return record
	}
	must.SliceEmpty(t, next())

	must.NoError(t, os.Mkdir(dir, 0o755))
	write := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		must.NoError(t, err)
		_, err = f.WriteString(text)
		must.NoError(t, err)
		must.NoError(t, f.Close())
	}
	write("a.jsonl", `{"kolo": "step", "t": 2, "step": 2}`+"\n"+`{"kolo": "step", "t`)
	write("b.jsonl", `{"kolo": "step", "t": 1, "step": 1}`+"\n")
	record := next()
	must.Len(t, 2, record)
	must.Eq(t, 1, record[0].Step)

	write("a.jsonl", `": 3, "step": 3}`+"\n")
	record = next()
	must.Len(t, 1, record)
	must.Eq(t, 3, record[0].Step)
	must.SliceEmpty(t, next())
}
