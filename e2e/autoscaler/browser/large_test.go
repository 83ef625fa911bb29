// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package browser

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
)

// With 1,000 jobs and 10,000 slots, the page stays small, and says what it hides. The time
// of an update is printed, not judged: the machine may be busy.
func TestPage_Large(t *testing.T) {
	s := lab()
	s.status.Jobs, s.lines.Jobs, s.nodes = nil, nil, nil
	now := time.Now()
	for i := range 1000 {
		j := api.JobStatus{JobKey: key(fmt.Sprintf("train-%04d", i)), Pool: "gpu", Queue: "research", State: api.StateRunning, Count: 10, Running: 10, Want: 10, Min: 2, Max: 32, Step: float64(i), Total: 2000, Progress: float64(i) / 2000, Reason: "shares the pool in equal steps"}
		if i >= 800 {
			j.State, j.Running = api.StateWaiting, 0
			j.Waits = &api.Waits{Reason: waiting.InQueue, Sentence: "others came first", Queue: "research", Position: i - 799, Slots: 2, Since: now}
		}
		s.status.Jobs = append(s.status.Jobs, j)
		l := api.JobLine{JobKey: j.JobKey, Pool: "gpu"}
		for k := range 20 {
			l.Slots = append(l.Slots, api.SlotsAt{At: now.Add(-time.Duration(120-5*k)*time.Minute + time.Duration(i)*time.Second/10), Slots: 8 + (i+k)%5})
		}
		s.lines.Jobs = append(s.lines.Jobs, l)
	}
	for i := range 1250 {
		n := api.Node{ID: strconv.Itoa(i), Name: fmt.Sprintf("gpu-%04d", i), Pool: "gpu", Path: []string{fmt.Sprintf("rack-%d", i/16), fmt.Sprintf("gpu-%04d", i)}, State: "ready", Slots: 8, Held: []api.Held{}}
		for k := range 2 {
			n.Held = append(n.Held, api.Held{JobKey: pointer(key(fmt.Sprintf("train-%04d", (2*i+k)%800))), Slots: 4, Elastic: true})
		}
		s.nodes = append(s.nodes, n)
	}
	s.status.Pools[0].Capacity, s.status.Pools[0].Used, s.lines.Pools[0].Capacity = 10_000, 8000, []api.SlotsAt{{At: now.Add(-2 * time.Hour), Slots: 10_000}}
	p := Open(t, serve(t, s).URL, 1280, 800)
	Eval[bool](p, `(() => { window.renders = []; new PerformanceObserver(l => window.renders.push(...l.getEntriesByName("kolo-render").map(e => e.duration))).observe({ type: "measure", buffered: true }); return true; })()`)
	p.Shows("train-0000", "900 more are not shown", "100 more are not shown", "10,000")
	size := func(view string, most int) {
		t.Helper()
		n := Eval[int](p, `document.querySelectorAll("*").length`)
		times := Eval[[]float64](p, `window.renders.splice(0)`)
		slices.Sort(times)
		if len(times) > 0 {
			t.Logf("%s: %d elements; %d updates, median %.1f ms, longest %.1f ms", view, n, len(times), times[len(times)/2], times[len(times)-1])
		}
		must.Less(t, most, n)
	}
	updates := func(n int) {
		p.Until("updates", func(string) bool { return Eval[int](p, `window.renders.length`) >= n })
	}
	updates(3)
	size("overview", 5000)
	p.Screenshot("large")
	p.Go("/nodes")
	p.Shows("gpu-0199", "1,050 more nodes are not shown")
	updates(2)
	size("nodes", 8000)
	p.Do(chromedp.SendKeys(`input[type=search]`, "gpu-1249", chromedp.ByQuery))
	p.Until("one node", func(text string) bool {
		return strings.Contains(text, "gpu-1249") && !strings.Contains(text, "gpu-0001")
	})
	p.Quiet()
}
