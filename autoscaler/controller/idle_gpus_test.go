// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// computes registers a job of fixed or variable size that reports nothing to Kolo, waits for
// its workers and sets the utilization of their GPUs.
func (w *world) computes(id string, least, most, percent int, kolo map[string]any) {
	kolo["min"] = least
	w.nomad.Register(nomadtest.Job{ID: id, Max: most, GPUs: 1, CPU: 100, Priority: 50, Elastic: map[string]any{"kolo": []any{kolo}}})
	w.eventually(map[string]int{id: most})
	w.nomad.SetUtilization(id, percent)
}

// readings waits until GPUs were read n more times.
func (w *world) readings(a *Controller, reads *atomic.Int64, n int64) {
	w.t.Helper()
	until := reads.Load() + n
	must.Wait(w.t, wait.InitialSuccess(wait.BoolFunc(func() bool { return reads.Load() >= until }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	before := a.Status().Time
	must.Wait(w.t, wait.InitialSuccess(wait.BoolFunc(func() bool { return a.Status().Time.After(before) }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// faultyStats makes requests for statistics fail with the code, unless it is 0, and counts
// them.
func (w *world) faultyStats() (code, reads *atomic.Int64) {
	code, reads = &atomic.Int64{}, &atomic.Int64{}
	w.nomad.Fault = func(_, path string) int {
		if path != "/v1/client/stats" {
			return 0
		}
		reads.Add(1)
		return int(code.Load())
	}
	return code, reads
}

func byGPUs(j *api.JobStatus) bool { return j.Idle > 0 && j.IdleBy == api.IdleByGPUs }
func inUse(j *api.JobStatus) bool  { return j.Idle == 0 && j.State == api.StateRunning }

// A job that reports nothing is idle if all its GPUs are. A job is not idle if one of its
// GPUs is busy or has no known utilization, or if its training answers.
func TestController_IdleGPUs(t *testing.T) {
	w := newWorld(t, 2, 8)
	w.gpusEvery = 2 * time.Millisecond
	_, reads := w.faultyStats()
	a := w.idling(func(*config.Pool) {})
	events, stop := a.Subscribe()
	defer stop()
	answers := w.trains("answers", 1, map[string]any{})
	answers.steps.Store(false)
	becomes(t, a, "answers", inUse)
	w.computes("busy", 2, 2, 1, map[string]any{})
	w.computes("unknown", 2, 2, -1, map[string]any{})
	w.computes("mixed", 2, 2, 0, map[string]any{})
	busy, held := "", a.watcher.GPUs()
	for _, g := range held {
		if g.Job.ID == "mixed" {
			busy = g.ID // one of two
		}
	}
	var node, gpu int
	_, err := fmt.Sscanf(busy, "GPU-%d-%d", &node, &gpu)
	must.NoError(t, err)
	w.nomad.SetGPU(node, gpu, 40)
	w.computes("x", 2, 2, 0, map[string]any{})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return a.answered("answers") }),
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	w.nomad.SetUtilization("answers", 0)

	becomes(t, a, "x", byGPUs)
	w.readings(a, reads, 60)
	seconds := idleSeconds(t, a)
	must.Greater(t, 0.05-1e-9, seconds["x"])
	for _, id := range []string{"answers", "busy", "unknown", "mixed"} {
		must.True(t, inUse(statusOf(a.Status(), id)), must.Sprint(id))
		must.MapNotContainsKey(t, seconds, id)
	}

	t.Log("its GPUs are used again")
	w.nomad.SetUtilization("x", 100)
	becomes(t, a, "x", inUse)
	told := map[string]int{}
	for len(events) > 0 {
		if e := <-events; e.Type == "idle" {
			told[e.ID]++
			must.StrContains(t, e.Reason, "its GPUs were idle for")
		}
	}
	must.MapContainsKey(t, told, "x")
	for _, id := range []string{"answers", "busy", "unknown"} {
		must.MapNotContainsKey(t, told, id)
	}
}

// answered reports whether a job's training has answered.
func (c *Controller) answered(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.job(identity.JobKey{Namespace: "default", ID: id})
	return j != nil && j.answered
}

// Utilization is not read without idle_after, nor for jobs whose training answers.
func TestController_ReadsNoGPUsInVain(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.gpusEvery = time.Millisecond
	_, reads := w.faultyStats()
	a := w.idling(func(p *config.Pool) { p.IdleAfter = 0 })
	w.computes("x", 2, 2, 0, map[string]any{})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { s := statusOf(a.Status(), "x"); return s != nil && s.Running == 2 }),
		wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	time.Sleep(50 * time.Millisecond) // it fails only if there are readings
	must.Zero(t, reads.Load())
}

// A failed reading, for any reason, ends the time for which a job has been idle. The first
// of several failures is logged.
func TestController_IdleGPUsThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.gpusEvery = 2 * time.Millisecond
	code, reads := w.faultyStats()
	log := &lines{}
	w.log = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log})
	a := w.idling(func(*config.Pool) {})
	w.computes("x", 2, 2, 0, map[string]any{})
	becomes(t, a, "x", byGPUs)
	for _, n := range []int64{403, 404, 500} {
		t.Log("status", n)
		logged := log.count("reading the utilization of GPUs failed")
		code.Store(n)
		becomes(t, a, "x", inUse)
		w.readings(a, reads, 40)
		must.True(t, inUse(statusOf(a.Status(), "x")))
		must.Eq(t, logged+1, log.count("reading the utilization of GPUs failed"))
		code.Store(0)
		becomes(t, a, "x", byGPUs)
	}
	t.Log("the node loses its connection")
	w.nomad.ChangeNode(0, func(n *nomadtest.Node) { n.State = "disconnected" })
	becomes(t, a, "x", inUse)
	w.nomad.ChangeNode(0, func(n *nomadtest.Node) { n.State = "ready" })
	becomes(t, a, "x", byGPUs)
}

// lines counts lines of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// An elastic job with idle GPUs shrinks to its minimum, stays there, and grows again when
// they are used. A job of fixed size is only reported.
func TestController_IdleGPUsShrink(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.gpusEvery = 2 * time.Millisecond
	_, reads := w.faultyStats()
	var idle atomic.Bool
	w.nomad.OnScale = func(job, _ string, from, to int) {
		if job == "x" && to > from && idle.Load() {
			t.Errorf("x grows from %d to %d", from, to)
		}
		if job == "fixed" && to < from {
			t.Errorf("the other job shrinks from %d to %d", from, to)
		}
	}
	a := w.idling(func(p *config.Pool) { p.IdleAction = config.IdleShrink }, func(c *config.Config) { c.Nomad.Timeout = time.Minute })
	w.computes("fixed", 3, 3, 0, map[string]any{})
	w.computes("x", 1, 5, 50, map[string]any{})
	idle.Store(true)
	w.nomad.SetUtilization("x", 0)
	w.eventually(map[string]int{"x": 1, "fixed": 3})
	must.StrContains(t, last(t, a, "x"), "it is idle and has its minimum until its GPUs are used again (its GPUs were idle since ")
	w.readings(a, reads, 60)
	becomes(t, a, "x", byGPUs)
	becomes(t, a, "fixed", byGPUs)
	w.eventually(map[string]int{"x": 1, "fixed": 3})

	idle.Store(false)
	w.nomad.SetUtilization("x", 50)
	w.eventually(map[string]int{"x": 5, "fixed": 3})
}

// A preemptible job with idle GPUs is suspended until its user scales it.
func TestController_IdleGPUsSuspend(t *testing.T) {
	w := newWorld(t, 1, 8)
	w.gpusEvery = 2 * time.Millisecond
	a := w.idling(func(p *config.Pool) { p.IdleAction = config.IdleSuspend })
	w.computes("p", 4, 4, 50, map[string]any{"preemptible": true})
	w.computes("n", 4, 4, 0, map[string]any{})
	becomes(t, a, "n", byGPUs)
	w.nomad.SetUtilization("p", 0)
	w.eventually(map[string]int{"p": 0, "n": 4})
	must.StrContains(t, last(t, a, "p"), "it is idle and is suspended (its GPUs were idle since ")
	becomes(t, a, "p", func(j *api.JobStatus) bool {
		return j.State == api.StateHeld && strings.Contains(j.HoldReason, "register or scale it") && j.Idle == 0
	})
}

// Under the next leader, the time starts again.
func TestController_IdleGPUsUnderTheNextLeader(t *testing.T) {
	w := newWorld(t, 1, 4)
	w.gpusEvery = 2 * time.Millisecond
	start := func() (*Controller, func()) {
		c := w.steady()
		c.Leader.TTL = 3 * time.Second
		p := c.Pools["default"]
		p.IdleAfter = 50 * time.Millisecond
		c.Pools["default"] = p
		return w.start(c)
	}
	gpus := func(c *Controller) unusedGPUs {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.job(identity.JobKey{Namespace: "default", ID: "x"}).gpus
	}
	a, stop := start()
	w.computes("x", 2, 2, 0, map[string]any{})
	becomes(t, a, "x", byGPUs)
	b, _ := start()
	becomes(t, b, "x", inUse)
	stop()
	must.True(t, gpus(a) == unusedGPUs{})
	becomes(t, b, "x", byGPUs)
	must.True(t, gpus(b).since.After(b.loadedAt))
}

// A job has been idle for as long as the latest readings of all GPUs in all its allocations
// were 0 %, in any order of readings.
func TestGPUWatch_Properties(t *testing.T) {
	key := identity.JobKey{Namespace: "default", ID: "x"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := &gpuWatch{}
		now := time.Unix(1_800_000_000, 0)
		allocs := 1
		zeros := map[heldGPU][]time.Time{} // the unbroken readings of 0 % of each GPU
		for step := range 60 {
			now = now.Add(time.Duration(1+r.IntN(60)) * time.Second)
			if r.IntN(20) == 0 {
				allocs = 1 + r.IntN(3) // a GPU of an allocation that left and came back is new
			}
			job := cluster.JobGPUs{Newest: uint64(allocs)}
			read := map[string]map[string]cluster.Utilization{}
			for i := range 2 {
				if r.IntN(8) > 0 { // it is asked now
					read[fmt.Sprint("node", i)] = map[string]cluster.Utilization{}
				}
			}
			next := map[heldGPU][]time.Time{}
			for i := range allocs {
				node := fmt.Sprint("node", i%2)
				for n := range 2 {
					g := cluster.GPU{Alloc: strconv.Itoa(i), ID: fmt.Sprint(i, n), Node: node, Job: key}
					job.GPUs = append(job.GPUs, g)
					of := heldGPU{g.Alloc, g.ID}
					next[of] = zeros[of]
					if read[node] == nil {
						continue
					}
					switch r.IntN(40) {
					case 0:
						read[node][g.ID] = cluster.Utilization{Percent: 1, At: now}
						next[of] = nil
					case 1:
						next[of] = nil // unknown
					default:
						read[node][g.ID] = cluster.Utilization{At: now}
						next[of] = append(next[of], now)
					}
				}
			}
			zeros = next
			w.note(map[identity.JobKey]cluster.JobGPUs{key: job}, read, now)

			var since, heard time.Time
			want := time.Duration(-1)
			for _, all := range zeros {
				if len(all) == 0 {
					want = 0
					break
				}
				if since.Before(all[0]) {
					since = all[0]
				}
				if end := all[len(all)-1]; heard.IsZero() || end.Before(heard) {
					heard = end
				}
			}
			if want < 0 {
				want = max(0, heard.Sub(since))
			}
			must.Eq(t, want, w.of(job).length(), must.Sprintf("seed %d, step %d", seed, step))
		}
	}
}

// If a client repeats an old reading, the idle time of the GPU does not grow. After a
// while, the GPU has no reading.
func TestUnusedGPU_RepeatedReadings(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	read := cluster.Utilization{At: start.Add(time.Hour)} // its clock is ahead
	u, ok := unusedGPU{}.then(false, read, true, start)
	must.True(t, ok)
	u, ok = u.then(true, cluster.Utilization{At: read.At.Add(time.Second)}, true, start.Add(time.Minute))
	must.True(t, ok)
	must.Eq(t, time.Minute, u.heard.Sub(u.since))
	again, ok := u.then(true, cluster.Utilization{At: u.at}, true, start.Add(2*time.Minute))
	must.True(t, ok)
	must.Eq(t, u, again)
	_, ok = u.then(true, cluster.Utilization{At: u.at}, true, u.heard.Add(staleReading+1))
	must.False(t, ok)
}

// If there are more nodes than one interval can read, they take turns.
func TestGPUWatch_NodesTakeTurns(t *testing.T) {
	jobs := map[identity.JobKey]cluster.JobGPUs{}
	nodes := 2*gpuNodesAtMost + gpuNodesAtMost/2
	for i := range nodes {
		key := identity.JobKey{Namespace: "default", ID: strconv.Itoa(i)}
		jobs[key] = cluster.JobGPUs{GPUs: []cluster.GPU{{Node: fmt.Sprintf("%06d", i)}}}
	}
	w := &gpuWatch{}
	times := map[string]int{}
	for range 5 {
		chosen := w.choose(jobs)
		must.Len(t, gpuNodesAtMost, chosen)
		for _, n := range chosen {
			times[n]++
		}
	}
	must.MapLen(t, nodes, times)
	for _, n := range times {
		must.Eq(t, 2, n)
	}
}
