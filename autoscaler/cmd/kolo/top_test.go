// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/job/waiting"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// TestMain lets the test binary stand in for kolo, for tests that start it.
func TestMain(m *testing.M) {
	if os.Getenv("KOLO_TEST_MAIN") != "" {
		os.Exit(run(os.Args[1:])) //nolint:forbidigo // the main function of the tests
	}
	m.Run()
}

// topStatus is a cluster with a running, a waiting and a hostile job.
func topStatus() *api.Status {
	now := time.Date(2026, 11, 20, 22, 0, 0, 0, time.Local)
	loss, share, gap := 0.53, 0.971, 0.12
	return &api.Status{
		Time: now, Autoscaler: "a", Leading: true, Ready: true,
		Pools: []api.PoolStatus{{Name: "gpu", Policy: "kolo", Capacity: 20, Used: 14, Waiting: 1}},
		Jobs: []api.JobStatus{
			{
				JobKey: identity.JobKey{Namespace: "lab", ID: "resnet"}, Pool: "gpu", Queue: "lab", State: api.StateRunning, Count: 4, Running: 4, Want: 4, Size: 4, Min: 1, Max: 8,
				Progress: 0.62, Step: 620, Total: 1000, Loss: &loss, ETA: now.Add(12 * time.Minute), Requests: api.Requests{Slots: 1}, Usage: &api.Usage{Held: 100, Productive: 97.1, Share: &share},
				StepTimes: []speedup.Point{{Size: 4, StepTime: 0.125}}, Gaps: []history.Gap{{From: 2, To: 4, Seconds: &gap}}, Reason: "fair share",
			},
			{
				JobKey: identity.JobKey{Namespace: "default", ID: "bert"}, Pool: "gpu", State: api.StateWaiting, Min: 8, Max: 8,
				Waits: &api.Waits{Reason: waiting.NoRoom, Sentence: "it needs 8 slots", Queue: "*", Slots: 8, Since: now.Add(-time.Hour), Expected: &api.Expected{Earliest: now.Add(time.Minute), Latest: now.Add(4 * time.Minute), Made: now}},
			},
			{JobKey: identity.JobKey{Namespace: "default", ID: "x\x1b[2J\x1b]0;owned\x07\nq"}, Pool: "gpu", State: api.StateRunning, Reason: "\x1b[31mred"},
		},
	}
}

// newTestTop returns a view that has read status, on a terminal of 80 columns.
func newTestTop(status *api.Status) *top {
	m := newTop(selection{}, time.Second, func(q question) tea.Msg {
		if q.plan {
			return planMsg{pools: []api.Proposal{{Pool: "gpu", Policy: "fifo"}}}
		}
		return statusMsg{status: status}
	})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	m.Update(m.Init()())
	return m
}

// press gives the view keys by their names, and does what it asks for.
func press(m *top, keys ...string) {
	for _, k := range keys {
		named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "tab": tea.KeyTab, "backspace": tea.KeyBackspace}
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := named[k]; ok {
			msg = tea.KeyPressMsg{Code: code}
		}
		if _, cmd := m.Update(msg); cmd != nil {
			m.Update(cmd())
		}
	}
}

// seenText is what a person reads on the terminal.
func seenText(m *top) string { return ansi.Strip(m.frame()) }

func TestTop_Jobs(t *testing.T) {
	m := newTestTop(topStatus())
	text := seenText(m)
	for _, want := range []string{"kolo top  a leads", "3 jobs, 14 of 20 slots, 1 waiting", "gpu ", "14 of 20 slots  kolo  1 waiting", "lab/resnet", "62%", "bert", "fair share"} {
		must.StrContains(t, text, want)
	}
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 24})
	must.StrContains(t, seenText(m), "22:01 – 22:04, no-room: it needs 8 slots")
	for _, want := range []string{"97.1%", "0.125s", "0.53", "12m0s"} {
		must.StrContains(t, seenText(m), want)
	}
}

// Names and texts of jobs are printed as plain text: they cannot move the cursor or set the
// title.
func TestTop_AJobCannotSteerTheTerminal(t *testing.T) {
	m := newTestTop(topStatus())
	for _, keys := range [][]string{nil, {"down", "down", "enter"}, {"2"}, {"p"}} {
		press(m, keys...)
		must.StrNotContains(t, m.frame(), "\x1b[2J")
		must.StrNotContains(t, m.frame(), "\x1b]")
		must.StrNotContains(t, m.frame(), "\x1b[31mred")
	}
}

func TestTop_Keys(t *testing.T) {
	for name, tc := range map[string]struct {
		keys []string
		want string
		not  string
	}{
		"a job and its time":            {[]string{"enter"}, "Loss       ▁", "Pools"},
		"back":                          {[]string{"enter", "esc"}, "Progress", "Step time"},
		"queues":                        {[]string{"2"}, "Pool gpu with kolo", ""},
		"the next page":                 {[]string{"tab", "tab"}, "no event since kolo top started", ""},
		"the plan":                      {[]string{"p"}, "Pool gpu with fifo", ""},
		"help and back to the queues":   {[]string{"2", "?", "esc"}, "Waiting since", ""},
		"search":                        {[]string{"/", "B", "E", "enter"}, "bert", "lab/resnet"},
		"search that finds nothing":     {[]string{"/", "z"}, "none of 3 jobs matches the filter or search", "bert"},
		"search that is given up":       {[]string{"/", "z", "esc"}, "lab/resnet", "/z"},
		"q is a letter while one types": {[]string{"/", "q"}, "/q", "bert"},
		"sorted":                        {[]string{"s", "s", "s"}, "sorted by name", ""},
		"reversed":                      {[]string{"s", "r"}, "sorted by -attained", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTestTop(topStatus())
			press(m, tc.keys...)
			must.StrContains(t, seenText(m), tc.want)
			if tc.not != "" {
				must.StrNotContains(t, seenText(m), tc.not)
			}
		})
	}
}

// The cursor stays on its job, whichever other jobs come and go.
func TestTop_TheCursorStaysOnItsJob(t *testing.T) {
	s := topStatus()
	m := newTestTop(s)
	press(m, "down")
	must.Eq(t, "bert", m.cursor.ID)
	more := topStatus()
	more.Jobs = append([]api.JobStatus{{JobKey: identity.JobKey{ID: "new"}}}, more.Jobs...)
	m.Update(statusMsg{status: more})
	must.Eq(t, "bert", m.cursor.ID)
	more = topStatus()
	more.Jobs = more.Jobs[:1]
	m.Update(statusMsg{status: more})
	must.Eq(t, "resnet", m.cursor.ID)
	must.MapLen(t, 1, m.history) // no memory is kept of jobs that are gone
}

// If the autoscaler does not answer, the last status stays, with a notice.
func TestTop_NoAnswer(t *testing.T) {
	m := newTestTop(topStatus())
	m.Update(statusMsg{err: errors.New("connection refused")})
	must.StrContains(t, seenText(m), "NO ANSWER since 22:00:00: connection refused")
	must.StrContains(t, seenText(m), "lab/resnet")
	m.Update(statusMsg{status: topStatus()})
	must.StrNotContains(t, seenText(m), "NO ANSWER")
}

// A frame fits the terminal of any size, with any jobs and after any keys.
func TestTop_AFrameFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := topStatus()
		for i := range rapid.IntRange(0, 50).Draw(t, "jobs") {
			s.Jobs = append(s.Jobs, api.JobStatus{JobKey: identity.JobKey{ID: fmt.Sprintf("job-%d-%s", i, strings.Repeat("長", i%7))}, Reason: strings.Repeat("why ", i)})
		}
		m := newTestTop(s)
		width, height := rapid.IntRange(1, 200).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
		m.Update(tea.WindowSizeMsg{Width: width, Height: height})
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "event") {
				m.Update(eventMsg{Type: "resize", From: 1, To: 2})
			}
			press(m, rapid.SampledFrom([]string{"1", "2", "3", "tab", "?", "p", "enter", "esc", "/", "x", "s", "r", "up", "down", "G", "g", "j"}).Draw(t, "key"))
			lines := strings.Split(m.frame(), "\n")
			must.LessEq(t, height, len(lines))
			for _, l := range lines {
				must.LessEq(t, width, ansi.StringWidth(l))
			}
		}
	})
}

// A time series covers the whole time in bounded memory.
func TestSeries(t *testing.T) {
	var s series
	for i := range 10_000 {
		s.add(float64(i))
		must.LessEq(t, maxPoints, len(s.values))
	}
	must.Eq(t, 0, s.values[0])
	must.Greater(t, 9_800, s.values[len(s.values)-1])
	must.Eq(t, "▁▂▃▄▅▆▇█", (&series{values: []float64{0, 1, 2, 3, 4, 5, 6, 7}}).sparkline(8, false))
	must.Eq(t, "▁▁", (&series{values: []float64{0, 0}}).sparkline(8, false))
	must.Eq(t, "", (&series{}).sparkline(8, false))
}

func topServer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/events" {
			<-r.Context().Done()
			return
		}
		_ = json.NewEncoder(w).Encode(topStatus()) // the view may have ended
	}))
	t.Cleanup(s.CloseClientConnections)
	return s.URL
}

// -once prints one frame, for scripts and bug reports.
func TestTop_Once(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	t.Setenv("LINES", "12")
	ui := cli.NewMockUi()
	c := &topCommand{apiCommand{meta: meta{UI: ui}}}
	must.Eq(t, 0, c.Run([]string{"-once", "-address=" + topServer(t)}))
	out := strings.Split(strings.TrimSuffix(ui.OutputWriter.String(), "\n"), "\n")
	must.Len(t, 12, out)
	must.StrContains(t, out[0], "kolo top  a leads")
	for _, args := range [][]string{{}, {"-once", "-json"}, {"-once", "-every=0s"}, {"-once", "-sort=x"}} {
		must.Eq(t, exitUsage, (&topCommand{apiCommand{meta: meta{UI: cli.NewMockUi()}}}).Run(args))
	}
}

// TestTop_Terminal uses kolo top in a real terminal: it draws, takes keys, follows a change of
// the terminal's size, and leaves the terminal as it was.
func TestTop_Terminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux on this machine")
	}
	socket := filepath.Join(t.TempDir(), "tmux")
	tmux := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		must.NoError(t, err, must.Sprintf("tmux %q: %s", args, out))
		return string(out)
	}
	program, err := os.Executable()
	must.NoError(t, err)
	shell := fmt.Sprintf("echo before; KOLO_TEST_MAIN=1 %s top -address=%s; echo ended with $?; sleep 600", program, topServer(t))
	tmux("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", shell)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", socket, "kill-server").Run() }) // t.Context has ended
	shows := func(want string) {
		t.Helper()
		var screen string
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			screen = tmux("capture-pane", "-p")
			return strings.Contains(screen, want)
		}), wait.Timeout(3*time.Minute), wait.Gap(100*time.Millisecond)), must.Sprintf("%q is missing in:\n%s", want, screen))
	}
	shows("lab/resnet")
	must.StrNotContains(t, tmux("capture-pane", "-p"), "before")
	tmux("send-keys", "Enter")
	shows("Step time  ")
	tmux("send-keys", "Escape")
	shows("/ search")
	tmux("resize-window", "-x", "160", "-y", "20")
	shows("no-room: it needs 8 slots")
	tmux("send-keys", "q")
	shows("ended with 0")
	must.StrContains(t, tmux("capture-pane", "-p"), "before")
}

// A tenant's long name hides neither the state of the job nor the reasons of others.
func TestTop_LongName(t *testing.T) {
	s := topStatus()
	s.Jobs[2].ID = strings.Repeat("名", 300)
	for _, width := range []int{80, 200} {
		m := newTestTop(s)
		m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
		frame := ansi.Strip(m.frame())
		must.StrContains(t, frame, "名…")
		must.StrContains(t, frame, "waiting")
		must.StrContains(t, frame, "fair share")
	}
}
