// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import "sync"

// shared lets concurrent callers share one reading. A caller's reading begins after
// its call, so it shows everything that was true at that time.
type shared[T any] struct {
	turn sync.Mutex // held during a reading

	mu   sync.Mutex
	next *reading[T] // has not begun yet
}

type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func (s *shared[T]) do(read func() (T, error)) (T, error) {
	s.mu.Lock()
	r, first := s.next, s.next == nil
	if first {
		r = &reading[T]{done: make(chan struct{})}
		s.next = r
	}
	s.mu.Unlock()
	if !first {
		<-r.done
		return r.value, r.err
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	r.value, r.err = read()
	close(r.done)
	return r.value, r.err
}
