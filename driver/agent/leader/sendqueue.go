// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"errors"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// sendQueue lets the leader's goroutine send without waiting for a slow host. It also
// sends heartbeats, however busy the leader is.
type sendQueue struct {
	s     Session
	queue chan *wire.ToAgent
	done  chan struct{}
	once  sync.Once
}

var errSlow = errors.New("host does not keep up")

func newSendQueue(s Session) *sendQueue {
	q := &sendQueue{s: s, queue: make(chan *wire.ToAgent, 1024), done: make(chan struct{})}
	go func() {
		tick := time.NewTicker(wire.HeartbeatInterval)
		defer tick.Stop()
		for {
			m := &wire.ToAgent{}
			select {
			case <-q.done:
				return
			case m = <-q.queue:
			case <-tick.C:
			}
			if err := s.Send(m); err != nil {
				s.Close()
				return
			}
		}
	}()
	return q
}

func (q *sendQueue) Send(m *wire.ToAgent) error {
	select {
	case q.queue <- m:
		return nil
	default:
		return errSlow
	}
}

func (q *sendQueue) Recv() (*wire.ToLeader, error) { return q.s.Recv() }

func (q *sendQueue) Close() {
	q.once.Do(func() { close(q.done) })
	q.s.Close()
}
