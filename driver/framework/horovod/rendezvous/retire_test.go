// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// A process that waits in Horovod's init ends by SystemExit, and keeps its rank until then.
// A process that is elsewhere refuses, and so gets no place.
func TestRetire_Python(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	start := func(where string) (*script, rendezvous.NotifyTarget) {
		s := startScript(t, python, "retired.py", hex.EncodeToString(testKey), where)
		port, err := strconv.Atoi(s.line())
		must.NoError(t, err)
		return s, rendezvous.NotifyTarget{Port: port, Key: testKey}
	}
	s, target := start("init")
	must.NoError(t, target.Retire(withTimeout(t), 3))
	lines := []string{s.line(), s.line()} // of two threads
	slices.Sort(lines)
	must.Eq(t, "rank 3", lines[0])
	var n notice
	must.NoError(t, json.Unmarshal([]byte(lines[1]), &n))
	must.Eq(t, map[string]int64{"timestamp": 0, "res": 3}, n.Attributes, must.Sprint("a notice that is not newer than any"))
	must.False(t, s.lines.Scan(), must.Sprint("it has ended"))

	_, target = start("elsewhere")
	must.ErrorContains(t, target.Retire(withTimeout(t), 3), "no reply")
}
