// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package frameworks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// output collects what a program prints, while a test reads it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// Find returns the match of a pattern in the text.
func (o *output) Find(pattern *regexp.Regexp) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(pattern.Find(o.text.Bytes()))
}

const inProcess = "../../docs/howto/train-with-a-framework.md"

// pause is how long a ring trains before the test changes it. In that time its members connect to
// the store for the next ring: PyTorch waits ten seconds for a name server, and there is none.
const pause = 15 * time.Second

// scripts are those of the page, by a text that each has.
var scripts = map[string]string{"Trainer": "elastic(trainer", "Accelerate": "accelerator.epochs", "Lightning": "ElasticStrategy("}

// The scripts of the page, verbatim, stay in process while hosts come and go, and repeat no step.
func TestInProcess(t *testing.T) {
	for name, text := range scripts {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			r := run{t: t, dir: t.TempDir()}
			r.write("train.py", blockOf(t, inProcess, text))
			r.hosts(1)
			printed := r.launch(ctx, []string{"-np", "1", "--min-np", "1", "--max-np", "2"}, []string{"train.py"}, "", "OMP_NUM_THREADS=1")
			wait := func(pattern string) {
				t.Helper()
				must.NoError(t, cluster.Until(ctx, pattern, func(context.Context) error {
					line := printed.Find(regexp.MustCompile(pattern))
					if line == "" {
						return errors.New("not yet")
					}
					t.Logf("%s", line)
					return nil
				}))
			}
			wait(`ring 1: rank 0 of 1`)
			r.hosts(2)
			wait(`ring 2: rank 0 of 2, was 1, gap .*`)
			r.hosts(1)
			wait(`ring 3: rank 0 of 1, was 2, gap .*`)
			must.Eq(t, "", printed.Find(regexp.MustCompile("gap unknown|made again")))
		})
	}
}

// The scripts grow, survive a SIGKILL and shrink as jobs of a real Nomad.
func TestInProcessOnNomad(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	interpreter := python(t)
	driver, _ := train.Torch.Plugin(root)
	c, err := cluster.Start(ctx, cluster.Options{
		Nomad: cluster.Binary(root), Log: t.Logf, Grace: cluster.Patient,
		Plugins: map[string]string{driver: fmt.Sprintf("allow_isolation_none = true\npython = %q\n", interpreter)},
	})
	must.NoError(t, err)
	c.StopAfter(t, filepath.Join(root, "e2e", ".work", t.Name()))
	spec, err := os.ReadFile(filepath.Join(root, "jobspecs", "torch.nomad.hcl"))
	must.NoError(t, err)
	for name, text := range scripts {
		t.Run(name, func(t *testing.T) {
			id := strings.ToLower(name)
			script := filepath.Join(t.TempDir(), "train.py")
			must.NoError(t, os.WriteFile(script, []byte(blockOf(t, inProcess, text)), 0o600))
			job, err := c.Parse(string(spec), cluster.Vars{"python": interpreter, "script": script, "isolation": "none", "count": "1"})
			must.NoError(t, err)
			job.ID, job.Name = &id, &id
			job.TaskGroups[0].Services[0].Name = id
			task := job.TaskGroups[0].Tasks[0]
			task.Config["service"] = id
			task.Env = train.Torch.Env(root)
			task.Env["OMP_NUM_THREADS"] = "1"
			must.NoError(t, c.RegisterJob(ctx, job))
			last := 0
			size := func(n int) {
				t.Helper()
				must.NoError(t, cluster.Until(ctx, fmt.Sprintf("a ring of %d after ring %d", n, last), func(ctx context.Context) error {
					number, size, event, err := ring(ctx, c, id)
					if err != nil || number <= last || size != n {
						return errors.Join(err, fmt.Errorf("ring %d of %d", number, size))
					}
					t.Log(event)
					last = number
					return nil
				}))
				time.Sleep(pause)
			}
			size(1)
			must.NoError(t, c.Scale(ctx, id, "workers", 3))
			size(3)
			killed := cluster.Processes(func(p cluster.Process) bool { return len(p.Args) > 1 && p.Args[1] == script })
			must.Len(t, 3, killed)
			must.NoError(t, killed[0].Kill())
			size(3)
			must.NoError(t, c.Scale(ctx, id, "workers", 1))
			size(1)
			job, _, err = c.API.Jobs().Info(id, nil)
			must.NoError(t, err)
			must.Eq(t, "running", *job.Status)
			must.NoError(t, c.StopJob(ctx, id, true))
		})
	}
}

var ringEvent = regexp.MustCompile(`^ring (\d+): ranks? [-0-9]+ of (\d+)`)

// ring returns the number and the size of the latest ring that a job's agents have
// reported, with what they reported.
func ring(ctx context.Context, c *cluster.Cluster, job string) (number, size int, event string, err error) {
	allocs, err := c.Allocs(ctx, job)
	if err != nil {
		return 0, 0, "", err
	}
	for _, a := range allocs {
		for _, state := range a.TaskStates {
			for _, e := range state.Events {
				m := ringEvent.FindStringSubmatch(e.DisplayMessage)
				if m == nil {
					continue
				}
				if n, _ := strconv.Atoi(m[1]); n > number {
					number, event = n, e.DisplayMessage
					size, _ = strconv.Atoi(m[2])
				}
			}
		}
	}
	return number, size, event, nil
}
