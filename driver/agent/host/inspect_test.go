// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

// TestInspect takes stacks with a stand-in for the agent's program.
func TestInspect(t *testing.T) {
	t.Setenv("NOMAD_TOKEN", "secret")
	const report = `{"generation":4,"size":3,"ranks":[{"rank":1,"slot":0,"pid":7,"state":"sleeping","threads":[{"name":"x","frames":[]},{"main":true,"frames":[{"function":"'"$*"'"}]}]},
		{"rank":-1,"slot":1,"pid":8,"state":"sleeping"}]}`
	ring := wire.RingID{Generation: 4, Term: 1}
	for name, c := range map[string]struct {
		program string
		within  float64
		ranks   bool
	}{
		"a report":           {"echo '" + report + "'", 60, true},
		"of another ring":    {"echo '" + strings.Replace(report, `:4`, `:3`, 1) + "'", 60, false},
		"no report":          {"echo x", 60, false},
		"a failure":          {"exit 1", 60, false},
		"no answer in time":  {"sleep 1000", 0.1, false},
		"an answer too long": {"cat /dev/zero", 60, false},
		"sees the token":     {`[ -z "$NOMAD_TOKEN" ] || echo '` + report + "'", 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, end := t.TempDir(), &leaderEnd{}
			program := filepath.Join(dir, "program")
			must.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+c.program+"\n"), 0o755))
			h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}, ProgressDir: dir}, ID: "h", Program: program, Logger: hclog.NewNullLogger()})
			h.session = end
			var err error
			h.spawner, err = process.NewSpawner("")
			must.NoError(t, err)
			t.Cleanup(h.spawner.Close)
			t.Cleanup(h.tasks.Wait)
			t.Cleanup(h.quit)
			must.True(t, h.register().Inspects)
			h.ring = &elastic.Ring{Generation: 4, Term: 1}
			h.handle(&wire.ToAgent{Inspect: &wire.Inspect{Ring: wire.RingID{Generation: 3, Term: 1}, Number: 1, Within: 60}})
			must.False(t, h.inspecting, must.Sprint("of another ring"))
			for range 2 { // the second is ignored
				h.handle(&wire.ToAgent{Inspect: &wire.Inspect{Ring: ring, Number: 2, Within: c.within}})
			}
			select {
			case f := <-h.todo:
				f()
			case <-time.After(time.Minute):
				t.Fatal("no answer")
			}
			must.Len(t, 1, end.sent)
			got := end.sent[0].Inspected
			must.Eq(t, ring, got.Ring)
			must.Eq(t, 2, got.Number)
			if !c.ranks {
				must.SliceEmpty(t, got.Ranks)
				return
			}
			must.Eq(t, []stacks.Rank{{Rank: 1, Process: stacks.Process{PID: 7, State: stacks.Sleeping,
				Threads: []stacks.Thread{{Main: true, Frames: []stacks.Frame{{Function: "stacks " + dir + " 5.600"}}}}}}}, got.Ranks)
			must.False(t, h.inspecting)
		})
	}
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "h", Logger: hclog.NewNullLogger()})
	must.False(t, h.register().Inspects, must.Sprint("without a program"))
}
