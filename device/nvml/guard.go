// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/device/topology"
)

// Guard returns a library whose calls come back within the limit. A call that
// does not is left behind and reported as [ErrHung]; until it comes back, further
// calls to the same GPU fail at once instead of hanging as well. At most one
// thread per GPU is lost in this way, and one for the library. The gate of a GPU
// stays with its index when the machine is read anew.
//
// Sample alone is not cut off, for it is made every second and the cost of that
// would be greater than its own: its caller must not wait for it.
func Guard(l Library, limit time.Duration) Library {
	return &guarded{l: l, gate: gate{limit: limit}, gpus: map[int]*gate{}}
}

// gate lets one call through at a time.
type gate struct {
	limit time.Duration
	mu    sync.Mutex
	// under is closed when the call that is under way comes back; nil when none
	// is. Begun is since when it is.
	under chan struct{}
	begun time.Time
}

// enter waits for its turn, but no longer than the call under way has left of
// its limit. The caller must leave.
func (g *gate) enter(op string) error {
	for {
		g.mu.Lock()
		under, left := g.under, g.limit-time.Since(g.begun)
		if under == nil {
			g.under, g.begun = make(chan struct{}), time.Now()
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-under:
		case <-time.After(left):
			return &Error{Op: op, Code: ErrHung}
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.under)
	g.under = nil
}

// inUse tells whether a call is under way, waited for or left behind.
func (g *gate) inUse() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under != nil
}

// through runs f in a goroutine of its own, which ends when f does.
func through[T any](g *gate, op string, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var none T
	if err := g.enter(op); err != nil {
		return none, err
	}
	answer := make(chan result, 1)
	go func() {
		defer g.leave()
		v, err := f()
		answer <- result{v, err}
	}()
	limit := time.NewTimer(g.limit)
	defer limit.Stop()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-limit.C:
		return none, &Error{Op: op, Code: ErrHung}
	}
}

type guarded struct {
	l    Library
	gate gate
	mu   sync.Mutex
	gpus map[int]*gate // by index
}

func (g *guarded) Open() error {
	_, err := through(&g.gate, "open", func() (struct{}, error) { return struct{}{}, g.l.Open() })
	return err
}

// Close fails with [ErrHung] while any call is under way: the library must not
// go away under it.
func (g *guarded) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gpu := range g.gpus {
		if gpu.inUse() {
			return &Error{Op: "close", Code: ErrHung}
		}
	}
	_, err := through(&g.gate, "close", func() (struct{}, error) { return struct{}{}, g.l.Close() })
	return err
}

func (g *guarded) Driver() (Driver, error) { return through(&g.gate, "driver", g.l.Driver) }

func (g *guarded) Count() (int, error) { return through(&g.gate, "count", g.l.Count) }

func (g *guarded) GPU(index int) (GPU, error) {
	gpu, err := through(&g.gate, "handle", func() (GPU, error) { return g.l.GPU(index) })
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gpus[index] == nil {
		g.gpus[index] = &gate{limit: g.gate.limit}
	}
	return &guardedGPU{gpu: gpu, gate: g.gpus[index]}, nil
}

func (g *guarded) Pair(a, b GPU) (topology.Pair, error) {
	return through(&g.gate, "pair", func() (topology.Pair, error) {
		return g.l.Pair(unguard(a), unguard(b))
	})
}

func (g *guarded) Watch(gpus []GPU) (Watch, map[int]error, error) {
	inner := make([]GPU, len(gpus))
	for i, gpu := range gpus {
		inner[i] = unguard(gpu)
	}
	type watch struct {
		w       Watch
		without map[int]error
	}
	// The watch itself is not guarded: waiting is what it is for, and it has a
	// goroutine of its own.
	w, err := through(&g.gate, "watch", func() (watch, error) {
		w, without, err := g.l.Watch(inner)
		return watch{w, without}, err
	})
	return w.w, w.without, err
}

func unguard(gpu GPU) GPU {
	if g, ok := gpu.(*guardedGPU); ok {
		return g.gpu
	}
	return gpu
}

type guardedGPU struct {
	gpu  GPU
	gate *gate
}

func (g *guardedGPU) Facts() (Facts, error) { return through(g.gate, "facts", g.gpu.Facts) }

func (g *guardedGPU) Sample(all bool) (Sample, error) {
	if err := g.gate.enter("sample"); err != nil {
		return Sample{}, err
	}
	defer g.gate.leave()
	return g.gpu.Sample(all)
}
