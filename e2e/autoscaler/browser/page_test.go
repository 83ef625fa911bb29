// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/server"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Every view shows its content, in light and dark, wide and narrow. The console has no
// message, and axe-core finds no serious problem.
func TestPage_Views(t *testing.T) {
	p := Open(t, serve(t, lab()).URL, 1280, 800)
	for _, v := range []struct {
		name, hash string
		shows      []string
	}{
		{"overview", "/", []string{"Pool gpu", "protein-fold", "research takes back 4 slots", "Entitled now", "93 %", "1 job hangs", "straggler on gpu-03", "3 slots are free, but each of these jobs needs at least 4."}},
		{"nodes", "/nodes", []string{"gpu / rack-1", "gpu-04", "Xid 79", "llama-pretrain 4, resnet-sweep 4", "8 slots unused: whisper-finetune hangs", "only with problems (2)"}},
		{"plan", "/plan", []string{"What the policies would do now", "Another policy", "3 jobs with workers keep their sizes, and 3 jobs without workers get none"}},
		{"job", "/job/default/resnet-sweep", []string{"Last change 12 → 8 workers", "12 → 8", "240 ms", "91 %", "Samples per second", "0, 1, 2, 3", "GPU-00005127", "ring of 12 slots made no step for 1 min 1 s", "Rank 3 suspect: sleeping in ppoll", "_try_get_data", "child process 830 python3: in a sleep that no signal ends in openat", "10 ranks: 0-2, 4-10: sleeping in futex", "did not answer have the ranks 11", "512 samples", "2 passes, efficiency 78 %, learning rate × 6.24"}},
		{"straggler", "/job/default/llama-pretrain", []string{"rank 5 on node gpu-03 comes last in 92 % of steps, 140 ms after the median"}},
		{"hangs", "/job/default/whisper-finetune", []string{"no step for 6 min"}},
		{"waits", "/job/default/protein-fold", []string{"number 1 in queue research", "Expected start"}},
	} {
		p.Go(v.hash)
		p.Shows(v.shows...)
		p.Scheme("light")
		p.Screenshot(v.name + "-light")
		p.Accessible(v.name + " light")
		p.Scheme("dark")
		p.Screenshot(v.name + "-dark")
		p.Accessible(v.name+" dark", "color-contrast", "link-in-text-block") // the rules about colours
		p.Size(420, 900)
		p.Screenshot(v.name + "-narrow")
		p.Accessible(v.name+" narrow", "scrollable-region-focusable", "target-size") // those about space
		wide := Eval[int](p, `document.documentElement.scrollWidth`)
		must.LessEq(t, 420, wide, must.Sprintf("%s scrolls sideways", v.name))
		p.Size(1280, 800)
	}
	must.Eq(t, 0, Eval[int](p, `document.querySelectorAll(".player").length`)) // of a replay only
	p.Quiet()
}

// visible returns the text of an element with a role that contains a name, if the window
// shows all of it without scrolling.
const visible = `((role, name) => {
	const all = [...document.querySelectorAll(role)].filter(e => e.innerText.includes(name));
	const e = all.find(e => { const b = e.getBoundingClientRect(); return b.height > 0 && b.top >= 0 && b.bottom <= innerHeight && b.right <= innerWidth; });
	return e ? e.innerText : "";
})`

// Four questions of users are answered at 1280×800 without scrolling.
func TestPage_FourQuestions(t *testing.T) {
	p := Open(t, serve(t, lab()).URL, 1280, 800)
	for _, q := range []struct {
		question, hash, role, name string
		answers                    []string
	}{
		{"why does my job wait, and until when?", "/", "tr", "protein-fold", []string{"came first", "unknown"}},
		{"and on its own view", "/job/default/protein-fold", "li", "Waits", []string{"16 slots", "llama-pretrain, whisper-finetune"}},
		{"who took my GPUs?", "/", "li", "12 → 8", []string{"resnet-sweep", "for llama-pretrain"}},
		{"did the last resize cost anything?", "/job/default/resnet-sweep", "li", "Last resize", []string{"240 ms without training", "0 steps made again"}},
		{"which rank hangs?", "/job/default/whisper-finetune", "li", "Hangs", []string{"no step for 6 min", "8 ranks still run", "kolo stacks whisper-finetune", "Logs of its ranks"}},
		{"which rank is slow?", "/job/default/llama-pretrain", "li", "Straggler", []string{"rank 5 on node gpu-03", "92 % of steps", "140 ms after the median"}},
		{"does a job hang?", "/", "section", "1 job hangs", []string{"whisper-finetune holds 8 slots", "no step for 6 min"}},
		{"which GPUs are held for nothing?", "/nodes", "tr", "gpu-03", []string{"8 slots unused: whisper-finetune hangs"}},
		{"does my queue get what it is owed?", "/", "tr", "4 over its guarantee", []string{"teaching", "3 below the 11 that it is entitled to"}},
	} {
		p.Go(q.hash)
		p.Shows(q.answers[0])
		text := ""
		p.Until(q.question, func(string) bool {
			text = Eval[string](p, fmt.Sprintf("%s(%q, %q)", visible, q.role, q.name))
			return text != ""
		})
		for _, want := range q.answers {
			must.StrContains(t, text, want, must.Sprint(q.question))
		}
	}
}

// The line about a hang leads to the logs of the ranks. A job that has never run has no empty
// sections, and one of fixed size has no button to pause its scaling.
func TestPage_OnlyWhatHelps(t *testing.T) {
	p := Open(t, serve(t, lab()).URL+"/#/job/default/whisper-finetune", 1280, 800)
	p.Shows("Logs of its ranks", "Pause scaling", "Never resized.")
	p.Do(chromedp.Click(".answers .bad button:last-of-type", chromedp.ByQuery))
	must.Eq(t, "allocs-title", Eval[string](p, `document.activeElement.id`))
	p.Go("/job/default/protein-fold")
	p.Shows("number 1 in queue research")
	must.Eq(t, 1, Eval[int](p, `document.querySelectorAll("main .card").length`))
	must.StrNotContains(t, p.Text(), "Pause scaling")
	Eval[bool](p, `(() => { [...document.querySelectorAll(".waits a")].find(a => a.textContent.trim() === "llama-pretrain").click(); return true; })()`)
	p.Shows("Where the time of its slots went")
	must.Eq(t, "llama-pretrain – Kolo", Eval[string](p, `document.title`))
}

// On a phone, why a job waits and until when are in sight without scrolling sideways, and so is
// the state of each node.
func TestPage_NarrowWaiting(t *testing.T) {
	p := Open(t, serve(t, lab()).URL, 400, 800)
	p.Shows("protein-fold")
	p.Screenshot("narrow-top")
	p.Do(chromedp.ScrollIntoView(".waiting", chromedp.ByQuery))
	p.Screenshot("narrow-waiting")
	for _, column := range []string{"Why it waits", "Expected start"} {
		must.True(t, Eval[bool](p, fmt.Sprintf(`(() => { const b = [...document.querySelectorAll(".waiting th")].find(e => e.innerText === %q).getBoundingClientRect(); return b.width > 0 && b.left >= 0 && b.right <= innerWidth; })()`, column)), must.Sprint(column))
	}
	p.Shows("16 slots, research, waited")
	p.Go("/nodes")
	p.Shows("8 slots unused: whisper-finetune hangs")
	p.Screenshot("narrow-nodes")
	must.LessEq(t, 400, Eval[float64](p, `Math.max(...[...document.querySelectorAll(".nodes td:last-child")].map(e => e.getBoundingClientRect().right))`))
}

// The last report of a complete training may come before its last step; "278 of 280 steps"
// would stay for good.
func TestPage_ACompleteJobIsComplete(t *testing.T) {
	s := lab()
	s.status.Jobs = append(s.status.Jobs, api.JobStatus{JobKey: key("done"), Pool: "gpu", State: api.StateComplete, Min: 1, Max: 2, Step: 278, Total: 280, Progress: 1, Completed: time.Now()})
	p := Open(t, serve(t, s).URL, 1280, 800)
	p.Shows("done")
	row := Eval[string](p, `[...document.querySelectorAll(".jobs tr")].find(e => e.innerText.startsWith("done")).innerText`)
	must.StrContains(t, row, "complete")
	must.StrNotContains(t, row, "278")
	p.Go("/job/default/done")
	p.Shows("Completed", "Progress")
	facts := Eval[string](p, `document.querySelector(".facts").innerText`)
	must.StrContains(t, facts, "complete")
	must.StrNotContains(t, facts, "278")
}

// However many events there are, what is costly to answer is asked at most every two seconds.
func TestPage_Storm(t *testing.T) {
	s := lab()
	p := Open(t, serve(t, s).URL, 1280, 800)
	p.Shows("protein-fold")
	asked := func() int { defer s.locked()(); return s.asked }
	before, began := asked(), time.Now()
	for i := range 20 {
		s.change(func() {}, api.Event{Time: time.Now(), Type: "leader", Reason: fmt.Sprintf("event %d", i)})
		time.Sleep(100 * time.Millisecond)
	}
	p.Shows("event 19")
	most := 2 + int(time.Since(began)/(2*time.Second))
	must.LessEq(t, most, asked()-before)
}

// Assistive technology finds tables, charts and views by role and name, and the keyboard
// reaches what the mouse does.
func TestPage_RolesAndKeyboard(t *testing.T) {
	p := Open(t, serve(t, lab()).URL, 1280, 800)
	p.Shows("protein-fold")
	p.Until("the strip", func(string) bool { return len(p.Nodes("image")) > 0 })
	has := func(role, name string) {
		t.Helper()
		nodes := p.Nodes(role)
		must.True(t, slices.ContainsFunc(nodes, func(n Node) bool { return strings.Contains(n.Name, name) }), must.Sprint(role, " ", name, ": ", nodes))
	}
	has("image", "Now 28 of 31 are held.")
	has("table", "Jobs that wait, in order")
	has("table", "Elastic jobs of the pool")
	has("navigation", "Views")
	has("searchbox", "Filter jobs")
	has("radio", "30 min")
	has("button", "Pause all scaling")

	p.Do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter)) // skips to the content
	must.Eq(t, "pool-title", Eval[string](p, `document.activeElement.id`))
	p.Do(chromedp.Focus("nav a[href='#/nodes']", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	p.Shows("gpu / rack-1")
	p.Until("the focus on the title", func(string) bool { return Eval[string](p, `document.activeElement.id`) == "nodes-title" })
	must.Eq(t, "Nodes – Kolo", Eval[string](p, `document.title`))
}

// A tenant's names and reasons are text everywhere, also names of members of objects.
func TestPage_HostileTextIsText(t *testing.T) {
	evil := `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>` + "javascript:alert(1)//%2e%2e/#/nodes"
	s := lab()
	for i, id := range []string{evil, "__proto__", "constructor", "%E0%A4%A", "ünï/ 🚀 "} {
		j := s.status.Jobs[i%3]
		j.JobKey, j.Reason, j.HoldReason, j.Queue = identity.JobKey{Namespace: "default", ID: id}, evil, evil, "__proto__"
		s.status.Jobs = append(s.status.Jobs, j)
		s.lines.Jobs = append(s.lines.Jobs, api.JobLine{JobKey: j.JobKey, Pool: "gpu", Slots: []api.SlotsAt{{At: time.Now().Add(-time.Hour), Slots: 1}}})
		s.lines.Events = append(s.lines.Events, api.Event{Time: time.Now(), Type: evil, Job: id, Namespace: "default", ID: id, Cause: evil, Reason: evil})
		s.nodes[0].Held = append(s.nodes[0].Held, api.Held{JobKey: &j.JobKey, Slots: 1, Alloc: evil})
		s.train(j.JobKey, time.Now(), false)
		s.details[j.JobKey].Training.Hold = evil
		s.details[j.JobKey].Allocations[0].Node = evil
		s.history[j.JobKey] = []api.Change{{Time: time.Now(), Group: evil, Message: evil}}
	}
	s.status.Pools[0].Policy, s.status.Autoscaler = evil, evil
	s.status.Pools = append(s.status.Pools, api.PoolStatus{Name: "constructor"})
	s.nodes[0].Name, s.nodes[0].Problems, s.nodes[0].Sick = evil, []string{evil}, 1
	s.status.Ineligible = []api.IneligibleJob{{JobKey: key(evil), Problems: []string{evil}}}
	p := Open(t, serve(t, s).URL, 1280, 800)
	p.Shows(evil[:20], "__proto__", "constructor")
	must.Eq(t, "isolate", Eval[string](p, `getComputedStyle(document.querySelector("a.job")).unicodeBidi`), must.Sprint("a name may reverse what follows it"))
	p.Go("/plan")
	p.Shows("Another policy")
	Eval[bool](p, `(() => { const s = document.querySelector(".switch select"); s.value = "constructor"; return s.dispatchEvent(new Event("change", { bubbles: true })); })()`)
	p.Until("the pool constructor", func(string) bool {
		return Eval[string](p, `document.querySelector(".switch select").value`) == "constructor"
	})
	must.StrNotContains(t, p.Text(), "Back to the configured", must.Sprint("it has no policy of its own"))
	p.Go("/nodes")
	p.Shows("gpu-02", evil[:20])
	for _, id := range []string{evil, "__proto__", "constructor", "%E0%A4%A", "ünï/ 🚀 "} {
		// Follow the link, as a user does.
		p.Go("/")
		p.Shows("Jobs")
		p.Until("a link to "+id, func(string) bool {
			return Eval[bool](p, fmt.Sprintf(`(() => { const a = [...document.querySelectorAll(".jobs a.job")].find(a => a.textContent.trim() === %q.trim()); a?.click(); return !!a; })()`, id))
		})
		p.Shows("Where it runs", "Ring held")
		must.StrContains(t, Eval[string](p, `document.querySelector("h1").textContent`), strings.TrimSpace(id))
	}
	must.False(t, Eval[bool](p, `"hit" in window || !!document.querySelector("main img, main script, main [onerror]")`))
	must.Eq(t, "object", Eval[string](p, `typeof Object.prototype`))
	p.Quiet()
}

// Unknown values are shown as unknown, not as 0.
func TestPage_UnknownIsNotZero(t *testing.T) {
	s := lab()
	s.status.Jobs = []api.JobStatus{{JobKey: key("young"), Pool: "gpu", State: api.StateRunning, Running: 1, Want: 1, Min: 1, Max: 2}}
	s.series[key("young")] = &api.Series{Time: []float64{}, Size: []int{}, Step: []float64{}, Resizes: []api.RingResize{}}
	s.details[key("young")] = &api.JobDetail{}
	p := Open(t, serve(t, s).URL+"/#/job/default/young", 1280, 800)
	p.Shows("No report of its training yet.", "No step time is measured yet.", "Nothing is known yet.")
	facts := Eval[map[string]string](p, `Object.fromEntries([...document.querySelectorAll(".facts div")].map(d => [d.querySelector("dt").textContent, d.querySelector("dd").textContent]))`)
	for _, name := range []string{"Progress", "Loss", "Ends", "Productive", "Last step"} {
		must.Eq(t, "–", facts[name], must.Sprint(name))
	}
}

// A resize appears without a reload. A page reports that its autoscaler does not answer, and
// recovers when it answers again.
func TestPage_ChangesGoneAndBack(t *testing.T) {
	s := lab()
	s.events = make(chan api.Event, 16)
	web := httptest.NewServer(server.New(s, s, nil, hclog.NewNullLogger()))
	at := web.Listener.Addr().String()
	p := Open(t, web.URL, 1280, 800)
	p.Shows("whisper-finetune", "2 – 24")
	began := time.Now()
	s.change(func() { s.status.Jobs[1].Running, s.status.Jobs[1].Count, s.status.Jobs[1].Want = 7, 7, 7 },
		api.Event{Time: time.Now(), Type: "resize", Job: "whisper-finetune", Namespace: "default", ID: "whisper-finetune", From: 8, To: 7, Cause: "shrink", Reason: "an unlikely reason"})
	p.Shows("shrank: 8 → 7", "an unlikely reason")
	t.Logf("a resize appeared after %s", time.Since(began).Round(time.Millisecond))
	p.Quiet()

	web.CloseClientConnections()
	web.Close()
	p.Shows("The autoscaler does not answer.", "protein-fold")
	again := listen(t, at)
	back := &httptest.Server{Listener: again, Config: &http.Server{Handler: server.New(s, s, nil, hclog.NewNullLogger()), ReadHeaderTimeout: time.Minute}}
	back.Start()
	defer func() {
		back.CloseClientConnections()
		back.Close()
	}()
	p.Until("an autoscaler that is back", func(text string) bool { return !strings.Contains(text, "does not answer") })
	s.change(func() {}, api.Event{Time: time.Now(), Type: "leader", Reason: "gpu-control-2 leads now"})
	p.Shows("gpu-control-2 leads now")
}

// Changes ask for confirmation, and for a token if the autoscaler requires one.
func TestPage_Commands(t *testing.T) {
	s := lab()
	s.guarded = true
	p := Open(t, serve(t, s).URL+"/#/plan", 1280, 800)
	p.Shows("Another policy")
	click := func(name string) {
		t.Helper()
		p.Until("a button "+name, func(string) bool {
			return Eval[bool](p, fmt.Sprintf(`(() => { const all = [...(document.querySelector("dialog") || document).querySelectorAll("button")].filter(b => b.textContent.trim().startsWith(%q)); all.at(-1)?.click(); return all.length > 0; })()`, name))
		})
	}
	p.Do(chromedp.SendKeys(`input[list=policies]`, "fifo", chromedp.ByQuery))
	click("Preview")
	p.Shows("present a Nomad token")
	p.Do(chromedp.SendKeys(`input[name=token]`, "good", chromedp.ByQuery))
	click("Use it")
	click("Preview")
	p.Shows("With fifo in gpu", "takes its turn", "1 job would be resized.")
	p.Scheme("light")
	p.Screenshot("preview")
	must.SliceEmpty(t, s.given())
	click("Set this policy")
	p.Shows("Set the policy of pool gpu to fifo?")
	p.Accessible("dialog")
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until("no dialog", func(text string) bool { return !strings.Contains(text, "Jobs are resized at once") })
	must.SliceEmpty(t, s.given())
	click("Set this policy")
	p.Shows("Set the policy of pool gpu to fifo?")
	click("Set policy")
	p.Shows("Policy of gpu: done.")
	p.Go("/job/default/resnet-sweep")
	p.Shows("Pause scaling")
	click("Pause scaling")
	p.Shows("Training goes on at its present size.")
	click("Pause")
	p.Shows("Pause resnet-sweep: done.")
	must.Eq(t, []string{"policy gpu fifo", "pause resnet-sweep true"}, s.given())
	must.Eq(t, "good", Eval[string](p, `sessionStorage.getItem("token")`))
	must.Eq(t, 0, Eval[int](p, `localStorage.length + document.cookie.length`))
}

// If reading requires a token, the page asks for one, and follows events with it.
func TestPage_ReadToken(t *testing.T) {
	s := lab()
	s.guarded, s.secret = true, true
	p := Open(t, serve(t, s).URL, 1280, 800)
	p.Shows("reading requires a proof here", "Nomad token")
	must.StrNotContains(t, p.Text(), "llama-pretrain")
	p.Accessible("login")
	p.Do(chromedp.SendKeys(`input[name=token]`, "pasted…"+kb.Enter, chromedp.ByQuery))
	p.Shows("That is no Nomad token")
	must.StrNotContains(t, p.Text(), "does not answer")
	Eval[string](p, `document.querySelector("input[name=token]").value = ""`)
	p.Do(chromedp.SendKeys(`input[name=token]`, "wrong"+kb.Enter, chromedp.ByQuery))
	p.Shows("unknown to Nomad")
	p.Do(chromedp.SendKeys(`input[name=token]`, "good"+kb.Enter, chromedp.ByQuery))
	p.Shows("Pool gpu", "llama-pretrain")
	s.change(func() {}, api.Event{Time: time.Now(), Type: "leader", Reason: "an unlikely reason"})
	p.Shows("an unlikely reason")
}
