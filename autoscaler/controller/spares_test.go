// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/placement"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/plan/queue"
)

// withSpare registers a job of up to size workers that asks for a spare, and whose training
// answers with the given status.
func (w *world) withSpare(id string, size int, status string) {
	w.answering(id, size+1, status, map[string]any{"spare": 1})
}

// answering registers a job whose training answers with the given status.
func (w *world) answering(id string, most int, status string, kolo map[string]any) {
	answers := newAnswering(w.t, saying(status))
	w.nomad.Register(nomadtest.Job{ID: id, Max: most, GPUs: 1, CPU: 100, Priority: 50, Service: id, At: []string{answers.at},
		Elastic: map[string]any{"kolo": []any{kolo}}})
}

func takesSpares(id string) string {
	return fmt.Sprintf(`{"job":%q,"namespace":"default","takes_spares":true}`, id)
}

// spares waits until the newest count of a job, as its driver reads it, has so many spares.
func (w *world) spares(id string, count, spares int) {
	w.t.Helper()
	client, err := api.NewClient(&api.Config{Address: w.server.URL, SecretID: "autoscaler"})
	must.NoError(w.t, err)
	must.Wait(w.t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		s, _, err := client.Jobs().ScaleStatus(id, nil)
		if err != nil {
			return err
		}
		for _, g := range s.TaskGroups {
			if len(g.Events) == 0 {
				return errors.New("it was never scaled")
			}
			e := g.Events[0]
			meta, _ := e.Meta["kolo"].(map[string]any)
			if got := fmt.Sprint(g.Desired, " ", *e.Count, " ", meta["spare"]); got != fmt.Sprint(count, " ", count, " ", spares) {
				return fmt.Errorf("count, count of the event and spares are %s", got)
			}
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// sparesShown returns the counts and the spares of a job's status.
func sparesShown(a *Controller, id string) string {
	for _, j := range a.Status().Jobs {
		if j.ID == id {
			return fmt.Sprintf("%d and %d, %d running, wants %d", j.Count, j.Spares, j.Running, j.Want)
		}
	}
	return "no job"
}

func (w *world) shows(a *Controller, id, want string) {
	w.t.Helper()
	must.Wait(w.t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		if got := sparesShown(a, id); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

func (w *world) probing() *config.Config {
	c := w.config()
	c.Planner.Progress = 5 * time.Millisecond
	return c
}

// decides waits until the autoscaler has decided twice since job a was in a state.
func (w *world) decides(a *Controller, in func(*job) bool) {
	w.t.Helper()
	rounds, last := 0, time.Time{}
	must.Wait(w.t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		j := a.job(identity.JobKey{Namespace: "default", ID: "a"})
		if j != nil && in(j) && a.decided.After(last) {
			rounds, last = rounds+1, a.decided
		}
		return rounds > 2
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// A job has a spare while no one needs its slot. A job that arrives gets the slot, and all
// workers of the first job continue.
func TestController_LendsASpare(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.watchful(4)
	a, stop := w.start(w.probing())
	w.withSpare("a", 3, takesSpares("a"))
	w.spares("a", 4, 1)
	w.shows(a, "a", "3 and 1, 3 running, wants 3")
	must.Eq(t, 4, a.Status().Pools[0].Used)

	stop() // another autoscaler goes on with the same spare
	a, _ = w.start(w.probing())
	w.shows(a, "a", "3 and 1, 3 running, wants 3")

	w.job("b", 1, 1)
	w.eventually(map[string]int{"a": 3, "b": 1})
	w.spares("a", 3, 0)
	w.shows(a, "a", "3 and 0, 3 running, wants 3")
	h, ok := a.history.Jobs[identity.JobKey{Namespace: "default", ID: "a"}]
	must.True(t, ok)
	a.mu.Lock()
	defer a.mu.Unlock()
	must.Eq(t, 0, h.Resizes) // of its ring
}

// A job that is not elastic gets the slot, too.
func TestController_GivesASpareToARigidJob(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.start(w.probing())
	w.withSpare("a", 3, takesSpares("a"))
	w.spares("a", 4, 1)
	w.nomad.Register(nomadtest.Job{ID: "rigid", Count: 1, GPUs: 1, CPU: 100, Priority: 50})
	w.spares("a", 3, 0)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		_, live := w.nomad.Counts()
		return live["rigid"] == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// The training of a job decides whether the job gets spares, because a script may not
// support them.
func TestController_NoSpareForAJobThatTakesNone(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.probing())
	w.withSpare("a", 2, `{"job":"a","namespace":"default"}`)
	w.eventually(map[string]int{"a": 2})
	w.decides(a, func(j *job) bool { return j.spares.answered })
	w.shows(a, "a", "2 and 0, 2 running, wants 2")
}

// A count that a user sets by hand has no spares, and all its workers train.
func TestController_ACountByHandHasNoSpares(t *testing.T) {
	w := newWorld(t, 1, 4)
	a, _ := w.start(w.probing())
	w.withSpare("a", 3, takesSpares("a"))
	w.spares("a", 4, 1)
	must.NoError(t, w.nomad.Scale("a", 2))
	w.shows(a, "a", "2 and 0, 2 running, wants 2")
}

// That holds for the same count, too: its driver lets all workers train then.
func TestController_TheSameCountByHandHasNoSpares(t *testing.T) {
	w := newWorld(t, 1, 5)
	a, _ := w.start(w.probing())
	w.withSpare("a", 3, takesSpares("a"))
	w.spares("a", 4, 1)
	w.shows(a, "a", "3 and 1, 3 running, wants 3")
	must.NoError(t, w.nomad.Scale("a", 4))
	w.shows(a, "a", "4 and 0, 4 running, wants 4")
	a.mu.Lock()
	defer a.mu.Unlock()
	must.True(t, a.history.Jobs[identity.JobKey{Namespace: "default", ID: "a"}].ManualUntil.After(time.Now()))
}

// More spares than workers could never replace any.
func TestController_NoMoreSparesThanWorkers(t *testing.T) {
	w := newWorld(t, 1, 8)
	a, _ := w.start(w.probing())
	w.answering("a", 8, takesSpares("a"), map[string]any{"spare": 5, "max": 2})
	w.spares("a", 4, 2)
	w.decides(a, func(j *job) bool { return j.spares.takes })
	w.shows(a, "a", "2 and 2, 2 running, wants 2")
}

// A limit that was lowered takes the spares of all jobs of the queue.
func TestController_SparesBeyondALimit(t *testing.T) {
	w := newWorld(t, 1, 8)
	conf := w.probing()
	conf.Pools = w.pools("queue \"*\" { limit = 8 }")
	a, _ := w.start(conf)
	w.withSpare("a", 3, takesSpares("a"))
	w.withSpare("b", 3, takesSpares("b"))
	w.spares("a", 4, 1)
	w.spares("b", 4, 1)
	changed := *a.Config()
	changed.Pools = w.pools("queue \"*\" { limit = 4 }")
	must.NoError(t, a.Reload(&changed))
	w.shows(a, "a", "2 and 0, 2 running, wants 2")
	w.shows(a, "b", "2 and 0, 2 running, wants 2")
}

// A pool lends spares to jobs that did not ask for any, except to those that refuse, and takes
// them back before a job waits.
func TestController_ThePoolLendsASpare(t *testing.T) {
	w := newWorld(t, 1, 6)
	w.watchful(6)
	conf := w.probing()
	conf.Pools = w.pools("spares { slots = 1 }")
	a, stop := w.start(conf)
	w.answering("none", 3, takesSpares("none"), map[string]any{"spare": 0, "max": 1})
	w.answering("a", 4, takesSpares("a"), map[string]any{"max": 2})
	w.spares("a", 3, 1)
	w.answering("b", 3, takesSpares("b"), map[string]any{"max": 1})
	w.shows(a, "a", "2 and 1, 2 running, wants 2")
	w.decides(a, func(j *job) bool { return j.spares.takes })
	w.shows(a, "b", "1 and 0, 1 running, wants 1")
	w.shows(a, "none", "1 and 0, 1 running, wants 1")
	pool := a.Status().Pools[0]
	must.Eq(t, []int{5, 1, 1}, []int{pool.Used, pool.Spares, pool.Lends})

	// What would happen without the block.
	out, err := a.Propose(t.Context(), "", w.pools(""))
	must.NoError(t, err)
	p := out[0].Jobs[1]
	must.Eq(t, "a 2+1, 2+0: spare, gives back a spare: the job is to have fewer",
		fmt.Sprintf("%s %d+%d, %d+%d: %s, %s", p.Job, p.Count, p.Spares, p.Write, p.WriteSpare, p.Cause, p.Reason))

	stop() // another autoscaler goes on with the same spare
	a, _ = w.start(conf)
	w.shows(a, "a", "2 and 1, 2 running, wants 2")

	w.job("c", 2, 2)
	w.eventually(map[string]int{"a": 2, "c": 2})
	w.spares("a", 2, 0)
}

// The queue of a job does not pay for a spare that the pool lends.
func TestHeldByLeaf_LentSpare(t *testing.T) {
	for name, c := range map[string]struct {
		spec  jobspec.Spec
		lends int
		want  int
	}{
		"asked for":     {jobspec.Spec{Spare: 1}, 2, 4},
		"lent":          {jobspec.Spec{Lendable: true}, 2, 3},
		"lends no more": {jobspec.Spec{Lendable: true}, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			v := &cluster.View{Facts: []cluster.Facts{{Spec: &c.spec}}}
			place := planner.Worker{Place: placement.Place{Node: -1}}
			v.Jobs = []planner.Job{{Pool: "p", Groups: []planner.Group{{Need: placement.Need{Slots: 1}, Live: []planner.Worker{place, place, place}, Spares: []planner.Worker{place}}}}}
			use := heldByLeaf(v, &config.Pool{Name: "p", SpareSlots: c.lends}, func(int) int { return 0 })
			must.Eq(t, c.want, use[0].Slots)
		})
	}
}

// Nomad may place a job that is not elastic into free slots that its queue is not entitled to.
// Spares must not hold these.
func TestReserve_SparesGiveWayWithoutAShare(t *testing.T) {
	for name, c := range map[string]struct {
		worker, want int
	}{
		"a worker fits into the slots of the spare": {1, 1},
		"it does not fit": {2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tree, problems := queue.New(nil)
			must.SliceEmpty(t, problems)
			v := &cluster.View{Facts: []cluster.Facts{{Observation: history.Observation{Slots: 1}}}}
			v.Nodes = []planner.Node{{Pool: "p", Bins: []planner.Bin{{Slots: 8}}}}
			v.Jobs = []planner.Job{{Key: identity.JobKey{Namespace: "a", ID: "a"}, Pool: "p", Min: 7, Max: 16, Groups: []planner.Group{{Count: 7, Spare: 1}}}}
			v.Rigid = []cluster.Rigid{{Key: identity.JobKey{Namespace: "b", ID: "holds"}, Pool: "p", Slots: 8}}
			v.Blocked = []cluster.Blocked{{Key: identity.JobKey{Namespace: "b", ID: "waits"}, Pool: "p", Priority: 50, Workers: 1, Slots: c.worker, Worker: c.worker}}
			now := time.Now()
			r := &loans{divided: map[string]*division{"p": newDivision(v, "p", tree, nil, now)}}
			r.reserve(v, now)
			must.Eq(t, [2]int{0, c.want}, [2]int{v.Reserved["p"], v.Waiting["p"]})
		})
	}
}

// The slots of a spare count for the limits of a queue.
func TestController_SparesCountForLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limit  string
		spares int
	}{
		"room":          {"limit = 4", 1},
		"no room":       {"limit = 3", 0},
		"most of a job": {"max_job = 3", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 8)
			conf := w.probing()
			conf.Pools = w.pools("queue \"*\" {\n" + c.limit + "\n}")
			a, _ := w.start(conf)
			w.withSpare("a", 3, takesSpares("a"))
			w.eventually(map[string]int{"a": 3 + c.spares})
			w.decides(a, func(j *job) bool { return j.spares.takes })
			w.shows(a, "a", fmt.Sprintf("3 and %d, 3 running, wants 3", c.spares))
		})
	}
}
