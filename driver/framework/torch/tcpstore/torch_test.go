// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/framework/torch/tcpstore"
	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
)

// torch returns a Python that can import torch: the one that `make torch` sets up.
func torch(t *testing.T) string {
	t.Helper()
	python, err := filepath.Abs("../../../../bin/torch/python3")
	must.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs bin/torch/python3, which `make torch` sets up")
	}
	return python
}

// newestTorch returns a Python with the newest PyTorch: the one that `make torch-newest`
// sets up.
func newestTorch(t *testing.T) string {
	t.Helper()
	python, err := filepath.Abs("../../../../bin/torch-newest/bin/python3")
	must.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("needs bin/torch-newest/bin/python3, which `make torch-newest` sets up")
	}
	return python
}

// noLibuv is printed by scripts if the option cannot be used, because Debian's PyTorch is
// built without libuv. The client sends the same either way.
const noLibuv = "no libuv"

// runPython runs a script with additional environment variables, and returns its output.
func runPython(t *testing.T, python, script string, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Env = append(append(os.Environ(), "OMP_NUM_THREADS=1", "PYTHONWARNINGS=ignore"), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// serveTask serves real processes as an agent does.
func serveTask(t *testing.T, p tcpstore.Process) *tcpstore.Server {
	t.Helper()
	callers := localpeer.NewTask(0, hclog.NewNullLogger()).NewGate()
	t.Cleanup(callers.Close)
	s, err := tcpstore.Listen(p, callers, hclog.NewNullLogger())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, s.Close()) })
	return s
}

// PyTorch's client gets the same results as from PyTorch's server, with one host and with
// two.
func TestTorch_Client(t *testing.T) {
	python := torch(t)
	for _, perHost := range [][]int{{1}, {1, 1}} {
		for _, libuv := range []string{"0", "1"} {
			t.Run(fmt.Sprintf("%d hosts, libuv %s", len(perHost), libuv), func(t *testing.T) {
				j := newJob(t, perHost...)
				s := serveTask(t, placed(j.client(0)))
				out, err := runPython(t, python, "client.py", nil, strconv.Itoa(s.Port()), libuv)
				must.NoError(t, err)
				if out == noLibuv {
					t.Skip("this PyTorch is built without libuv")
				}
				must.Eq(t, "ok", out)
				// TCPStore puts a slash before each key.
				_, err = j.client(len(perHost)-1).Do(t.Context(), store.Op{Kind: store.Wait, Keys: []string{"/done"}})
				must.NoError(t, err)
			})
		}
	}
}

// Unmodified processes, started as by torchrun, form gloo groups. Processes that get their
// place late are waited for.
func TestTorch_Group(t *testing.T) {
	python := torch(t)
	for _, perHost := range [][]int{{2}, {2, 2}} {
		for _, way := range []string{"store", "env"} {
			t.Run(fmt.Sprintf("%v, %s", perHost, way), func(t *testing.T) {
				j := newJob(t, perHost...)
				size := len(j.ring.Members)
				late := &process{placed: make(chan struct{}), store: j.client(size - 1)}
				time.AfterFunc(2*time.Second, func() { close(late.placed) })
				var running sync.WaitGroup
				for rank := range size {
					p := placed(j.client(rank))
					if rank == size-1 {
						p = late
					}
					s := serveTask(t, p)
					running.Go(func() {
						out, err := runPython(t, python, "group.py", []string{
							"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.Itoa(s.Port()), "RANK=" + strconv.Itoa(rank),
							"WORLD_SIZE=" + strconv.Itoa(size), "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RESTART_COUNT=0",
							"GLOO_SOCKET_IFNAME=lo",
						}, way)
						inPair := 1
						if rank == 0 || rank == size-1 {
							inPair = 2
						}
						if want := fmt.Sprint(size*(size+1)/2, inPair, size*(size-1)/2); err != nil || out != want {
							t.Errorf("rank %d: %v, %q instead of %q", rank, err, out, want)
						}
					})
				}
				running.Wait()
			})
		}
	}
}

// counting is a store that counts the operations of a process by kind.
type counting struct {
	store tcpstore.Store
	mu    sync.Mutex
	kinds map[store.Kind]int
}

func (c *counting) Do(ctx context.Context, op store.Op) (store.Result, error) {
	c.mu.Lock()
	c.kinds[op.Kind]++
	c.mu.Unlock()
	return c.store.Do(ctx, op)
}

func (c *counting) Store(context.Context) (tcpstore.Store, error) { return c, nil }

// With GLOO_ENABLE_STORE_V2_API, which agents set, newer releases of PyTorch read the
// entries of all ranks with one request. A process that reads them one by one, as older
// releases do, may be in the same group.
func TestTorch_EntriesAtOnce(t *testing.T) {
	python := newestTorch(t)
	for name, tc := range map[string]struct {
		all    []string // variables of all ranks
		single int      // the rank that reads entries one by one
	}{
		"one rank reads one by one": {nil, 1},
		"short entries":             {[]string{"GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER=1"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 2, 2)
			size := len(j.ring.Members)
			counts := make([]*counting, size)
			var running sync.WaitGroup
			for rank := range size {
				counts[rank] = &counting{store: j.client(rank), kinds: map[store.Kind]int{}}
				s := serveTask(t, counts[rank])
				env := append([]string{
					"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.Itoa(s.Port()), "RANK=" + strconv.Itoa(rank),
					"WORLD_SIZE=" + strconv.Itoa(size), "GLOO_SOCKET_IFNAME=lo",
				}, tc.all...)
				if rank != tc.single {
					env = append(env, "GLOO_ENABLE_STORE_V2_API=1")
				}
				running.Go(func() {
					out, err := runPython(t, python, "group.py", env, "store")
					if err != nil || !strings.HasPrefix(out, fmt.Sprint(size*(size+1)/2, " ")) {
						t.Errorf("rank %d: %v, %q", rank, err, out)
					}
				})
			}
			running.Wait()
			for rank, c := range counts {
				must.Eq(t, rank == tc.single, c.kinds[store.Get] > 0, must.Sprintf("rank %d: %v", rank, c.kinds))
				must.Eq(t, rank != tc.single, c.kinds[store.MultiGet] > 0, must.Sprintf("rank %d: %v", rank, c.kinds))
			}
		})
	}
}
