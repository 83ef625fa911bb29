// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// Phases holds the goodput of applications whose jobs adapt their batch size.
type Phases struct {
	file string
	apps map[string]*Goodput
}

// phaseRows is what the file has of one application.
type phaseRows struct {
	ends  []float64
	rows  [][]config // by phase and size, of which step is still per unit of progress
	times [][]float64
}

// OpenPhases reads a CSV file with the columns application, phase, end, gpus, step_time_s and,
// optional, batch and accum: for each application, phase 0, 1, 2 … and 1, 2, 3 … GPUs, the
// seconds per unit of progress. The phase ends at the progress end.
//
// The second file may be "". It is CSV with the columns application, batch_size, epoch,
// grad_sqr and grad_var: gradient statistics by phase, which Goodput.Misjudged needs. They
// require batch and accum in the first file.
func OpenPhases(path, gradients string) (*Phases, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("phases: %w", err)
	}
	defer f.Close()
	needed := []string{"application", "phase", "end", "gpus", "step_time_s"}
	if gradients != "" {
		needed = append(needed, "batch", "accum")
	}
	tab, err := newTable(f, path, needed...)
	if err != nil {
		return nil, err
	}
	apps := map[string]*phaseRows{}
	if err := tab.each(func() error { readPhase(tab, apps); return nil }); err != nil {
		return nil, err
	}
	if len(apps) == 0 {
		return nil, &Error{File: path, Line: 1, Err: errors.New("no phases below the header")}
	}
	p := &Phases{file: path, apps: map[string]*Goodput{}}
	for app, rows := range apps {
		if p.apps[app], err = rows.goodput(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, app, err)
		}
	}
	if gradients == "" {
		return p, nil
	}
	stats, err := readGradients(gradients)
	if err != nil {
		return nil, err
	}
	for app, rows := range apps {
		if err := p.apps[app].learn(rows, stats[app]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", gradients, app, err)
		}
	}
	return p, nil
}

// readPhase takes in the present record.
func readPhase(tab *table, apps map[string]*phaseRows) {
	app := tab.text("application")
	if app == "" {
		tab.fail("application", errors.New("want the name of an application"))
	}
	r := apps[app]
	if r == nil {
		r = &phaseRows{}
	}
	phase, gpus, end := tab.whole("phase", 0), tab.size("gpus", 1), tab.float("end", 0)
	t := tab.float("step_time_s", 0)
	if t == 0 {
		tab.fail("step_time_s", errors.New("want more than 0 seconds"))
	}
	c := config{step: t}
	if tab.has("batch") {
		c.batch = tab.whole("batch", 1)
	}
	if tab.has("accum") {
		c.accum = tab.whole("accum", 0)
	}
	at := len(r.ends) - 1
	switch next := gpus == 1 && phase == at+1; {
	case tab.err != nil:
		return
	case next && !(end > 0 && (at < 0 || end > r.ends[at])):
		tab.fail("end", errors.New("a phase ends after the one before it"))
		return
	case next:
		r.ends, r.rows, r.times = append(r.ends, end), append(r.rows, nil), append(r.times, nil)
		at++
	case phase != at || gpus != len(r.times[at])+1:
		tab.fail("gpus", fmt.Errorf("phases and sizes of %s stand in order without gaps", app))
		return
	case end != r.ends[at]:
		tab.fail("end", fmt.Errorf("phase %d of %s has two ends", phase, app))
		return
	}
	r.rows[at], r.times[at] = append(r.rows[at], c), append(r.times[at], t)
	apps[app] = r
}

// goodput returns the phases of an application.
func (r *phaseRows) goodput() (*Goodput, error) {
	g := &Goodput{}
	for k, times := range r.times {
		if len(times) != len(r.times[0]) {
			return nil, fmt.Errorf("phase %d has %d sizes, phase 0 has %d", k, len(times), len(r.times[0]))
		}
		c, err := NewCurve(times)
		if err != nil {
			return nil, fmt.Errorf("phase %d: %w", k, err)
		}
		g.Phases = append(g.Phases, Phase{End: r.ends[k], Curve: c, Seen: c})
	}
	return g, nil
}

// learn adds the gradient statistics of an application. The progress of a step follows from
// them, and the time of a step from that and from the time of a unit of progress.
func (g *Goodput) learn(r *phaseRows, stats []noise) error {
	if len(stats) != len(g.Phases) {
		return fmt.Errorf("gradient statistics of %d epochs for %d phases", len(stats), len(g.Phases))
	}
	g.stats, g.initial = stats, float64(stats[0].batch[0])
	g.configs = make([][]config, len(r.rows[0])+1)
	for k, row := range r.rows {
		for i, c := range row {
			c.step *= g.gain(k, c.batch, 1)
			n := i + 1
			if !slices.ContainsFunc(g.configs[n], func(o config) bool { return o.batch == c.batch && o.accum == c.accum }) {
				g.configs[n] = append(g.configs[n], c)
			}
		}
	}
	return nil
}

// readGradients returns gradient statistics by application and epoch.
func readGradients(path string) (map[string][]noise, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gradient statistics: %w", err)
	}
	defer f.Close()
	tab, err := newTable(f, path, "application", "batch_size", "epoch", "grad_sqr", "grad_var")
	if err != nil {
		return nil, err
	}
	apps := map[string][]noise{}
	err = tab.each(func() error {
		app, batch, epoch := tab.text("application"), tab.whole("batch_size", 1), tab.whole("epoch", 0)
		sqr, variance := tab.float("grad_sqr", 0), tab.float("grad_var", 0)
		if variance == 0 {
			tab.fail("grad_var", errors.New("want a variance above 0"))
		}
		stats := apps[app]
		if epoch > len(stats) {
			tab.fail("epoch", fmt.Errorf("epochs of %s stand in order without gaps, want at most %d", app, len(stats)))
		}
		if tab.err != nil {
			return tab.err
		}
		if epoch == len(stats) {
			stats = append(stats, noise{})
		}
		s := &stats[epoch]
		i, twice := slices.BinarySearch(s.batch, batch)
		if twice {
			tab.fail("batch_size", fmt.Errorf("epoch %d of %s with batch size %d is there twice", epoch, app, batch))
			return nil
		}
		s.batch, s.sqr, s.variance = slices.Insert(s.batch, i, batch), slices.Insert(s.sqr, i, sqr), slices.Insert(s.variance, i, variance)
		apps[app] = stats
		return nil
	})
	return apps, err
}

// curve returns the curve of an application in its first phase, nil if it has none.
func (p *Phases) curve(app string) *Curve {
	if p == nil || p.apps[app] == nil {
		return nil
	}
	return p.apps[app].Phases[0].Curve
}

// Apply makes jobs adapt their batch size if their application is in the file and their
// workers have one GPU each. They progress by its phases until the end of the last one, at
// any size that it has. All other jobs stay as they are. Apply returns an error if that holds
// for all jobs of the trace.
func (p *Phases) Apply(t *Trace) error {
	found := false
	for i := range t.Jobs {
		j := &t.Jobs[i]
		g := p.apps[j.App]
		if g == nil || j.PerWorker > 1 {
			continue
		}
		found = true
		j.Goodput, j.Curve, j.Steps = g, g.Phases[0].Curve, g.Length()
		j.Max = max(j.Min, j.Curve.Most())
		j.Preferred = min(j.Preferred, j.Max)
	}
	if !found {
		return fmt.Errorf("%s: no application in it is one of %s", p.file, t.Name)
	}
	return nil
}
