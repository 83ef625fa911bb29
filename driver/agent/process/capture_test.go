// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	s, err := NewSpawner("")
	must.NoError(t, err)
	t.Cleanup(s.Close)
	run := func(ctx context.Context, script string) (string, error) {
		out, err := s.Output(ctx, 100, []string{"WHO=kolo"}, "/bin/sh", "-c", script)
		return string(out), err
	}
	out, err := run(t.Context(), `echo "$WHO"; echo error >&2`)
	must.NoError(t, err)
	must.Eq(t, "kolo\n", out)
	_, err = run(t.Context(), `printf 'no \033[31mfile\nat all' >&2; exit 3`)
	must.ErrorContains(t, err, "sh: exit status 3: no ")
	must.False(t, strings.ContainsAny(err.Error(), "\x1b\n"), must.Sprint("text of a tenant"))
	_, err = run(t.Context(), `i=0; while [ $i -lt 100 ]; do echo line; i=$((i+1)); done`)
	must.ErrorIs(t, err, errLong)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = run(ctx, `sleep 1000 & wait`)
	must.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = s.Output(t.Context(), 100, nil, "/no/such/program")
	must.ErrorContains(t, err, "start program: ")
}
