// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// promised is the configuration of TestQueues_Promises: a pool for each of its parts. Each
// pool has one node of poolSlots slots, c1 to c5.
const promised = `
nomad {
  address = "ADDRESS"
  resync  = "1h" # events must suffice
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold     = "1s"
  tick     = "2s"
  progress = "500ms"
}
pool "c1" {
  cpu_slot = 1000
  policy "elastic-fifo" {}
  queue "red" {
    namespaces = ["red"]
  }
  queue "blue" {
    namespaces = ["blue"]
    guarantee  = 3
    budget {
      slot_hours = 0.005
      beyond     = "borrow"
    }
  }
  queue "green" {
    namespaces = ["green"]
    budget {
      slot_hours = 0.002
      beyond     = "stop"
    }
  }
}
pool "c2" {
  cpu_slot    = 1000
  idle_after  = "1m"
  idle_action = "suspend"
  policy "elastic-fifo" {}
  queue "red" {
    namespaces      = ["red"]
    max_time        = "1m"
    max_time_action = "stop"
  }
  queue "green" {
    namespaces = ["green"]
    max_jobs   = 1
    per_namespace {
      limit = 2
    }
  }
}
pool "c3" {
  cpu_slot  = 1000
  half_life = "1h"
  policy "elastic-fifo" {}
  queue "red" {
    namespaces = ["red"]
    weight     = 1
  }
  queue "blue" {
    namespaces = ["blue"]
    weight     = 1
  }
}
pool "c4" {
  cpu_slot = 1000
  policy "elastic-fifo" {}
  queue "red" {
    namespaces = ["red"]
    order      = "strict"
  }
  queue "blue" {
    namespaces = ["blue"]
    order      = "skip"
  }
  queue "green" {
    namespaces    = ["green"]
    reclaim_after = "10s"
  }
  # reservations
}
pool "c5" {
  cpu_slot = 1000
  policy "kolo" {}
  queue "red" {
    namespaces = ["red"]
    guarantee  = 2
  }
  queue "blue" {
    namespaces = ["blue"]
  }
  queue "green" {
    namespaces = ["green"]
  }
}
`

// poolSlots is the capacity of each pool of TestQueues_Promises.
const poolSlots = 5

// promises is the cluster of TestQueues_Promises and its autoscaler.
type promises struct {
	*world
	*daemon
	python string
	events *stream
	mu     sync.Mutex // of the configuration
}

// TestQueues_Promises tests the settings of queues that need no training, each with what
// Nomad runs and with what a user reads. The jobs sleep, and some report steps.
func TestQueues_Promises(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("requires python3, which answers for trainings")
	}
	if os.Getenv(givenNomad) != "" {
		t.Skip("requires a node pool for each client")
	}
	w := startWith(t, cluster.Options{Clients: 5, CPU: poolSlots * 1000, MemoryMB: 1024, ACL: true, Grace: cluster.Patient, ClientHCL: `node_pool = "@NAME@"`})
	_, err = w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: "kolo", Rules: strings.Replace(minimal, `namespace "default"`, `namespace "*"`, 1)}, nil)
	must.NoError(t, err)
	p := &promises{world: w, python: python, daemon: w.agentWith(t, "one", strings.Replace(promised, "ADDRESS", w.Address, 1))}
	waitFor(t, time.Minute, "leadership", p.leads)
	p.events = p.listen(t)
	for _, ns := range []string{"red", "blue", "green"} { // created while it runs
		_, err := w.API.Namespaces().Register(&api.Namespace{Name: ns}, nil)
		must.NoError(t, err)
	}
	t.Run("pools", func(t *testing.T) {
		for _, part := range []struct {
			name string
			run  func(*testing.T)
		}{{"longest times", p.times}, {"shares over time", p.past}, {"order", p.orders}, {"budget", p.budgets}, {"hostile reporters", p.liars}} { // the longest first
			t.Run(part.name, func(t *testing.T) {
				t.Parallel()
				part.run(t)
			})
		}
	})
}

// budgets spends budgets in pool c1.
func (p *promises) budgets(t *testing.T) {
	t.Log("a job that could not give slots back leaves the guarantees of others free")
	p.submit(t, "c1", "red/rigid", "min = 3\nmax = 3")
	p.eventuallyReads(t, p.daemon, "rigid", "waits-for-guarantee: it is not preemptible, and its minimum of 3 slots would take what other queues are guaranteed")
	p.removeIn(t, "red/rigid")

	t.Log("a queue has its guarantee until its budget is spent")
	p.submit(t, "c1", "red/rich", "min = 1")
	p.eventuallyIn(t, map[string]int{"red/rich": 5})
	p.submit(t, "c1", "blue/poor", "min = 1")
	p.eventuallyIn(t, map[string]int{"red/rich": 4, "blue/poor": 1})
	must.GreaterEq(t, 3, slices.Max(p.counts(t, "blue/poor")), must.Sprint("it never had its guarantee"))
	p.submit(t, "c1", "blue/later", "min = 1")
	p.eventuallyReads(t, p.daemon, "later", "budget: ")
	b := p.queue(t, "c1", "blue").Budget
	must.GreaterEq(t, b.SlotHours, b.Used)

	t.Log("beyond it, it borrows what no other wants")
	p.removeIn(t, "red/rich")
	p.eventuallyIn(t, map[string]int{"blue/poor": 3, "blue/later": 2})
	p.removeIn(t, "blue/poor", "blue/later")

	t.Log(`beyond = "stop": it has no more than it cannot lose, although slots are free`)
	p.submit(t, "c1", "green/lent", "min = 1\npreemptible = true")
	p.submit(t, "c1", "green/firm", "min = 1")
	p.eventuallyReads(t, p.daemon, "lent", "budget: ")
	p.eventuallyIn(t, map[string]int{"green/lent": 0, "green/firm": 1})
	must.GreaterEq(t, 1, slices.Max(p.counts(t, "green/lent")), must.Sprint("it never ran"))

	t.Log("a reload raises the budget")
	p.edit(t, "slot_hours = 0.002", "slot_hours = 1000")
	p.eventuallyIn(t, map[string]int{"green/lent": 3, "green/firm": 2})
}

// times ends times in pool c2: those of max_time and of idle_after.
func (p *promises) times(t *testing.T) {
	p.answers(t, "blue/idle", answer("blue/idle", 1, 100))
	p.answers(t, "blue/stands", answer("blue/stands", 2, 100))
	p.answers(t, "green/known", answer("green/known", 1, 4))
	p.submit(t, "c2", "red/timed", "min = 1\nmax = 1")
	p.submitAnswering(t, "c2", "blue/idle", "min = 1\nmax = 1\npreemptible = true")
	p.submitAnswering(t, "c2", "blue/stands", "min = 1\nmax = 2")
	p.submitAnswering(t, "c2", "green/known", "min = 1\nmax = 1")
	p.eventuallyIn(t, map[string]int{"red/timed": 1, "blue/idle": 1, "blue/stands": 2, "green/known": 1})

	t.Log("a job waits for the other of its queue, whose length is known")
	p.submit(t, "c2", "green/next", "min = 1\nmax = 1")
	p.eventuallyReads(t, p.daemon, "next", `over-limit: 1 jobs of queue "green" run, and its max_jobs is 1`)
	p.submit(t, "c2", "green/last", "min = 1\nmax = 1")
	expected := func(id string) *koloapi.Expected {
		var e *koloapi.Expected
		waitFor(t, 3*time.Minute, "the expected start of "+id, func() bool {
			if waits := p.job(t, id).Waits; waits != nil {
				e = waits.Expected
			}
			return e != nil && !e.Latest.IsZero()
		})
		t.Logf("at %s, %s is expected to start %s to %s later", e.Made.Format(time.TimeOnly), id, e.Earliest.Sub(e.Made), e.Latest.Sub(e.Made))
		return e
	}
	e := expected("next")
	must.Between(t, 900*time.Second, e.Earliest.Sub(e.Made), 1100*time.Second, must.Sprint("996 steps of a second are left"))
	must.Between(t, e.Earliest.Sub(e.Made), e.Latest.Sub(e.Made), 1100*time.Second)
	e = expected("last") // no one knows how long the next job takes
	must.Greater(t, 996*time.Second, e.Earliest.Sub(e.Made))
	must.Greater(t, 10*time.Minute, e.Latest.Sub(e.Earliest))
	for _, args := range [][]string{{"queue", "-pool=c2"}, {"job", "green/last"}} {
		out, err := p.kolo(args...)
		must.NoError(t, err, must.Sprint(out))
		must.StrContains(t, out, " – ")
	}
	p.removeIn(t, "green/known")
	p.eventuallyIn(t, map[string]int{"green/next": 1, "green/last": 0})

	t.Log("its time is over, and it is stopped")
	p.eventuallyReads(t, p.daemon, "timed", `over-limit: it ran for 1m0s, the max_time of queue "red", and is stopped; register it again`)
	t.Log("jobs that make no step are idle; one is suspended, and one keeps its minimum")
	p.eventuallyIn(t, map[string]int{"red/timed": 0, "blue/idle": 0, "blue/stands": 1})
	for _, id := range []string{"idle", "stands"} {
		p.events.eventually(t, "idle", "blue/"+id)
	}
	waitFor(t, time.Minute, "the idle job to be held", func() bool {
		j := p.job(t, "idle")
		return j.State == koloapi.StateHeld && strings.Contains(j.HoldReason, "register or scale it")
	})
	out, err := p.kolo("job", "blue/idle")
	must.NoError(t, err)
	must.StrContains(t, out, "it is idle and is suspended (no step since ")

	t.Log("they run again when their users register them again, or when they make steps")
	p.answers(t, "blue/stands", answer("blue/stands", 1, 101))
	p.submit(t, "c2", "red/timed", "min = 1\nmax = 1")
	p.submitAnswering(t, "c2", "blue/idle", "min = 1\nmax = 1\npreemptible = true")
	p.eventuallyIn(t, map[string]int{"red/timed": 1, "blue/idle": 1, "blue/stands": 2})
}

// past shares pool c3 over time.
func (p *promises) past(t *testing.T) {
	t.Log("the queue that borrowed more before has less now")
	p.submit(t, "c3", "red/first", "min = 1\npreemptible = true")
	p.eventuallyIn(t, map[string]int{"red/first": 5})
	p.submit(t, "c3", "blue/second", "min = 1\npreemptible = true")
	p.eventuallyIn(t, map[string]int{"red/first": 2, "blue/second": 3}) // when the past counts next
	red, blue := p.queue(t, "c3", "red"), p.queue(t, "c3", "blue")
	must.Greater(t, *blue.Decayed, *red.Decayed)

	t.Log(`half_life = "0s" forgets it`)
	p.edit(t, `half_life = "1h"`, `half_life = "0s"`)
	p.eventuallyIn(t, map[string]int{"red/first": 3, "blue/second": 2})
}

// orders fills pool c4 in the order of its queues.
func (p *promises) orders(t *testing.T) {
	t.Log("strict: nothing overtakes the first that waits")
	p.submit(t, "c4", "red/holder", "min = 3\nmax = 3")
	p.eventuallyIn(t, map[string]int{"red/holder": 3})
	p.submit(t, "c4", "red/gang", "min = 4\nmax = 4")
	p.eventuallyReads(t, p.daemon, "gang", "no-room: ")
	p.submit(t, "c4", "red/small", "min = 1\nmax = 1")
	p.eventuallyReads(t, p.daemon, "small", `in-queue: `)
	must.SliceEmpty(t, p.counts(t, "red/small"))
	p.removeIn(t, "red/holder")
	p.eventuallyIn(t, map[string]int{"red/gang": 4, "red/small": 1})
	p.removeIn(t, "red/gang", "red/small")

	t.Log("skip: what does not delay it overtakes it")
	p.submit(t, "c4", "blue/holder", "min = 3\nmax = 3")
	p.eventuallyIn(t, map[string]int{"blue/holder": 3})
	p.submit(t, "c4", "blue/crowd", "min = 4\nmax = 4")
	p.eventuallyReads(t, p.daemon, "crowd", "no-room: ")
	p.submit(t, "c4", "blue/one", "min = 1\nmax = 1")
	p.eventuallyIn(t, map[string]int{"blue/holder": 3, "blue/one": 1})
	p.submit(t, "c4", "blue/two", "min = 1\nmax = 1")
	p.eventuallyReads(t, p.daemon, "two", "in-queue: ")
	p.submit(t, "c4", "blue/loan", "min = 1\nmax = 1\npreemptible = true")
	p.eventuallyIn(t, map[string]int{"blue/holder": 3, "blue/crowd": 0, "blue/one": 1, "blue/two": 0, "blue/loan": 1})
	p.removeIn(t, "blue/holder")
	p.eventuallyIn(t, map[string]int{"blue/crowd": 4, "blue/one": 1, "blue/two": 0, "blue/loan": 0})
	p.removeIn(t, "blue/loan", "blue/two", "blue/one", "blue/crowd")

	t.Log("reclaim_after: what others hold comes back after a time")
	p.submit(t, "c4", "red/elastic", "min = 1")
	p.eventuallyIn(t, map[string]int{"red/elastic": 5})
	p.submit(t, "c4", "green/patient", "min = 1\npreemptible = true")
	p.eventuallyIn(t, map[string]int{"red/elastic": 3, "green/patient": 2})
	must.GreaterEq(t, 10*time.Second, p.waited(t, "green/patient"))
	p.removeIn(t, "green/patient")
	p.eventuallyIn(t, map[string]int{"red/elastic": 5})

	t.Log("a reservation keeps jobs out that could not give its slots back")
	reservation := func(from time.Time) string {
		return fmt.Sprintf("  reservation \"demo\" {\n    queue = \"blue\"\n    slots = 4\n    from  = %q\n    until = %q\n  }\n",
			from.Format(time.RFC3339), from.Add(time.Hour).Format(time.RFC3339))
	}
	tomorrow := reservation(time.Now().Add(24 * time.Hour))
	p.edit(t, "  # reservations\n", tomorrow)
	p.submit(t, "c4", "green/fixed", "min = 2\nmax = 2")
	p.eventuallyReads(t, p.daemon, "fixed", "reservation: it is not preemptible, and its minimum of 2 slots would take slots that are reserved for later")
	p.submit(t, "c4", "blue/demo", "min = 4\nmax = 4")
	p.eventuallyReads(t, p.daemon, "demo", "no-room: ")
	p.eventuallyIn(t, map[string]int{"red/elastic": 5, "green/fixed": 0, "blue/demo": 0})

	t.Log("when it begins, elastic jobs shrink out of it")
	p.edit(t, tomorrow, reservation(time.Now().Add(3*time.Second)))
	p.eventuallyIn(t, map[string]int{"red/elastic": 1, "green/fixed": 0, "blue/demo": 4})
}

// liars lets jobs of one queue of pool c5 report falsehoods, come and go. The other queues
// never have less than they are entitled to.
func (p *promises) liars(t *testing.T) {
	jobs := []string{"green/liar0", "green/liar1", "green/liar2"}
	lie := func(round int) {
		for kind, name := range jobs {
			p.answers(t, name, falsehoods(kind, round))
		}
	}
	submit := func(name string) {
		p.submitAnswering(t, "c5", name, "min = 1\npreemptible = true\nweight = 1000\npriority = 100")
	}
	heard := func(job string, round int) {
		_, id, _ := strings.Cut(job, "/")
		waitFor(t, 3*time.Minute, "the lies of "+id, func() bool { return p.job(t, id).Step == lied(round) })
	}
	lie(0)
	for _, name := range jobs {
		submit(name)
		heard(name, 0)
	}
	p.submit(t, "c5", "red/honest", "min = 1")
	p.submit(t, "c5", "blue/other", "min = 1")
	entitled := map[string]int{"red/honest": 3, "blue/other": 1}
	p.eventuallyIn(t, entitled)
	began := map[string]int{}
	for name := range entitled {
		began[name] = len(p.counts(t, name))
	}

	t.Log("they lie, end and come again")
	for round := 1; round <= 3; round++ {
		lie(round)
		out, err := p.kolo("policy", "set", "-pool=c5", fmt.Sprintf("kolo(period=%d)", 600+round)) // plans again
		must.NoError(t, err, must.Sprint(out))
		name := jobs[round%len(jobs)]
		p.removeIn(t, name)
		submit(name)
		waitFor(t, 3*time.Minute, "the next lies to be heard", func() bool {
			return slices.ContainsFunc(jobs, func(job string) bool {
				_, id, _ := strings.Cut(job, "/")
				return p.job(t, id).Step == lied(round)
			})
		})
	}
	p.eventuallyIn(t, entitled)
	for name, least := range entitled {
		counts := p.counts(t, name)
		must.GreaterEq(t, least, slices.Min(counts[began[name]-1:]), must.Sprintf("%s had the counts %v", name, counts))
	}
}

// lied returns the step that liars claim in a round.
func lied(round int) float64 { return 1000 + float64(round) }

// falsehoods returns the answer of a training that lies, in one of several ways.
func falsehoods(kind, round int) string {
	answer := map[string]any{
		"job": fmt.Sprintf("liar%d", kind), "namespace": "green", "size": 1, "step": lied(round), "total_steps": lied(round) + 1,
		"step_seconds": map[string]any{"1": map[string]any{"mean": 1, "n": 100}},
	}
	switch kind {
	case 0: // a curve that is far above linear, and one step left
		answer["step_seconds"] = map[string]any{"1": map[string]any{"mean": 1000, "n": 100}, "5": map[string]any{"mean": 1e-6, "n": 100000}, "1000": map[string]any{"mean": 1e-9, "n": 100000}}
	case 1: // without end
		answer["total_steps"] = 1e300
	case 2: // resizes that take hours
		gap, lost := 36000.0, 1e12
		answer["resizes"] = []map[string]any{
			{"from": 0, "to": 1, "cause": "start", "gap_seconds": gap, "lost_steps": lost, "time": time.Now().Unix()},
			{"from": 1, "to": 5, "cause": "resize", "gap_seconds": gap, "lost_steps": lost, "time": time.Now().Unix()},
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err) // its values can be encoded
	}
	return string(text)
}

// answer returns the answer of a training that needs one second for each of its 1000 steps.
func answer(name string, size, step int) string {
	ns, id, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`{"job":%q,"namespace":%q,"size":%d,"step":%d,"total_steps":1000,"step_seconds":{"%d":{"mean":1,"n":100}}}`, id, ns, size, step, size)
}

// answers sets the answer of a job's training.
func (p *promises) answers(t *testing.T, name, text string) {
	t.Helper()
	must.NoError(t, replace(p.answerOf(name), text))
}

// answerOf returns the file with the answer of a job's training.
func (p *promises) answerOf(name string) string {
	return filepath.Join(p.dir, strings.ReplaceAll(name, "/", ".")+".json")
}

// replace replaces a file atomically, because readers may open it at any time.
func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// submit registers a job of a pool, by namespace and name. Its workers sleep.
func (p *promises) submit(t *testing.T, pool, name, kolo string) {
	t.Helper()
	p.submitJob(t, pool, name, kolo, jobHCL)
}

// submitAnswering registers a job of a pool whose workers answer for the training.
func (p *promises) submitAnswering(t *testing.T, pool, name, kolo string) {
	t.Helper()
	head, tail, _ := strings.Cut(jobHCL, "    scaling {")
	hcl := head + `
    network {
      port "status" {}
    }
    service {
      name     = "NAME"
      provider = "nomad"
      port     = "status"
    }
    scaling {` + tail
	server := strings.NewReplacer("FILE", p.answerOf(name)).Replace(statusServer)
	hcl = strings.NewReplacer(`"/bin/sleep"`, fmt.Sprintf("%q", p.python), `["100000"]`, "[\"-c\", <<-EOT"+server+"            EOT\n        ]").Replace(hcl)
	p.submitJob(t, pool, name, kolo, hcl)
}

func (p *promises) submitJob(t *testing.T, pool, name, kolo, hcl string) {
	t.Helper()
	ns, id, _ := strings.Cut(name, "/")
	hcl = strings.NewReplacer("kolo { KOLO }", "kolo {\n"+kolo+"\n}", `type = "batch"`, fmt.Sprintf("type = \"batch\"\n  namespace = %q\n  node_pool = %q", ns, pool), "NAME", id).Replace(hcl)
	job, err := p.API.Jobs().ParseHCL(hcl, true)
	must.NoError(t, err)
	_, _, err = p.API.Jobs().Register(job, &api.WriteOptions{Namespace: ns})
	must.NoError(t, err)
}

// edit replaces text in the autoscaler's configuration, and reloads it.
func (p *promises) edit(t *testing.T, before, after string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := os.ReadFile(p.config)
	must.NoError(t, err)
	must.StrContains(t, string(text), before)
	must.NoError(t, replace(p.config, strings.Replace(string(text), before, after, 1)))
	must.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
}

// counts returns the counts that a job had, oldest first, as Nomad records them.
func (p *promises) counts(t *testing.T, name string) (counts []int) {
	t.Helper()
	ns, id, _ := strings.Cut(name, "/")
	s, _, err := p.API.Jobs().ScaleStatus(id, &api.QueryOptions{Namespace: ns})
	must.NoError(t, err)
	for _, e := range s.TaskGroups["workers"].Events {
		if e.Count != nil {
			counts = append(counts, int(*e.Count))
		}
	}
	slices.Reverse(counts)
	return counts
}

// waited returns the time from the registration of a job to the placement of its first worker.
func (p *promises) waited(t *testing.T, name string) time.Duration {
	t.Helper()
	ns, id, _ := strings.Cut(name, "/")
	allocs, _, err := p.API.Jobs().Allocations(id, true, &api.QueryOptions{Namespace: ns})
	must.NoError(t, err)
	must.SliceNotEmpty(t, allocs)
	versions, _, _, err := p.API.Jobs().Versions(id, false, &api.QueryOptions{Namespace: ns})
	must.NoError(t, err)
	first, registered := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, a := range allocs {
		first = min(first, a.CreateTime)
	}
	for _, v := range versions {
		registered = min(registered, *v.SubmitTime)
	}
	return time.Duration(first - registered)
}

// queue returns a queue as kolo queue shows it.
func (p *promises) queue(t *testing.T, pool, name string) koloapi.QueueUse {
	t.Helper()
	out, err := p.kolo("queue", "-json", "-pool="+pool, "-queue="+name)
	must.NoError(t, err, must.Sprint(out))
	var pools []struct {
		Queues []struct {
			koloapi.QueueUse
			Name string
		}
	}
	must.NoError(t, json.Unmarshal([]byte(out), &pools), must.Sprint(out))
	must.SliceLen(t, 1, pools)
	must.SliceLen(t, 1, pools[0].Queues)
	must.Eq(t, name, pools[0].Queues[0].Name)
	return pools[0].Queues[0].QueueUse
}

// job returns the status of a job. It returns an empty one if there is none.
func (p *promises) job(t *testing.T, id string) koloapi.JobStatus {
	t.Helper()
	s, err := p.status()
	must.NoError(t, err)
	for _, j := range s.Jobs {
		if j.ID == id {
			return j
		}
	}
	return koloapi.JobStatus{}
}

// stream holds the events of an autoscaler.
type stream struct {
	mu     sync.Mutex
	events []koloapi.Event
}

// listen keeps the autoscaler's events until the test ends.
func (p *promises) listen(t *testing.T) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.address+"/v1/events", nil)
	must.NoError(t, err)
	s := &stream{}
	go s.follow(req)
	return s
}

// follow reads events until the answer of a request ends.
func (s *stream) follow(req *http.Request) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // no event arrives, and tests that wait for one fail
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		var e koloapi.Event
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil {
			s.mu.Lock()
			s.events = append(s.events, e)
			s.mu.Unlock()
		}
	}
}

// eventually waits for an event of a job.
func (s *stream) eventually(t *testing.T, typ, job string) {
	t.Helper()
	ns, id, _ := strings.Cut(job, "/")
	waitFor(t, time.Minute, "the event "+typ+" of "+job, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.events, func(e koloapi.Event) bool { return e.Type == typ && e.Namespace == ns && e.ID == id })
	})
}
