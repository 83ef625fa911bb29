// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"io"
	"sync"
)

// queue is one direction of a pipe. It is unbounded, so that one end never blocks the
// other.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	more  chan struct{} // has an element when there may be items
	done  chan struct{}
	once  *sync.Once
}

func newQueue[T any](done chan struct{}, once *sync.Once) *queue[T] {
	return &queue[T]{more: make(chan struct{}, 1), done: done, once: once}
}

func (q *queue[T]) put(v T) error {
	select {
	case <-q.done:
		return io.ErrClosedPipe
	default:
	}
	q.mu.Lock()
	q.items = append(q.items, v)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
	return nil
}

func (q *queue[T]) get() (T, error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			v := q.items[0]
			q.items = q.items[1:]
			q.mu.Unlock()
			return v, nil
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-q.done:
			var zero T
			return zero, io.EOF
		}
	}
}

func (q *queue[T]) close() { q.once.Do(func() { close(q.done) }) }

// End is one end of a pipe.
type End[Out, In any] struct {
	out *queue[Out]
	in  *queue[In]
}

// Send sends a message to the other end.
func (e End[Out, In]) Send(m Out) error { return e.out.put(m) }

// Recv waits for a message of the other end.
func (e End[Out, In]) Recv() (In, error) { return e.in.get() }

// Close ends the session. Messages that were sent before are still received.
func (e End[Out, In]) Close() { e.out.close() }

// HostEnd is the host's end of a pipe.
type HostEnd = End[*ToLeader, *ToAgent]

// LeaderEnd is the leader's end of a pipe.
type LeaderEnd = End[*ToAgent, *ToLeader]

// Pipe returns both ends of a session within this process.
func Pipe() (HostEnd, LeaderEnd) {
	done, once := make(chan struct{}), &sync.Once{}
	up, down := newQueue[*ToLeader](done, once), newQueue[*ToAgent](done, once)
	return HostEnd{up, down}, LeaderEnd{down, up}
}
