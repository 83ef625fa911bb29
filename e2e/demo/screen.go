// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A screen prints what happens, one line each, with the time since the start.
type screen struct {
	began, told time.Time
}

func (s *screen) line(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// say tells what the demo does.
func (s *screen) say(format string, args ...any) {
	s.line("▶ "+format, args...)
}

// resize tells of a new ring.
func (s *screen) resize(z train.Resize) {
	s.line("◆ the ring has %d ranks now, it had %d: no rank trained for %s, step %d follows step %d",
		z.To, z.From, seconds(z.Gap()), z.After.Step, z.Before.Step)
}

// training tells how training goes, once a second.
func (s *screen) training(r train.Record) {
	if time.Since(s.told) < time.Second {
		return
	}
	s.told = time.Now()
	last := r.Last()
	rate := 0
	for _, e := range r.Leading() {
		if e.T > last.T-1 {
			rate += e.Size
		}
	}
	bar := strings.Repeat("■", last.Size) + strings.Repeat("·", max(0, 4-last.Size))
	s.line("  %s  step %4d  epoch %2d  loss %.4f  %3d batches/s", bar, last.Step, last.Epoch, last.Loss, rate)
}
