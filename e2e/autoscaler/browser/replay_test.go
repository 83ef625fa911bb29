// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package browser

import (
	"bytes"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
	"github.com/kolo-nomad/kolo/autoscaler/api/replay"
)

// replayed serves a replay of the demo.
func replayed(t *testing.T) *httptest.Server {
	text, err := os.ReadFile("../../../docs/demo.kolo")
	must.NoError(t, err)
	rec, err := recording.Open(bytes.NewReader(text), int64(len(text)))
	must.NoError(t, err)
	s, err := replay.NewServer(rec, 60)
	must.NoError(t, err)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// The demo plays in the page. Its slider moves by keyboard to other times and numbers, says
// the time to a screen reader, and nothing can be changed.
func TestReplay(t *testing.T) {
	p := Open(t, replayed(t).URL, 1280, 800)
	const slider = `input[type=range]`
	spoken := func() string {
		return Eval[string](p, `document.querySelector("`+slider+`").getAttribute("aria-valuetext")`)
	}
	p.Shows("Pool default", "imagenet-resnet50", "A recording")
	must.SliceContains(t, p.Nodes("slider"), Node{"slider", "Recorded time"})
	buttons := p.Nodes("button")
	must.True(t, slices.Contains(buttons, Node{"button", "Pause"}))
	must.False(t, slices.ContainsFunc(buttons, func(n Node) bool { return n.Name == "Pause all scaling" || n.Name == "Sign in with token" }))

	before := spoken()
	p.Until("that the replay plays", func(string) bool { return spoken() != before })
	p.Do(chromedp.SendKeys(`.player button`, kb.Enter, chromedp.ByQuery))
	p.Until("that it pauses", func(string) bool { return slices.Contains(p.Nodes("button"), Node{"button", "Play"}) })

	p.Do(chromedp.SendKeys(slider, kb.Home, chromedp.ByQuery))
	p.Until("the beginning", func(text string) bool { return !strings.Contains(text, "voc-yolov3") })
	first := spoken()
	p.Do(chromedp.SendKeys(slider, kb.End, chromedp.ByQuery))
	p.Shows("voc-yolov3-2", "Complete")
	must.NotEq(t, first, spoken())
	p.Shows("Play again")

	// 70 minutes in, jobs wait.
	Eval[string](p, `(() => { const s = document.querySelector("`+slider+`"); s.value = 4200; s.dispatchEvent(new Event("input", { bubbles: true })); return ""; })()`)
	p.Shows("Why it waits")
	p.Until("jobs that wait", func(text string) bool {
		return !strings.Contains(text, "No job waits") && !strings.Contains(text, "voc-yolov3-2")
	})
	p.Screenshot("replay")
	p.Accessible("replay")
	p.Scheme("dark")
	p.Accessible("replay dark", "color-contrast")
	p.Scheme("light")
	p.Size(420, 900)
	p.Accessible("replay narrow", "target-size", "scrollable-region-focusable")
	must.LessEq(t, 420, Eval[int](p, `document.documentElement.scrollWidth`))
	p.Size(1280, 800)

	p.Go("/job/default/imagenet-resnet50")
	p.Shows("What changed its size", "Where it runs", "Step time")
	p.Go("/nodes")
	p.Shows("gpu-01")
	p.Go("/plan")
	p.Shows("What the policies would do now")
	must.StrNotContains(t, p.Text(), "Another policy")
	p.Quiet()
}
