// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// busyFile is the variable with a file: while it is there, rank 0 evaluates between a
// step and the commit, on another machine.
const busyFile = "KOLO_TEST_BUSY"

// evaluate returns when the file is gone. It writes another one when it has begun.
func evaluate() {
	file := os.Getenv(busyFile)
	for begun := false; file != ""; time.Sleep(100 * time.Millisecond) {
		if _, err := os.Stat(file); err != nil {
			return
		}
		if !begun {
			begun = os.WriteFile(file+".begun", nil, 0o600) == nil
		}
	}
}

// record is what a job logs, which is all events.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *record) has(text string) bool { return strings.Contains(r.String(), text) }

// A leaving host runs out of time while rank 0, which stays, is busy. The ring breaks
// without that host, and only rank 0's own limit ends rank 0.
func TestRankZeroIsBusyWhenANeighbourMustLeave(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Framework{"horovod": horovodrun, "torch": torchrun} {
		start := func(t *testing.T, limit string) (j *job, busy string, ring *wire.Status) {
			busy = filepath.Join(t.TempDir(), "busy")
			j = startJobOf(t, f, map[string]string{busyFile: busy}, 0, "a:1 b:1 c:1", "-np", "3", "--commit-timeout", limit)
			s := j.size(3)
			must.NoError(t, os.WriteFile(busy, nil, 0o600))
			j.until("rank 0 to evaluate", func(*wire.Status) bool { _, err := os.Stat(busy + ".begun"); return err == nil })
			leaver := s.Ranks[2].Host
			j.list(s.Ranks[0].Host + ":1 " + s.Ranks[1].Host + ":1")
			j.leave(leaver, 5*time.Second)
			j.until("its end", func(*wire.Status) bool {
				return j.log.has(fmt.Sprintf("(kill_timeout); its slots are stopped (rank 2 of ring %d, host %s, slot 0)", s.Generation, leaver))
			})
			return j, busy, s
		}
		pid := func(j *job, rank int) int {
			if f.Program == torchrun.Program {
				return j.torchPID(rank)
			}
			return j.pid(rank)
		}
		t.Run(name+" comes", func(t *testing.T) {
			t.Parallel()
			j, busy, _ := start(t, "10m")
			root := pid(j, 0)
			time.Sleep(3 * elastic.IdleTime) // in which it takes no CPU time
			must.NoError(t, syscall.Kill(root, 0))
			must.NoError(t, os.Remove(busy))
			j.size(2)
			must.Eq(t, root, pid(j, 0))
			must.False(t, j.log.has("is killed"), must.Sprint(j.log))
		})
		t.Run(name+" does not come", func(t *testing.T) {
			t.Parallel()
			j, busy, s := start(t, "15s")
			j.until("the end of rank 0", func(*wire.Status) bool {
				return j.log.has(fmt.Sprintf("rank 0 (host %s, slot 0) is killed: it has not left ring %d in 15s after it was told of a change (commit_timeout)", s.Ranks[0].Host, s.Generation))
			})
			must.NoError(t, os.Remove(busy))
			j.size(2) // with its next process
			must.False(t, j.log.has("rank 1 (host"), must.Sprint(j.log))
		})
	}
}

// leave makes a host leave the job within a time.
func (j *job) leave(name string, within time.Duration) {
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	run := j.r.hosts[elastic.HostID(name)]
	run.leaving = true
	run.host.Leave(within)
}

// logged makes the job log into a record.
func logged(r *launcher) *record {
	log := &record{}
	r.log = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Warn, IndependentLevels: true})
	return log
}
