// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// whole is the size of the jobs that must start whole. The cluster has room for one and a
// half of them.
const whole = slots * 2 / 3

// TestWhole submits two jobs of fixed size to a cluster that fits one and a half.
func TestWhole(t *testing.T) {
	w := start(t)

	t.Log("without Kolo, a job holds slots with a part of its workers")
	w.rigid(t, "plain-a", whole, "")
	w.rigid(t, "plain-b", whole, "")
	waitFor(t, time.Minute, "a job that holds a part of its workers", func() bool {
		a, b := w.placed(t, "plain-a"), w.placed(t, "plain-b")
		return a+b == slots && (a < whole || b < whole)
	})
	w.purge(t, "plain-a", "plain-b")

	t.Log("with Kolo, one job runs whole in the room of an elastic one, and the other waits")
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)
	w.submit(t, "elastic", "min = 1")
	w.eventually(t, time.Minute, map[string]int{"elastic": slots})
	hcl := pageJob(t, "admit-a-job-whole.md")
	for _, name := range []string{"a", "b"} {
		w.register(t, strings.Replace(hcl, `job "train"`, fmt.Sprintf("job %q", name), 1))
	}
	halves := w.watchWhole(t, "a", "b")
	w.eventually(t, time.Minute, map[string]int{"a": whole, "b": 0, "elastic": slots - whole})
	w.eventuallyReads(t, d, "b", "waits for free GPUs")

	t.Log("the other starts whole when the first has ended")
	w.purgeJob(t, "a")
	w.eventually(t, time.Minute, map[string]int{"b": whole, "elastic": slots - whole})
	must.SliceEmpty(t, halves())
	w.neverTooMuch(t, "b", "elastic")
	w.purge(t, "b", "elastic")
}

// placed returns how many workers of a job hold slots.
func (w *world) placed(t *testing.T, job string) (n int) {
	t.Helper()
	allocs, _, err := w.API.Jobs().Allocations(job, false, nil)
	must.NoError(t, err)
	for _, a := range allocs {
		if a.DesiredStatus == api.AllocDesiredStatusRun && a.ClientStatus != api.AllocClientStatusComplete {
			n++
		}
	}
	return n
}

// watchWhole looks at the counts of jobs until the function that it returns is called, which
// returns the counts that were neither 0 nor whole.
func (w *world) watchWhole(t *testing.T, jobs ...string) (halves func() []string) {
	stop, done := make(chan struct{}), make(chan struct{})
	var seen []string
	go func() {
		defer close(done)
		for {
			for _, name := range jobs {
				if n, err := w.count(name); err == nil && n != 0 && n != whole {
					seen = append(seen, fmt.Sprintf("%s has count %d", name, n))
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	stopped := false
	halves = func() []string {
		if !stopped {
			stopped = true
			close(stop)
			<-done
		}
		return seen
	}
	t.Cleanup(func() { halves() })
	return halves
}

// pageJob returns the first job in a page of docs/howto, with a task that sleeps under
// raw_exec.
func pageJob(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "howto", page))
	must.NoError(t, err)
	job := regexp.MustCompile("(?s)```hcl\n(job .*?)```").FindSubmatch(text)
	must.SliceLen(t, 2, job)
	return sleeping(string(job[1]))
}

// sleeping returns a job whose tasks sleep under raw_exec.
func sleeping(hcl string) string {
	hcl = regexp.MustCompile(`(?s)driver *= *"[a-z_]+"\s+config \{.*?\n      \}`).ReplaceAllString(hcl,
		"driver = \"raw_exec\"\n      config {\n        command = \"/bin/sleep\"\n        args    = [\"100000\"]\n      }\n      kill_timeout = \"5s\"")
	return strings.ReplaceAll(hcl, "memory = 512", "memory = 32")
}

// TestGang scales groups in a ratio, and leaves a change half written, like a leader that
// dies between two writes.
func TestGang(t *testing.T) {
	w := start(t)
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)
	hcl := pageJob(t, "scale-groups-in-a-ratio.md")

	t.Log("whole units start, and go when another job comes")
	w.register(t, strings.Replace(hcl, `job "train"`, `job "a"`, 1))
	w.eventuallyGroups(t, "a", 2, 8)
	w.register(t, strings.Replace(hcl, `job "train"`, `job "b"`, 1))
	w.eventuallyGroups(t, "a", 1, 4)
	w.eventuallyGroups(t, "b", 1, 4)
	w.neverTooMuch(t, "a", "b")

	t.Log("the leader dies between two writes: the next completes the change, or takes it back")
	d.kill(os.Kill)
	for job, counts := range map[string][2]int{"a": {2, 4}, "b": {1, 3}} {
		for g, group := range []string{"ps", "workers"} {
			n := int64(counts[g])
			_, _, err := w.API.Jobs().ScaleWithRequest(job, &api.ScalingRequest{
				Count: &n, Target: map[string]string{"Group": group}, Message: "kolo: half of a change", Meta: map[string]any{"kolo": map[string]any{"cause": "grow"}},
			}, nil)
			must.NoError(t, err)
		}
	}
	d = w.agent(t, "two", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)
	w.eventuallyGroups(t, "a", 1, 4)
	w.eventuallyGroups(t, "b", 1, 4)

	t.Log("the other's room is for another unit")
	w.purgeJob(t, "b")
	w.eventuallyGroups(t, "a", 2, 8)
	w.neverTooMuch(t, "a")
	w.purge(t, "a")
}

// eventuallyGroups waits for the running servers and workers of a job.
func (w *world) eventuallyGroups(t *testing.T, job string, servers, workers int) {
	t.Helper()
	want := map[string]int{"ps": servers, "workers": workers}
	var got map[string]int
	waitFor(t, time.Minute, fmt.Sprintf("%s to have %v", job, want), func() bool {
		got = map[string]int{}
		allocs, _, err := w.API.Jobs().Allocations(job, false, nil)
		if err != nil {
			return false
		}
		for _, a := range allocs {
			if a.ClientStatus == api.AllocClientStatusRunning && a.DesiredStatus == api.AllocDesiredStatusRun {
				got[a.TaskGroup]++
			}
		}
		info, _, err := w.API.Jobs().Info(job, nil)
		if err != nil {
			return false
		}
		for _, g := range info.TaskGroups {
			if *g.Count != want[*g.Name] {
				return false
			}
		}
		return got["ps"] == servers && got["workers"] == workers
	})
}
