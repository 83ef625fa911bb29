// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// maxTopEvents bounds the events that the view keeps.
const maxTopEvents = 500

// page identifies a page of the view.
type page int

const (
	jobsPage page = iota
	queuesPage
	eventsPage
	jobPage
	planPage
	helpPage
)

// seen holds the values of a job that the view has read over time.
type seen struct {
	size, step, loss series
	last             int // number of the last read that contained the job
}

// top holds the state of kolo top. Update changes it by one message, and frame draws it. Neither does
// I/O. Only the commands that Update returns do.
type top struct {
	ask    func(question) tea.Msg
	every  time.Duration
	chosen selection

	width, height int
	page, before  page // escape returns to before
	status        *api.Status
	err           error // of the last read
	shown         []api.JobStatus
	job           *api.Job // answer about the open job
	open          identity.JobKey
	plan          planMsg
	planned       bool
	events        []api.Event // newest first
	history       map[identity.JobKey]*seen
	reads         int

	cursor identity.JobKey // a job, so that it stays on this job when the order changes
	scroll int             // first line that is shown of a page of text
	search string          // only jobs whose names contain it are shown
	typing bool            // keys change search
}

func newTop(chosen selection, every time.Duration, ask func(question) tea.Msg) *top {
	return &top{ask: ask, every: every, chosen: chosen, history: map[identity.JobKey]*seen{}}
}

// Init implements tea.Model.
func (m *top) Init() tea.Cmd { return m.read() }

// read requests the status now.
func (m *top) read() tea.Cmd {
	q := question{}
	if m.page == jobPage {
		q.job = m.open
	}
	return func() tea.Msg { return m.ask(q) }
}

type tickMsg struct{}

// Update implements tea.Model.
func (m *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, m.read()
	case statusMsg:
		m.take(&msg)
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return tickMsg{} })
	case planMsg:
		m.plan, m.planned = msg, true
	case eventMsg:
		m.events = slices.Insert(m.events, 0, api.Event(msg))
		m.events = m.events[:min(len(m.events), maxTopEvents)]
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// take keeps an answer. The last good status stays if the autoscaler does not answer.
func (m *top) take(a *statusMsg) {
	m.err = a.err
	if a.status == nil {
		return
	}
	m.reads++
	m.status = a.status
	if a.job != nil && a.job.Job != nil && a.job.Job.JobKey == m.open {
		m.job = a.job
	}
	for i := range a.status.Jobs {
		j := &a.status.Jobs[i]
		s := m.history[j.JobKey]
		if s == nil {
			s = &seen{}
			m.history[j.JobKey] = s
		}
		s.last = m.reads
		s.size.add(float64(j.Size))
		if t, ok := stepTime(j); ok {
			s.step.add(t)
		}
		if j.Loss != nil {
			s.loss.add(*j.Loss)
		}
	}
	maps.DeleteFunc(m.history, func(_ identity.JobKey, s *seen) bool { return s.last < m.reads })
	m.choose()
}

// choose determines which jobs are shown, in which order.
func (m *top) choose() {
	if m.status == nil {
		return
	}
	s := *m.status
	s.Jobs = slices.Clone(s.Jobs)
	if err := m.chosen.apply(&s); err != nil {
		m.err = err
	}
	m.shown = slices.DeleteFunc(s.Jobs, func(j api.JobStatus) bool {
		return !strings.Contains(strings.ToLower(j.JobKey.String()), strings.ToLower(m.search))
	})
	if m.selected() < 0 && len(m.shown) > 0 {
		m.cursor = m.shown[0].JobKey
	}
}

// selected returns the index of the job under the cursor, or -1.
func (m *top) selected() int {
	return slices.IndexFunc(m.shown, func(j api.JobStatus) bool { return j.JobKey == m.cursor })
}

// key performs the action of a key.
func (m *top) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typed(k)
		return nil
	}
	switch k.String() {
	case "q":
		return tea.Quit
	case "1":
		m.turn(jobsPage)
	case "2":
		m.turn(queuesPage)
	case "3":
		m.turn(eventsPage)
	case "tab":
		m.turn((m.page + 1) % jobPage)
	case "?":
		m.enter(helpPage)
	case "p":
		m.planned = false
		m.enter(planPage)
		return func() tea.Msg { return m.ask(question{plan: true}) }
	case "enter", "right":
		if i := m.selected(); m.page == jobsPage && i >= 0 {
			m.open, m.job = m.cursor, nil
			m.enter(jobPage)
		}
	case "esc", "left", "backspace":
		switch {
		case m.page > eventsPage:
			m.turn(m.before)
		case m.search != "":
			m.search = ""
			m.choose()
		}
	case "/":
		m.turn(jobsPage)
		m.typing = true
	case "s":
		m.nextOrder()
	case "r":
		m.chosen.reverse = !m.chosen.reverse
		m.choose()
	default:
		m.move(k.String())
	}
	return nil
}

// turn shows a page from its first line.
func (m *top) turn(p page) { m.page, m.scroll = p, 0 }

// enter shows a page. Escape returns from it.
func (m *top) enter(p page) {
	if m.page <= eventsPage {
		m.before = m.page
	}
	m.turn(p)
}

// typed changes the text that is searched for.
func (m *top) typed(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.search = false, ""
	case "backspace":
		if r := []rune(m.search); len(r) > 0 {
			m.search = string(r[:len(r)-1])
		}
	default:
		m.search += k.Text
	}
	m.choose()
}

// nextOrder sorts by the next column and, after the last one, in the autoscaler's order.
func (m *top) nextOrder() {
	names := append([]string{""}, slices.Sorted(maps.Keys(orders))...)
	m.chosen.order = names[(slices.Index(names, m.chosen.order)+1)%len(names)]
	m.choose()
}

// move moves the cursor or, on a page of text, the text.
func (m *top) move(key string) {
	by := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.height / 2, "pgdown": m.height / 2,
		"home": -1 << 30, "g": -1 << 30, "end": 1 << 30, "G": 1 << 30,
	}[key]
	if by == 0 {
		return
	}
	if m.page != jobsPage {
		m.scroll = max(0, m.scroll+by) // frame keeps it within the text
		return
	}
	if i := m.selected(); i >= 0 {
		m.cursor = m.shown[max(0, min(i+by, len(m.shown)-1))].JobKey
	}
}
