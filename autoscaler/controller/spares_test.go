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

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// withSpare registers a job of up to size workers that asks for a spare, and whose training
// answers with the given status.
func (w *world) withSpare(id string, size int, status string) {
	answers := newAnswering(w.t, saying(status))
	w.nomad.Register(nomadtest.Job{ID: id, Max: size + 1, GPUs: 1, CPU: 100, Priority: 50, Service: id, At: []string{answers.at},
		Elastic: map[string]any{"kolo": []any{map[string]any{"spare": 1}}}})
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
