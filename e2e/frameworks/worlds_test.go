// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package frameworks

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

const worlds = "../../docs/howto/train-with-tensorflow-or-jax.md"

// TestWorlds: the scripts of the page grow, shrink and finish, and make no step again.
func TestWorlds(t *testing.T) {
	path := os.Getenv("KOLO_E2E_WORLDS")
	if path == "" {
		t.Skip("needs TensorFlow and JAX: make frameworks")
	}
	for name, text := range map[string]string{"jax": "import jax", "tensorflow": "import tensorflow"} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			command := []string{"-m", "kolo.launch", "--environment", name, "train.py"}
			flags := []string{"-np", "1", "--min-np", "1", "--max-np", "2", "--mode", "restart", "--checkpoint-signal", "SIGUSR1"}
			r := run{t: t, dir: t.TempDir(), python: path}
			r.write("train.py", blockOf(t, worlds, text))
			r.hosts(1)
			printed := r.launch(ctx, flags, append(command, "1000000"), "", "TF_CPP_MIN_LOG_LEVEL=3")
			begun := "0"
			for i, size := range []int{1, 2, 1} {
				r.hosts(size)
				begins := printed.await(ctx, t, fmt.Sprintf(`begin: rank 0 of %d, step (\d+)`, size), i/2+1)
				ended := printed.await(ctx, t, `end: rank 0 of \d, step (\d+)`, i)
				if i > 0 {
					must.Eq(t, ended, begins, must.Sprint("the first step of a group, and the last one of the group before"))
					must.NotEq(t, begun, begins)
				}
				begun = begins
			}

			small := run{t: t, dir: t.TempDir(), python: path}
			small.write("train.py", blockOf(t, worlds, text))
			small.hosts(2)
			printed = small.launch(ctx, append([]string{"-np", "2"}, flags[2:]...), append(command, "200"), "", "TF_CPP_MIN_LOG_LEVEL=3")
			printed.await(ctx, t, `end: rank 1 of 2, step 200, error (0\.00)`, 1)
			printed.await(ctx, t, `training is (complete)`, 1)
		})
	}
}

// await waits until a pattern was printed n times, and returns the last group of the last one.
func (o *output) await(ctx context.Context, t *testing.T, pattern string, n int) string {
	t.Helper()
	compiled := regexp.MustCompile(pattern)
	var found [][]string
	must.NoError(t, cluster.Until(ctx, fmt.Sprintf("%q %d times", pattern, n), func(context.Context) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		found = compiled.FindAllStringSubmatch(strings.ToValidUTF8(o.text.String(), ""), -1)
		if len(found) < n {
			return fmt.Errorf("%d times", len(found))
		}
		return nil
	}))
	if n == 0 {
		return ""
	}
	return found[n-1][1]
}
