// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"io"
	"sync"
)

// pipe connects a host and a leader in one process. It has no bounds: one of
// its ends never makes the other wait.
type pipe[T any] struct {
	mu    sync.Mutex
	items []T
	more  chan struct{} // has an element when there may be items
	done  chan struct{}
	once  *sync.Once
}

func newPipe[T any](done chan struct{}, once *sync.Once) *pipe[T] {
	return &pipe[T]{more: make(chan struct{}, 1), done: done, once: once}
}

func (p *pipe[T]) put(v T) error {
	select {
	case <-p.done:
		return io.ErrClosedPipe
	default:
	}
	p.mu.Lock()
	p.items = append(p.items, v)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return nil
}

func (p *pipe[T]) get() (T, error) {
	for {
		p.mu.Lock()
		if len(p.items) > 0 {
			v := p.items[0]
			p.items = p.items[1:]
			p.mu.Unlock()
			return v, nil
		}
		p.mu.Unlock()
		select {
		case <-p.more:
		case <-p.done:
			var zero T
			return zero, io.EOF
		}
	}
}

func (p *pipe[T]) close() { p.once.Do(func() { close(p.done) }) }

type pipeSession struct {
	out *pipe[*ToLeader]
	in  *pipe[*ToAgent]
}

func (s pipeSession) send(m *ToLeader) error  { return s.out.put(m) }
func (s pipeSession) recv() (*ToAgent, error) { return s.in.get() }
func (s pipeSession) close()                  { s.out.close() }

type pipeHostSession struct {
	out *pipe[*ToAgent]
	in  *pipe[*ToLeader]
}

func (s pipeHostSession) send(m *ToAgent) error    { return s.out.put(m) }
func (s pipeHostSession) recv() (*ToLeader, error) { return s.in.get() }
func (s pipeHostSession) close()                   { s.out.close() }

// newPipes returns both ends of a session within this process.
func newPipes() (session, hostSession) {
	done, once := make(chan struct{}), &sync.Once{}
	up, dn := newPipe[*ToLeader](done, once), newPipe[*ToAgent](done, once)
	return pipeSession{up, dn}, pipeHostSession{dn, up}
}
