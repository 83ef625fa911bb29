// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import "math"

// tournament finds the winners of the AFS-L knock-out, GPU after GPU, without
// comparing all jobs each time.
//
// The plain rule walks the list with a champion: each job in turn meets the
// champion and replaces it if it wins. "Wins" is not transitive, so no sorted
// structure gives the same answer. But the walk is a chain: the champion
// changes hands at a few places only, and between them lie jobs that lose to
// the champion of that stretch. Two facts make it fast:
//
//   - the next job that beats a given champion is found in a segment tree
//     over the list, whose nodes bound what their jobs could win by;
//   - giving a GPU to the final champion changes that job alone, so the chain
//     up to its predecessor stands, and the walk resumes there.
//
// The result equals the plain walk exactly, ties and rounding included.
type tournament struct {
	jobs  []*candidate
	left  []float64 // remaining seconds on one worker
	leaf  []entrant
	tree  []bounds // tree[1] is the root, leaves start at size
	size  int
	chain []int // champions in order of the list; the last one wins
}

// entrant holds the numbers that decide a job's matches at its current size.
type entrant struct {
	alive   bool
	started bool
	left    float64
	length  float64 // time to its end at the current size; +Inf when waiting
	loss    float64 // part of the next size's speed that the step brings, per GPU
	gain    float64 // part of the current size's speed that the step brings, per GPU
	next    int     // size after the step
}

// bounds holds extreme values over the entrants below a node.
type bounds struct {
	minLength, maxLength float64
	maxLoss              float64
	maxGain              float64 // of started entrants
	minWaiting           float64 // least left of waiting entrants
}

var noBounds = bounds{
	minLength: math.Inf(1), maxLength: math.Inf(-1), maxLoss: math.Inf(-1),
	maxGain: math.Inf(-1), minWaiting: math.Inf(1),
}

func newTournament(jobs []*candidate, left []float64) *tournament {
	t := &tournament{jobs: jobs, left: left, leaf: make([]entrant, len(jobs)), size: 1}
	for t.size < len(jobs) {
		t.size *= 2
	}
	t.tree = make([]bounds, 2*t.size)
	for i := range t.tree {
		t.tree[i] = noBounds
	}
	for i := range jobs {
		t.enter(i)
		t.tree[t.size+i] = t.leaf[i].bounds()
	}
	for i := t.size - 1; i > 0; i-- {
		t.tree[i] = join(&t.tree[2*i], &t.tree[2*i+1])
	}
	return t
}

// enter computes the entrant of job i at its current size.
func (t *tournament) enter(i int) {
	c, e := t.jobs[i], &t.leaf[i]
	*e = entrant{left: t.left[i], length: math.Inf(1)}
	e.next = c.next(c.n)
	if e.next == 0 {
		return
	}
	speed, faster := c.speed(c.n), c.speed(e.next)
	if c.n > 0 && faster <= speed {
		return // one more GPU would not help
	}
	e.alive = true
	e.started = c.n > 0
	gpus := float64(c.cost(e.next) - c.cost(c.n))
	e.loss = (faster - speed) / faster / gpus
	if e.started {
		e.length = e.left / speed
		e.gain = (faster - speed) / speed / gpus
	}
}

func (e *entrant) bounds() bounds {
	if !e.alive {
		return noBounds
	}
	b := bounds{
		minLength: e.length, maxLength: e.length, maxLoss: e.loss,
		maxGain: math.Inf(-1), minWaiting: math.Inf(1),
	}
	if e.started {
		b.maxGain = e.gain
	} else {
		b.minWaiting = e.left
	}
	return b
}

func join(a, b *bounds) bounds {
	return bounds{
		minLength: min(a.minLength, b.minLength), maxLength: max(a.maxLength, b.maxLength),
		maxLoss: max(a.maxLoss, b.maxLoss), maxGain: max(a.maxGain, b.maxGain),
		minWaiting: min(a.minWaiting, b.minWaiting),
	}
}

// losesTo reports whether challenger b takes the place of champion e.
func (e *entrant) losesTo(b *entrant) bool {
	if !b.alive {
		return false
	}
	if !e.started && !b.started {
		return b.left <= e.left
	}
	if e.length < b.length {
		return b.loss > e.gain // the longer challenger is more efficient
	}
	return !(e.loss > b.gain) // the shorter challenger is efficient enough
}

// mayLose reports whether some entrant within the bounds could beat e.
func (e *entrant) mayLose(b *bounds) bool {
	if !e.started {
		return b.minWaiting <= e.left || b.maxGain >= e.loss
	}
	return b.maxLength > e.length && b.maxLoss > e.gain ||
		b.minLength <= e.length && b.maxGain >= e.loss
}

// after returns the index of the first entrant at or after from that beats w, or -1
// if none does.
func (t *tournament) after(w *entrant, from int) int {
	if from >= len(t.jobs) {
		return -1
	}
	return t.search(w, 1, 0, t.size, from)
}

func (t *tournament) search(w *entrant, node, lo, hi, from int) int {
	if hi <= from || !w.mayLose(&t.tree[node]) {
		return -1
	}
	if hi-lo == 1 {
		if w.losesTo(&t.leaf[lo]) {
			return lo
		}
		return -1
	}
	mid := (lo + hi) / 2
	if i := t.search(w, 2*node, lo, mid, from); i >= 0 {
		return i
	}
	return t.search(w, 2*node+1, mid, hi, from)
}

// first returns the index of the first entrant alive at or after from, or -1 if
// there is none.
func (t *tournament) first(from int) int {
	for i := from; i < len(t.leaf); i++ {
		if t.leaf[i].alive {
			return i
		}
	}
	return -1
}

// update recomputes the bounds above job i after its size changed.
func (t *tournament) update(i int) {
	node := t.size + i
	t.tree[node] = t.leaf[i].bounds()
	for node /= 2; node > 0; node /= 2 {
		t.tree[node] = join(&t.tree[2*node], &t.tree[2*node+1])
	}
}

// run gives the pool's free GPUs to winner after winner.
func (t *tournament) run(p *pool) {
	from := 0
	for p.free > 0 {
		if len(t.chain) == 0 {
			head := t.first(from)
			if head < 0 {
				return
			}
			t.chain = append(t.chain, head)
			from = head + 1
		}
		for {
			champion := t.chain[len(t.chain)-1]
			i := t.after(&t.leaf[champion], from)
			if i < 0 {
				break
			}
			t.chain = append(t.chain, i)
			from = i + 1
		}
		winner := t.chain[len(t.chain)-1]
		t.chain = t.chain[:len(t.chain)-1]
		e := &t.leaf[winner]
		if c := t.jobs[winner]; p.set(c, e.next) {
			c.why = "short or efficient enough to win these GPUs"
			t.enter(winner)
		} else {
			e.alive = false // the free GPUs only decrease, so the step will not fit later
		}
		t.update(winner)
		from = winner
	}
}
