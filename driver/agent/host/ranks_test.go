// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// A new rank is listed at once, and a new step some seconds later.
func TestListRanks(t *testing.T) {
	dir := t.TempDir()
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}, ProgressDir: dir}, ID: "h", Logger: hclog.NewNullLogger()})
	now := time.Now()
	listed := func(after time.Duration) inspect.Ranks {
		h.listRanks(now.Add(after))
		text, err := os.ReadFile(filepath.Join(dir, "ranks.json"))
		must.NoError(t, err)
		var r inspect.Ranks
		must.NoError(t, json.Unmarshal(text, &r))
		return r
	}
	h.listRanks(now)
	must.FileNotExists(t, filepath.Join(dir, "ranks.json"))

	spawner, err := process.NewSpawner("")
	must.NoError(t, err)
	t.Cleanup(spawner.Close)
	p, err := spawner.Start(process.Spec{Command: "sleep", Args: []string{"1000"}, Stdout: os.Stdout, Stderr: os.Stderr})
	must.NoError(t, err)
	t.Cleanup(func() { p.Stop(true) })
	s := h.slots[0]
	s.proc, s.State = p, elastic.Starting
	s.progress.path = filepath.Join(dir, "progress-0.jsonl")
	s.started, err = inspect.Started(p.PID())
	must.NoError(t, err)
	want := inspect.Entry{Rank: stacks.NoRank, PID: p.PID(), Started: s.started, Stacks: "progress-0.jsonl.stacks"}
	must.Eq(t, inspect.Ranks{Processes: []inspect.Entry{want}}, listed(0))

	s.State, s.Generation, s.rank = elastic.InRing, 2, 5
	h.ring = &elastic.Ring{Generation: 2, Members: make([]elastic.Member, 8)}
	want.Rank = 5
	must.Eq(t, inspect.Ranks{Generation: 2, Size: 8, Processes: []inspect.Entry{want}}, listed(time.Millisecond))

	h.ring = &elastic.Ring{Generation: 3, Members: make([]elastic.Member, 8)}
	must.Eq(t, stacks.NoRank, listed(2 * time.Millisecond).Processes[0].Rank, must.Sprint("its rank is that of the ring before"))
	s.Generation = 3
	must.Eq(t, want, listed(3 * time.Millisecond).Processes[0])

	step := 7.0
	s.latest.Step = &step
	must.Eq(t, want, listed(time.Second).Processes[0])
	want.Step = 7
	must.Eq(t, want, listed(time.Minute).Processes[0])
}
