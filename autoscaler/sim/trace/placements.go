// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Placements holds measured step times by placement, of several applications at several
// batch sizes.
type Placements struct {
	file  string
	times map[appKey]*Spans
}

// Spans holds the step times of one application at one batch size by placement. A placement
// is the list of the numbers of GPUs that the job has on its nodes.
type Spans struct {
	exact  map[string]float64
	bySize map[int][]span // in the order of the file
	sizes  []int          // with at least one placement, sorted
}

// span is one measured placement.
type span struct {
	parts []int // descending
	time  float64
}

// OpenPlacements reads a CSV file with the columns application, batch_size, placement and
// step_time_s. A placement is the GPUs on each node, joined by +: 2+1+1 is four GPUs on
// three nodes. The columns gpus and nodes are checked if they exist.
func OpenPlacements(path string) (*Placements, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("step times by placement: %w", err)
	}
	defer f.Close()
	return ReadPlacements(f, path)
}

// ReadPlacements is like OpenPlacements, but reads an open file of the given name.
func ReadPlacements(r io.Reader, file string) (*Placements, error) {
	tab, err := newTable(r, file, "application", "batch_size", "placement", "step_time_s")
	if err != nil {
		return nil, err
	}
	p := &Placements{file: file, times: map[appKey]*Spans{}}
	err = tab.each(func() error {
		p.add(tab)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.times) == 0 {
		return nil, &Error{File: file, Line: 1, Err: errors.New("no placements below the header")}
	}
	for _, s := range p.times {
		for n := range s.bySize {
			s.sizes = append(s.sizes, n)
		}
		slices.Sort(s.sizes)
	}
	return p, nil
}

// add adds the present record.
func (p *Placements) add(tab *table) {
	key := appKey{tab.text("application"), tab.whole("batch_size", 1)}
	if key.app == "" {
		tab.fail("application", errors.New("want the name of an application"))
	}
	parts, err := parseParts(tab.text("placement"))
	if err != nil {
		tab.fail("placement", err)
	}
	n := sum(parts)
	if tab.has("gpus") && tab.err == nil && tab.size("gpus", 1) != n {
		tab.fail("gpus", fmt.Errorf("placement %s has %d GPUs", spell(parts), n))
	}
	if tab.has("nodes") && tab.err == nil && tab.size("nodes", 1) != len(parts) {
		tab.fail("nodes", fmt.Errorf("placement %s has %d nodes", spell(parts), len(parts)))
	}
	t := tab.float("step_time_s", 0)
	if t == 0 {
		tab.fail("step_time_s", errors.New("want more than 0 seconds"))
	}
	s := p.times[key]
	if s == nil {
		s = &Spans{exact: map[string]float64{}, bySize: map[int][]span{}}
	}
	if _, twice := s.exact[spell(parts)]; twice && tab.err == nil {
		tab.fail("placement", fmt.Errorf("%s of %s with batch size %d is listed twice", spell(parts), key.app, key.batch))
	}
	if tab.err != nil {
		return
	}
	p.times[key] = s
	s.exact[spell(parts)] = t
	s.bySize[n] = append(s.bySize[n], span{parts, t})
}

// parseParts reads a placement such as 2+1+1, in any order of its parts.
func parseParts(s string) ([]int, error) {
	var parts []int
	total := 0
	for _, word := range strings.Split(s, "+") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("want GPUs by node such as 2+1+1, got %q", s)
		}
		if n > maxSize || total+n > maxSize {
			return nil, fmt.Errorf("want at most %d GPUs", maxSize)
		}
		total += n
		parts = append(parts, n)
	}
	slices.SortFunc(parts, func(a, b int) int { return b - a })
	return parts, nil
}

// spell returns a placement as text. It is the inverse of parseParts.
func spell(parts []int) string {
	var b strings.Builder
	for i, n := range parts {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

func sum(parts []int) (n int) {
	for _, p := range parts {
		n += p
	}
	return n
}

// Apply sets the step times by placement of the jobs of a trace, according to their
// application and batch size. If the trace has no batch sizes, Apply uses the application's
// smallest one. A job whose application or batch size is not in the file keeps its curve,
// wherever it is placed. Apply returns an error if that holds for all jobs of the trace.
func (p *Placements) Apply(t *Trace) error {
	smallest := map[string]appKey{}
	for key := range p.times {
		if s, ok := smallest[key.app]; !ok || key.batch < s.batch {
			smallest[key.app] = key
		}
	}
	found := false
	for i := range t.Jobs {
		j := &t.Jobs[i]
		key := appKey{j.App, j.Batch}
		if j.Batch == 0 {
			key = smallest[j.App]
		}
		j.Spans = p.times[key]
		found = found || j.Spans != nil
	}
	if !found {
		return fmt.Errorf("%s: no application and batch size in it is one of %s", p.file, t.Name)
	}
	return nil
}

// StepTimeOn returns the true time, in seconds, of one global step on nodes with the given
// numbers of workers. Without Spans it depends only on their sum. The argument is sorted in
// place.
func (j *Job) StepTimeOn(workers []int) float64 {
	slices.SortFunc(workers, func(a, b int) int { return b - a })
	n := sum(workers)
	if j.Spans == nil || n == 0 {
		return j.StepTime(n)
	}
	per := max(1, j.PerWorker)
	gpus := workers
	if per > 1 {
		gpus = make([]int, len(workers))
		for i, w := range workers {
			gpus[i] = w * per
		}
	}
	if t, ok := j.Spans.at(gpus); ok {
		return t
	}
	return j.StepTime(n) * j.Spans.ratio(gpus)
}

// at returns the step time of a placement or, if it was not measured, of the nearest
// placement with the same number of GPUs: the one whose number of nodes differs least,
// then the one with the fewest GPUs elsewhere, then the first in the file.
func (s *Spans) at(parts []int) (float64, bool) {
	if t, ok := s.exact[spell(parts)]; ok {
		return t, true
	}
	best, nodes, moved := math.Inf(1), math.MaxInt, math.MaxInt
	for _, known := range s.bySize[sum(parts)] {
		d, m := distance(len(known.parts), len(parts)), apart(known.parts, parts)
		if cmp.Or(cmp.Compare(d, nodes), cmp.Compare(m, moved)) < 0 {
			best, nodes, moved = known.time, d, m
		}
	}
	return best, !math.IsInf(best, 1)
}

// ratio returns how much longer a step takes at a placement than on the fewest nodes, for a
// number of GPUs that was never measured. It is the ratio at the nearest measured number,
// for the placement there whose nodes per GPU are most similar.
func (s *Spans) ratio(parts []int) float64 {
	n := sum(parts)
	size := s.sizes[0]
	for _, m := range s.sizes {
		if distanceLog(m, n) < distanceLog(size, n) {
			size = m
		}
	}
	known := s.bySize[size]
	least, like := known[0], known[0]
	want := float64(len(parts)) / float64(n)
	for _, k := range known {
		if len(k.parts) < len(least.parts) {
			least = k
		}
		if math.Abs(float64(len(k.parts))/float64(size)-want) < math.Abs(float64(len(like.parts))/float64(size)-want) {
			like = k
		}
	}
	return like.time / least.time
}

func distance(a, b int) int { return max(a, b) - min(a, b) }

func distanceLog(a, b int) float64 { return math.Abs(math.Log(float64(a) / float64(b))) }

// apart returns how many GPUs two descending placements have at different places.
func apart(a, b []int) (n int) {
	for i := range max(len(a), len(b)) {
		x, y := 0, 0
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		n += distance(x, y)
	}
	return n
}
