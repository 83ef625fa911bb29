// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

const movesConfiguration = `
nomad {
  address = "%s"
  resync  = "5s"
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold         = "1s"
  manual_hold  = "1s"
  move_timeout = "10m"
  tick         = "2s"
  progress     = "1s"
}
pool "default" {
  cpu_slot = 1000
  policy "fifo" {}
  topology {
    levels = ["meta.rack"]
  }
}
`

// gangHCL is a job that starts with 8 workers in one rack, or not at all.
const gangHCL = `
job "gang" {
  type = "batch"
  GROUPS
}
`

const gangGroupHCL = `
  group "RACK" {
    count = 0
    constraint {
      attribute = "${meta.rack}"
      value     = "RACK"
    }
    scaling {
      min = 0
      max = 8
      policy {
        kolo { KOLO }
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 1000
        memory = 32
      }
    }
  }
`

// TestMoves moves the workers of training jobs between two racks of 8 slots, to make room
// for a gang. The racks are connected by a link of 200 Mbit/s, if the system can limit it.
func TestMoves(t *testing.T) {
	w, slow := startRacks(t)
	release := w.lockLeader(t)
	d := w.agentWith(t, "one", fmt.Sprintf(movesConfiguration, w.Address))
	d.waitForRacks("r1 1", "r2 1")

	// A worker in each rack: 6 slots are left of both. Both shrink before they grow,
	// since a gang waits.
	apart := map[string]int{"r1": 1, "r2": 1}
	step := []string{"--ballast=10", "--step-time=0.1"}
	a := w.trainInRacks(t, "a", map[string]any{"min": 1, "max": 2}, apart, step...)
	b := w.trainInRacks(t, "b", map[string]any{"min": 1, "max": 3, "preferred": 2}, apart, step...)
	for _, tr := range []training{a, b} {
		w.ring(t, d, tr.name, 2)
	}
	stay := map[string]map[string]bool{}
	for _, tr := range []training{a, b} {
		stay[tr.name] = w.inRack(t, tr.name, "r2")
		must.MapLen(t, 1, stay[tr.name])
	}

	t.Log("without a leader nothing moves, and kolo plan shows what would")
	w.gang(t)
	d.planned(t, "makes room for gang within one meta.rack", a, b)
	w.purgeJob(t, "gang")

	release()
	waitFor(t, time.Minute, "leadership", d.leads)
	events := &eventLog{}
	d.follow(t, events)
	for _, tr := range []training{a, b} {
		w.ring(t, d, tr.name, 2) // the leader learns by itself
	}
	w.gang(t)
	w.waitForGroups(t, "gang", map[string]int{"r1": 8, "r2": 0})
	t.Logf("from the registration of the gang to the start of its last worker: %s", w.startedAfter(t, "gang"))
	for _, tr := range []training{a, b} {
		w.waitForGroups(t, tr.name, map[string]int{"r1": 0, "r2": 2})
		w.ring(t, d, tr.name, 2)
		for id := range stay[tr.name] {
			must.MapContainsKey(t, w.inRack(t, tr.name, "r2"), id, must.Sprint("the worker that need not move was replaced"))
		}
		events.halves(t, tr, "makes room for gang within one meta.rack")
		t.Log(events.moved(t, tr, 1))
		w.moved(t, tr, 1)
	}
	w.purgeJob(t, "gang")

	if slow {
		w.backTogether(t, d, b, events)
	}
	for _, tr := range []training{a, b} {
		tr.finish(t)
	}
	for _, tr := range []training{a, b} {
		must.NoError(t, w.WaitStatus(bounded(t, 2*time.Minute), tr.name, "dead"))
		w.allComplete(t, tr)
	}
	w.neverTooMuch(t, "a", "b")
}

// backTogether puts a job's workers in both racks by hand, and waits until the
// autoscaler has found out what that costs and moved one of them back.
func (w *world) backTogether(t *testing.T, d *daemon, tr training, events *eventLog) {
	t.Helper()
	step := func() float64 {
		var j koloapi.Job
		must.NoError(t, json.Unmarshal([]byte(d.printed("job", "-json", tr.name)), &j))
		return j.Job.Step
	}
	from := step()
	waitFor(t, 2*time.Minute, "steps of workers in one rack", func() bool { return step() >= from+60 })
	must.NoError(t, w.Scale(t.Context(), tr.name, "r2", 1))
	must.NoError(t, w.Scale(t.Context(), tr.name, "r1", 1))
	w.waitForGroups(t, tr.name, map[string]int{"r1": 1, "r2": 1})
	t.Log(events.moved(t, tr, 2))
	events.halves(t, tr, "closer together: steps take ")
	w.moved(t, tr, 3) // one of them by hand
	t.Log(d.printed("job", tr.name))
}

// startRacks starts a client in each of two racks. slow is whether the link between
// them is.
func startRacks(t *testing.T) (w *world, slow bool) {
	t.Helper()
	if os.Getenv(givenNomad) != "" {
		t.Skip("requires two clients, whose metadata it sets")
	}
	if err := train.Torch.Check(root(t)); err != nil {
		t.Skipf("%v (make build torch sets it up)", err)
	}
	driver, config := train.Torch.Plugin(root(t))
	w = startWith(t, cluster.Options{Clients: 2, CPU: 8000, MemoryMB: 8192, Plugins: map[string]string{driver: config}})
	err := w.PutInRack(t.Context(), "200mbit", w.Nodes[1])
	if err != nil && !errors.Is(err, cluster.ErrShared) && !errors.Is(err, cluster.ErrNoRate) {
		must.NoError(t, err)
	}
	for i, rack := range []string{"r1", "r2"} {
		w.rack(t, i, rack)
	}
	return w, err == nil
}

// lockLeader keeps all autoscalers from leading until release is called.
func (w *world) lockLeader(t *testing.T) (release func()) {
	t.Helper()
	v, _, err := w.API.Variables().AcquireLock(&api.Variable{
		Namespace: "default", Path: "kolo/leader", Items: map[string]string{"holder": "the test"}, Lock: &api.VariableLock{TTL: "10m", LockDelay: "1s"},
	}, nil)
	must.NoError(t, err)
	return func() {
		t.Helper()
		v.Items = nil // Nomad takes none here
		_, _, err := w.API.Variables().ReleaseLock(v, nil)
		must.NoError(t, err)
	}
}

// trainInRacks submits a training job with a group for each rack, and so many
// workers in each.
func (w *world) trainInRacks(t *testing.T, name string, kolo map[string]any, counts map[string]int, args ...string) training {
	t.Helper()
	tr, job := w.training(t, train.Torch, name, 2, args...)
	all := job.TaskGroups[0]
	job.TaskGroups = nil
	for _, rack := range slices.Sorted(maps.Keys(counts)) {
		group := *all
		group.Name, group.Count = new(rack), new(counts[rack])
		group.Constraints = append(slices.Clone(all.Constraints), api.NewConstraint("${meta.rack}", "=", rack))
		scaling := *all.Scaling
		scaling.Policy = map[string]any{"kolo": []map[string]any{kolo}}
		group.Scaling, kolo = &scaling, map[string]any{} // keys are written once
		job.TaskGroups = append(job.TaskGroups, &group)
	}
	must.NoError(t, w.RegisterJob(t.Context(), job))
	return tr
}

// gang registers the gang.
func (w *world) gang(t *testing.T) {
	t.Helper()
	var groups strings.Builder
	kolo := "\nmin = 8\nmax = 8\nlocality = \"require\"\nlevel = \"meta.rack\"\n"
	for _, rack := range []string{"r1", "r2"} {
		groups.WriteString(strings.NewReplacer("RACK", rack, "KOLO", kolo).Replace(gangGroupHCL))
		kolo = "" // keys are written once
	}
	w.register(t, strings.ReplaceAll(gangHCL, "GROUPS", groups.String()))
}

// purgeJob removes a job and waits for its workers to be gone.
func (w *world) purgeJob(t *testing.T, name string) {
	t.Helper()
	must.NoError(t, w.StopJob(t.Context(), name, true))
	_, err := w.WaitRunning(bounded(t, time.Minute), name, 0)
	must.NoError(t, err)
}

// planned waits until kolo plan shows the first halves of moves of these jobs, and
// of no others.
func (d *daemon) planned(t *testing.T, why string, jobs ...training) {
	t.Helper()
	waitFor(t, time.Minute, "the moves in kolo plan", func() bool {
		var out []koloapi.Proposal
		text, err := d.kolo("plan", "-json")
		if err != nil || json.Unmarshal([]byte(text), &out) != nil || len(out) != 1 {
			return false
		}
		var moves []string
		for _, j := range out[0].Jobs {
			if j.Cause != "" {
				moves = append(moves, j.ID)
				if j.Cause != string(planner.Migrate) || !strings.HasSuffix(j.Move, why+" (r1)") {
					return false
				}
			}
		}
		return len(moves) == len(jobs)
	})
	out, err := d.kolo("plan")
	must.NoError(t, err, must.Sprint(out))
	t.Log(out)
	for _, tr := range jobs {
		must.StrContains(t, out, "1 worker from r1 to r2: "+why)
		must.StrContains(t, out, tr.name)
	}
}

// inRack returns the ids of a job's running workers in a rack.
func (w *world) inRack(t *testing.T, job, rack string) map[string]bool {
	t.Helper()
	running, err := w.Running(t.Context(), job)
	must.NoError(t, err)
	out := map[string]bool{}
	for _, a := range running {
		if a.TaskGroup == rack {
			out[a.ID] = true
		}
	}
	return out
}

// startedAfter returns the time from a job's submission to the start of the last of its
// workers, by Nomad's clock.
func (w *world) startedAfter(t *testing.T, job string) time.Duration {
	t.Helper()
	versions, _, _, err := w.API.Jobs().Versions(job, false, nil)
	must.NoError(t, err)
	running, err := w.Running(t.Context(), job)
	must.NoError(t, err)
	var last time.Time
	for _, a := range running {
		for _, s := range a.TaskStates {
			if s.StartedAt.After(last) {
				last = s.StartedAt
			}
		}
	}
	return last.Sub(time.Unix(0, *versions[len(versions)-1].SubmitTime))
}

// moved checks that all moves of a job were of one worker each: a process started for
// each, no other was restarted, and no step is lost or repeated.
func (w *world) moved(t *testing.T, tr training, moves int) {
	t.Helper()
	record, err := train.Read(filepath.Join(tr.dir, "records"))
	must.NoError(t, err)
	must.NoError(t, record.CheckConsecutive())
	must.Len(t, 2+moves, record.Where("start", nil), must.Sprintf("processes of %s", tr.name))
}

// allComplete checks a job that is over: no worker failed, and no step or sample was
// lost or repeated.
func (w *world) allComplete(t *testing.T, tr training) {
	t.Helper()
	allocs, err := w.Allocs(t.Context(), tr.name)
	must.NoError(t, err)
	for _, a := range allocs {
		must.Eq(t, api.AllocClientStatusComplete, a.ClientStatus, must.Sprint(cluster.Events(a)))
	}
	record, err := train.Read(filepath.Join(tr.dir, "records"))
	must.NoError(t, err)
	must.NoError(t, record.CheckConsecutive())
	must.NoError(t, record.CheckSamples(epochSamples))
	for _, z := range record.Resizes() {
		t.Logf("%s: from %d to %d ranks: no step for %s", tr.name, z.From, z.To, z.Gap())
	}
}

// eventLog is what autoscalers have streamed.
type eventLog struct {
	mu  sync.Mutex
	all []koloapi.Event
}

// follow adds an autoscaler's events to a log until the test ends.
func (d *daemon) follow(t *testing.T, l *eventLog) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c := koloapi.Client{URL: d.address, HTTP: http.DefaultClient}
		// It ends with the test or with the autoscaler.
		_ = c.Events(ctx, func() { close(ready) }, func(e koloapi.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, e)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-ready:
	case <-done:
		t.Fatal("no events of the autoscaler")
	}
}

// of returns a job's events of some type, so far.
func (l *eventLog) of(tr training, kind string) []koloapi.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []koloapi.Event
	for _, e := range l.all {
		if e.ID == tr.name && e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

// halves checks that the last two changes of a job were the halves of a move, of
// which the first states why.
func (l *eventLog) halves(t *testing.T, tr training, why string) {
	t.Helper()
	all := l.of(tr, "resize")
	must.GreaterEq(t, 2, len(all))
	first, second := all[len(all)-2], all[len(all)-1]
	t.Logf("%s: %d to %d: %s", tr.name, first.From, first.To, first.Reason)
	t.Logf("%s: %d to %d: %s", tr.name, second.From, second.To, second.Reason)
	for _, e := range []koloapi.Event{first, second} {
		must.Eq(t, string(planner.Migrate), e.Cause)
	}
	must.StrContains(t, first.Reason, why)
	must.StrHasPrefix(t, "moved 1 worker from ", second.Reason)
	must.Eq(t, first.From, second.To)
}

// moved waits for the n-th report of a job's gain from moves.
func (l *eventLog) moved(t *testing.T, tr training, n int) string {
	t.Helper()
	waitFor(t, 2*time.Minute, "what the move of "+tr.name+" gained", func() bool { return len(l.of(tr, "moved")) >= n })
	return tr.name + ": " + l.of(tr, "moved")[n-1].Reason
}
