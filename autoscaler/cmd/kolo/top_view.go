// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// The styles use the terminal's own colors, which fit its background.
var (
	strong   = lipgloss.NewStyle().Bold(true)
	faint    = lipgloss.NewStyle().Faint(true)
	reversed = lipgloss.NewStyle().Reverse(true)
	alarm    = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
)

// View implements tea.Model.
func (m *top) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen, v.WindowTitle = true, "kolo top"
	return v
}

// frame draws the whole terminal: at most height lines, none longer than width.
func (m *top) frame() string {
	if m.width < 1 || m.height < 1 {
		return ""
	}
	head := m.head()
	room := max(0, m.height-len(head)-1)
	lines := append(head, m.body(room)...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], faint.Render(ansi.Truncate(m.keys(), m.width, "…")))
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// head returns the lines above a page.
func (m *top) head() []string {
	if m.status == nil {
		if m.err != nil {
			return []string{alarm.Render(printable.Cell(m.err.Error())), ""}
		}
		return []string{"asking the autoscaler …", ""}
	}
	s := m.status
	lines := []string{strong.Render("kolo top") + "  " + printable.Cell(roleText(s)) + "  " + s.Time.Local().Format("15:04:05") + "  " + counts(s)}
	switch {
	case m.err != nil:
		lines = append(lines, alarm.Render("NO ANSWER since "+s.Time.Local().Format("15:04:05")+": "+printable.Cell(m.err.Error())))
	case s.Problem != "":
		lines = append(lines, alarm.Render("NOMAD CANNOT BE READ: "+printable.Cell(s.Problem)))
	case s.Paused:
		lines = append(lines, alarm.Render("ALL JOBS ARE PAUSED"))
	}
	for i := range s.Pools {
		if i == 4 && len(s.Pools) > 5 {
			lines = append(lines, faint.Render(fmt.Sprintf("and %d more pools", len(s.Pools)-i)))
			break
		}
		lines = append(lines, poolLine(&s.Pools[i]))
	}
	tabs := []string{"1 Jobs", "2 Queues", "3 Events"}
	at := m.page
	if at > eventsPage {
		at = m.before
	}
	tabs[at] = reversed.Render(" " + tabs[at] + " ")
	line := strings.Join(tabs, "  ")
	if m.chosen.order != "" {
		line += faint.Render("   sorted by " + map[bool]string{true: "-"}[m.chosen.reverse] + m.chosen.order)
	}
	if m.search != "" || m.typing {
		line += "   /" + printable.Cell(m.search) + map[bool]string{true: "▏"}[m.typing]
	}
	return append(lines, "", line)
}

// poolLine draws a pool, with a bar for its used slots.
func poolLine(p *api.PoolStatus) string {
	const width = 20
	filled := 0
	if p.Capacity > 0 {
		filled = min(width, (p.Used*width+p.Capacity-1)/p.Capacity)
	}
	line := fmt.Sprintf("%-12s %s%s %d of %s", printable.Cell(p.Name), strings.Repeat("█", filled), faint.Render(strings.Repeat("░", width-filled)), p.Used, counted(p.Capacity, "slot"))
	line += "  " + printable.Cell(p.Policy)
	if p.Waiting > 0 {
		line += fmt.Sprintf("  %d waiting", p.Waiting)
	}
	if p.Reserved > 0 {
		line += fmt.Sprintf("  %d kept free", p.Reserved)
	}
	if p.Problem != "" {
		line += "  " + alarm.Render(printable.Cell(p.Problem))
	}
	return line
}

// keys returns the line at the bottom.
func (m *top) keys() string {
	switch {
	case m.typing:
		return "type part of a name   enter keep   esc show all"
	case m.page > eventsPage:
		return "esc back   ↑↓ scroll   p plan   ? help   q quit"
	}
	return "enter job   / search   s sort   r reverse   p plan   tab next page   ? help   q quit"
}

// body returns the lines of the page.
func (m *top) body(room int) []string {
	if m.status == nil && m.page != helpPage {
		return nil
	}
	switch m.page {
	case helpPage:
		return m.scrolled(topHelp, room)
	case jobPage:
		return m.scrolled(m.drawOpen(), room)
	case jobsPage:
		return m.jobs(room)
	case queuesPage:
		pools, err := queuesOf(m.status, "", "")
		if err != nil {
			return []string{printable.Cell(err.Error())}
		}
		return m.scrolled(drawPools(pools, drawQueues), room)
	case eventsPage:
		var lines []string
		for i := range m.events {
			lines = append(lines, eventText(&m.events[i]))
		}
		return m.scrolled(cmp.Or(strings.Join(lines, "\n"), "no event since kolo top started"), room)
	case planPage:
		switch {
		case !m.planned:
			return []string{"asking what the policies would do …"}
		case m.plan.err != nil:
			return []string{alarm.Render(printable.Cell(m.plan.err.Error()))}
		}
		return m.scrolled("What the policies would do now:\n\n"+drawPlan(m.plan.pools), room)
	}
	return nil
}

// scrolled returns as many lines of a text as fit, from the scroll position on.
func (m *top) scrolled(text string, room int) []string {
	lines := strings.Split(printable.Text(text), "\n")
	m.scroll = max(0, min(m.scroll, len(lines)-room))
	return lines[m.scroll:min(len(lines), m.scroll+room)]
}

// jobs returns the table of jobs around the cursor.
func (m *top) jobs(room int) []string {
	if len(m.shown) == 0 {
		if len(m.status.Jobs) == 0 {
			return []string{"no elastic jobs"}
		}
		return []string{fmt.Sprintf("none of %s matches the filter or search", counted(len(m.status.Jobs), "job"))}
	}
	rows := max(1, room-1)
	at := max(0, m.selected())
	first := max(0, min(at-rows/2, len(m.shown)-rows))
	last := min(len(m.shown), first+rows)
	cells := [][]string{{"Job", "State", "Slots", "Size", "Step", "Loss", "Progress", "ETA", "Productive", "Why"}}
	for i := first; i < last; i++ {
		cells = append(cells, m.jobRow(&m.shown[i]))
	}
	lines := strings.Split(table(narrowed(cells, m.width)), "\n")
	lines[0] = strong.Render(lines[0])
	if i := at - first + 1; i < len(lines) {
		line := ansi.Truncate(lines[i], m.width, "…")
		lines[i] = reversed.Render(line + strings.Repeat(" ", max(0, m.width-ansi.StringWidth(line))))
	}
	return lines
}

// narrowed removes less important columns until there is room for the last one, the reason.
func narrowed(cells [][]string, width int) [][]string {
	const reason = 24
	for _, row := range cells {
		row[0] = ansi.Truncate(printable.Cell(row[0]), max(16, width/3), "…") // one long name must not hide the other columns
	}
	for _, column := range []string{"Productive", "Loss", "ETA", "Step", "Size"} {
		used := 0
		for i := range len(cells[0]) - 1 {
			widest := 0
			for _, row := range cells {
				widest = max(widest, ansi.StringWidth(row[i]))
			}
			used += widest + 2
		}
		if used+reason <= width {
			break
		}
		i := slices.Index(cells[0], column)
		for r, row := range cells {
			cells[r] = slices.Delete(row, i, i+1)
		}
	}
	return cells
}

// jobRow returns the cells of a job.
func (m *top) jobRow(j *api.JobStatus) []string {
	row := statusRow(j, m.status.Time)
	step, loss, productive := measuredCells(j)
	size := ""
	if s := m.history[j.JobKey]; s != nil {
		size = s.size.sparkline(8, false)
	}
	reason := row[9]
	if j.Waits != nil {
		reason = expectedStart(j.Waits.Expected) + ", " + why(j.Waits)
	}
	return []string{row[0], row[1], strconv.Itoa(j.Slots()), size, step, loss, row[5], row[6], productive, reason}
}

// drawOpen returns the page of the open job.
func (m *top) drawOpen() string {
	var j *api.JobStatus
	for i := range m.status.Jobs {
		if m.status.Jobs[i].JobKey == m.open {
			j = &m.status.Jobs[i]
		}
	}
	if j == nil {
		return printable.Cell(m.open.String()) + " is gone"
	}
	answer := &api.Job{Job: j}
	if m.job != nil && m.job.Job.JobKey == m.open {
		answer.History = m.job.History
	}
	var out strings.Builder
	if s := m.history[m.open]; s != nil {
		for _, line := range []struct {
			name      string
			series    *series
			fromLeast bool
			unit      string
		}{{"Size", &s.size, false, " slots"}, {"Step time", &s.step, false, " s"}, {"Loss", &s.loss, true, ""}} {
			if n := len(line.series.values); n > 0 {
				fmt.Fprintf(&out, "%-10s %s  %.4g%s\n", line.name, line.series.sparkline(max(10, m.width-30), line.fromLeast), line.series.values[n-1], line.unit)
			}
		}
		out.WriteString("\n")
	}
	out.WriteString(drawJob(answer))
	for i, told := 0, 0; i < len(m.events) && told < 10; i++ {
		if e := &m.events[i]; e.Namespace == j.Namespace && e.ID == j.ID {
			if told == 0 {
				out.WriteString("\n\nEvents\n")
			}
			out.WriteString(eventText(e) + "\n")
			told++
		}
	}
	return out.String()
}

const topHelp = `1 2 3 tab      jobs, queues, events
↑ ↓ j k        move; pgup, pgdown, g, G: further
enter          open the job under the cursor
esc            go back; in the list of jobs, show all jobs
/              show only jobs whose name contains a text
s r            sort by the next column; reverse the order
p              show what the policies would do now
q ctrl+c       quit

Size shows the number of slots in the ring since kolo top started, newest at
the right. Productive is the share of slot-seconds spent on steps that were
not lost. A dash means that a value is unknown.`
