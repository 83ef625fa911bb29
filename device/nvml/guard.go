// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/device/topology"
)

// Guard returns a library whose calls return within the limit. A call that takes
// longer is abandoned and reported as [ErrHung]. Until it returns, further calls to
// the same GPU fail at once instead of hanging as well. So at most one thread hangs
// for each GPU, one for the library, and one for Watch. Each GPU index has its own
// gate, which lets one call through at a time and remains when the machine is read
// again.
//
// Every call about a GPU passes that GPU's gate. This includes the call that
// returns the GPU's handle, because NVML may initialize the GPU in it.
//
// Only Sample has no time limit: it is called every second, and the limit would
// cost more than the call. So a goroutine that must not hang must not call Sample.
func Guard(l Library, limit time.Duration) Library {
	return &guarded{l: l, gate: gate{limit: limit}, watch: gate{limit: limit}, gpus: map[int]*gate{}}
}

// gate lets one call through at a time.
type gate struct {
	limit time.Duration
	mu    sync.Mutex
	// inFlight is closed when the current call returns; nil if there is none.
	inFlight chan struct{}
	since    time.Time
}

// enter waits for the current call, but no longer than the rest of its limit. If
// enter succeeds, the caller must call leave.
func (g *gate) enter(op string) error {
	for {
		g.mu.Lock()
		inFlight, left := g.inFlight, g.limit-time.Since(g.since)
		if inFlight == nil {
			g.inFlight, g.since = make(chan struct{}), time.Now()
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		select {
		case <-inFlight:
		case <-time.After(left):
			return &Error{Op: op, Code: ErrHung}
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.inFlight)
	g.inFlight = nil
}

// busy reports whether a call is running, even if it was abandoned.
func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight != nil
}

// within runs f in a goroutine of its own, which ends when f does, and waits for it
// up to the limit.
func within[T any](g *gate, op string, f func() (T, error)) (T, error) {
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
	l     Library
	gate  gate
	watch gate
	mu    sync.Mutex
	gpus  map[int]*gate // by index
}

func (g *guarded) Open() error {
	_, err := within(&g.gate, "open", func() (struct{}, error) { return struct{}{}, g.l.Open() })
	return err
}

// Close returns [ErrHung] while any call is running, because the library must not
// be unloaded during a call.
func (g *guarded) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, other := range slices.AppendSeq([]*gate{&g.watch}, maps.Values(g.gpus)) {
		if other.busy() {
			return &Error{Op: "close", Code: ErrHung}
		}
	}
	_, err := within(&g.gate, "close", func() (struct{}, error) { return struct{}{}, g.l.Close() })
	return err
}

func (g *guarded) Driver() (Driver, error) { return within(&g.gate, "driver", g.l.Driver) }

func (g *guarded) Count() (int, error) { return within(&g.gate, "count", g.l.Count) }

func (g *guarded) GPU(index int) (GPU, error) {
	own := g.gateOf(index)
	gpu, err := within(own, "handle", func() (GPU, error) { return g.l.GPU(index) })
	if err != nil {
		return nil, err
	}
	return &guardedGPU{gpu: gpu, gate: own, index: index}, nil
}

// gateOf returns the gate of a GPU.
func (g *guarded) gateOf(index int) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gpus[index] == nil {
		g.gpus[index] = &gate{limit: g.gate.limit}
	}
	return g.gpus[index]
}

// Pair passes the gates of both GPUs, the one with the lower index first.
func (g *guarded) Pair(a, b GPU) (topology.Pair, error) {
	ga, okA := a.(*guardedGPU)
	gb, okB := b.(*guardedGPU)
	if !okA || !okB {
		return topology.Pair{}, fmt.Errorf("pair of %T and %T: not GPUs of this library", a, b)
	}
	first, second := ga.gate, gb.gate
	if ga.index > gb.index {
		first, second = second, first
	}
	return within(first, "pair", func() (topology.Pair, error) {
		if err := second.enter("pair"); err != nil {
			return topology.Pair{}, err
		}
		defer second.leave()
		return g.l.Pair(ga.gpu, gb.gpu)
	})
}

func (g *guarded) Watch(gpus []GPU) (Watch, map[int]error, error) {
	inner := make([]GPU, len(gpus))
	for i, gpu := range gpus {
		inner[i] = unguard(gpu)
	}
	type watch struct {
		w      Watch
		failed map[int]error
	}
	// The watch itself is not guarded: its purpose is to wait, and it has a
	// goroutine of its own.
	w, err := within(&g.watch, "watch", func() (watch, error) {
		w, failed, err := g.l.Watch(inner)
		return watch{w, failed}, err
	})
	return w.w, w.failed, err
}

func unguard(gpu GPU) GPU {
	if g, ok := gpu.(*guardedGPU); ok {
		return g.gpu
	}
	return gpu
}

type guardedGPU struct {
	gpu   GPU
	gate  *gate
	index int
}

func (g *guardedGPU) Facts() (Facts, error) { return within(g.gate, "facts", g.gpu.Facts) }

func (g *guardedGPU) Sample(all bool) (Sample, error) {
	if err := g.gate.enter("sample"); err != nil {
		return Sample{}, err
	}
	defer g.gate.leave()
	return g.gpu.Sample(all)
}
