// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package browser runs pages in a headless Chromium for tests, without a network except
// loopback.
package browser

import (
	"context"
	_ "embed" // axe
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/shoenig/test/must"
)

// Patience bounds every wait. It is far above the usual time, because the machine may be busy.
const Patience = 90 * time.Second

// axe is axe-core 4.14.1 as released on npm (axe.min.js), under the MPL 2.0.
//
//go:embed axe/axe.min.js
var axe string

// Page is one tab of a browser.
type Page struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in its context

	mu       sync.Mutex
	problems []string // on the console
}

// names lists the names of the browser's program in distributions.
var names = []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"}

// Needed skips a test if there is no browser, and returns the name of the browser.
func Needed(t testing.TB) string {
	t.Helper()
	i := slices.IndexFunc(names, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
	if i < 0 {
		t.Skipf("none of %s is installed (make chromium installs Debian's)", strings.Join(names, ", "))
	}
	return names[i]
}

// Open starts a browser with a window of the given size and opens a URL. It skips the test
// if there is no browser. The browser ends with the test.
func Open(t testing.TB, url string, width, height int64) *Page {
	t.Helper()
	name := Needed(t)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(Patience))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // a newer browser sends events that chromedp cannot read
	t.Cleanup(closeTab)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // it has crashed, or ends with its process
	p := &Page{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, p.listen)
	// The first action starts the browser, which lives as long as the context of that action.
	must.NoError(t, chromedp.Run(ctx, emulation.SetDeviceMetricsOverride(width, height, 1, false), log.Enable()))
	p.Do(chromedp.Navigate(url))
	return p
}

// listen records the browser's warnings and errors.
func (p *Page) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			words := []string{"console:"}
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			text = strings.Join(words, " ")
		}
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// Problems returns the warnings and errors on the browser's console since the last call.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.problems
	p.problems = nil
	return out
}

// Quiet fails the test if there were warnings or errors on the console since the last call.
func (p *Page) Quiet() {
	p.t.Helper()
	if found := p.Problems(); len(found) > 0 {
		p.t.Errorf("on the console:\n%s", strings.Join(found, "\n"))
	}
}

// Do runs actions.
func (p *Page) Do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, Patience)
	defer cancel()
	must.NoError(p.t, chromedp.Run(ctx, actions...))
}

// Eval returns the value of a JavaScript expression, which may be a promise.
func Eval[T any](p *Page, expression string) (out T) {
	p.t.Helper()
	p.Do(chromedp.Evaluate(expression, &out, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return out
}

// Text returns the text of the page as a reader sees it.
func (p *Page) Text() string {
	p.t.Helper()
	return Eval[string](p, `document.body.innerText`)
}

// Until waits until a condition holds for the text of the page.
func (p *Page) Until(what string, holds func(text string) bool) {
	p.t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(50 * time.Millisecond) {
		text := p.Text()
		if holds(text) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("the page never shows %s:\n%s\nconsole: %q", what, text, p.Problems())
		}
	}
}

// Shows waits until the page contains all texts.
func (p *Page) Shows(texts ...string) {
	p.t.Helper()
	p.Until(strings.Join(texts, ", "), func(text string) bool {
		return !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(text, want) })
	})
}

// Go opens a view of the page. Its argument is the part of the address after #.
func (p *Page) Go(hash string) {
	p.t.Helper()
	Eval[string](p, fmt.Sprintf("location.hash = %q", hash))
}

// Scheme makes the browser prefer light or dark.
func (p *Page) Scheme(scheme string) {
	p.t.Helper()
	p.Do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// Size sets the size of the window.
func (p *Page) Size(width, height int64) {
	p.t.Helper()
	p.Do(emulation.SetDeviceMetricsOverride(width, height, 1, false))
}

// Screenshot writes a PNG file of the window into the directory that the environment variable
// KOLO_SCREENSHOTS names, if it is set.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("KOLO_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	p.Do(chromedp.Sleep(400*time.Millisecond), chromedp.CaptureScreenshot(&png)) // until bars have grown
	must.NoError(p.t, os.MkdirAll(dir, 0o755))
	must.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// Node is an element as assistive technology sees it.
type Node struct {
	Role, Name string
}

// Nodes returns the elements with a role that a screen reader would read, in order.
func (p *Page) Nodes(role string) (out []Node) {
	p.t.Helper()
	type text struct {
		Value any `json:"value"`
	}
	// Chromedp's own types do not know all values of newer browsers.
	var tree struct {
		Nodes []struct {
			Ignored bool `json:"ignored"`
			Role    text `json:"role"`
			Name    text `json:"name"`
		} `json:"nodes"`
	}
	p.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, accessibility.CommandGetFullAXTree, accessibility.GetFullAXTree(), &tree)
	}))
	for _, n := range tree.Nodes {
		if name, _ := n.Name.Value.(string); !n.Ignored && n.Role.Value == role {
			out = append(out, Node{Role: role, Name: name})
		}
	}
	return out
}

// Accessible fails the test if axe-core finds a serious or critical problem. It applies all rules
// unless some are named.
func (p *Page) Accessible(where string, rules ...string) {
	p.t.Helper()
	if !Eval[bool](p, `"axe" in window`) {
		// The protocol can run the script although the page's own policy permits no other scripts.
		p.Do(chromedp.Evaluate(axe+";0", nil))
	}
	only := ""
	if len(rules) > 0 {
		only = fmt.Sprintf(`runOnly: ["%s"], `, strings.Join(rules, `", "`))
	}
	found := Eval[[]string](p, `axe.run(document, {`+only+`resultTypes: ["violations"]}).then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.impact + " " + v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary).join(" | ")))`)
	if len(found) > 0 {
		p.t.Errorf("%s: axe-core finds\n%s", where, strings.Join(found, "\n"))
	}
}
