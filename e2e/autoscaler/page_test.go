// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/autoscaler/browser"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// TestPage looks at a real cluster in a real browser while a training goes on. The training
// has all slots and gives half away when a second one arrives. A third can never start, and
// its name is markup.
func TestPage(t *testing.T) {
	browser.Needed(t)
	if err := train.Torch.Check(root(t)); err != nil {
		t.Skipf("%v (make build torch sets it up)", err)
	}
	driver, config := train.Torch.Plugin(root(t))
	w := startWith(t, cluster.Options{Clients: 2, CPU: 2000, MemoryMB: 4096, Plugins: map[string]string{driver: config}})
	text := fmt.Sprintf(strings.Replace(configuration, "policy \"elastic-fifo\" {}", "policy \"elastic-fifo\" {}\n  queue \"team\" {}", 1), w.Address)
	d := w.agentWith(t, "one", text)
	waitFor(t, time.Minute, "leadership", d.leads)
	w.train(t, train.Torch, "a", "team", 4, "--batch=12", "--step-time=0.3")
	w.ring(t, d, "a", 4)

	p := browser.Open(t, d.address, 1280, 800)
	p.Shows("Pool default", "4 of 4", "started: 0 → 4")
	began := time.Now()
	w.train(t, train.Torch, "b", "team", 2, "--batch=12", "--step-time=0.3")
	p.Shows("shrank: 4 → 2")
	t.Logf("the page showed the resize %s after the job that caused it was submitted", time.Since(began).Round(time.Millisecond))
	w.ring(t, d, "a", 2)
	w.ring(t, d, "b", 2)

	const hostile = `<img'"onerror=hit&lt;>`
	_, job := w.training(t, train.Torch, "c", 50)
	job.ID, job.Name = new(hostile), new(hostile)
	job.TaskGroups[0].Scaling.Max = new(int64(60))
	job.TaskGroups[0].Scaling.Policy = map[string]any{"kolo": []map[string]any{{"min": 50}}}
	must.NoError(t, w.RegisterJob(t.Context(), job))
	p.Shows("Waiting 1", hostile)
	p.Screenshot("real-overview")

	p.Go("/job/default/a")
	p.Shows("Last resize 4 → 2", "0 steps made again", "2 sizes measured", "Loss", "c1", "c2")
	p.Screenshot("real-job")
	p.Accessible("job")
	p.Go("/job/default/" + url.PathEscape(hostile))
	p.Shows("Waits for 50 slots")
	p.Go("/nodes")
	for _, n := range w.Nodes {
		p.Shows(n.Name)
	}
	p.Shows("2 of 2")
	p.Screenshot("real-nodes")
	p.Go("/plan")
	p.Shows("Pool default, policy elastic-fifo", "keep their sizes")
	must.False(t, browser.Eval[bool](p, `!!document.querySelector("main img")`))
	p.Quiet()

	t.Log("another autoscaler takes the place of the first, and knows the slots of before")
	p.Go("/")
	d.kill(os.Interrupt)
	p.Shows("The autoscaler does not answer.")
	restarted := time.Now()
	w.agentWith(t, "two", text, "-http", strings.TrimPrefix(d.address, "http://"))
	waitFor(t, time.Minute, "leadership", d.leads)
	p.Until("the next autoscaler", func(text string) bool {
		return strings.Contains(text, "autoscaler two, updated") && !strings.Contains(text, "does not answer")
	})
	line := timelineOf(t, d)
	must.True(t, line.From.Before(restarted))
	for _, l := range line.Jobs {
		if l.ID == "a" {
			must.Eq(t, 2, l.Slots[len(l.Slots)-1].Slots)
			must.Greater(t, 2, mostSlots(l.Slots), must.Sprint("it had 4 before the restart"))
		}
	}
}

func timelineOf(t *testing.T, d *daemon) (out koloapi.Timeline) {
	t.Helper()
	waitFor(t, time.Minute, "the slots of a", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.address+"/v1/timeline", nil)
		must.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		out = koloapi.Timeline{}
		return json.NewDecoder(resp.Body).Decode(&out) == nil && len(out.Jobs) >= 2
	})
	return out
}

func mostSlots(points []koloapi.SlotsAt) (most int) {
	for _, p := range points {
		most = max(most, p.Slots)
	}
	return most
}
