// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// leaseRetry is how long an expired connection is left open at a time, while its
// peer cannot have renewed its certificate.
const leaseRetry = 5 * time.Second

// lease returns the connection, and closes it once the peer's certificate has
// expired. Agents that stay in the job open another one in time.
func (t *Transport) lease(conn net.Conn, id Identity) net.Conn {
	l := &leased{Conn: conn, presence: t.Presence, log: t.Logger, id: id}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(id.Until.Add(clockLeeway).Sub(t.Verifier.now()), l.expire)
	return l
}

type leased struct {
	net.Conn
	presence *Presence
	log      hclog.Logger
	id       Identity

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// expire closes the connection, unless Nomad is out of reach. In that case no agent
// can get a new identity, so an expired one is no evidence against the peer, and
// training goes on.
func (l *leased) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if !l.presence.renewable() {
		l.timer.Reset(leaseRetry)
		return
	}
	l.log.Info("closing a connection whose peer's certificate has expired", "allocation", l.id.AllocID, "expired", l.id.Until)
	_ = l.Conn.Close()
}

// Close closes the connection.
func (l *leased) Close() error {
	l.mu.Lock()
	l.closed = true
	l.timer.Stop()
	l.mu.Unlock()
	return l.Conn.Close()
}

// refusable logs that the server refused this agent. In TLS 1.3 a client learns
// that from its first read after the handshake, which fails with the server's alert
// or with EOF. A server that accepts the connection sends its settings first.
type refusable struct {
	net.Conn
	log   hclog.Logger
	alloc string
	heard atomic.Bool // the server has sent something
	once  sync.Once
}

// Read reads from the connection.
func (c *refusable) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	op := (*net.OpError)(nil)
	alert := errors.As(err, &op) && op.Op == "remote error"
	if alert || errors.Is(err, io.EOF) && !c.heard.Load() {
		c.once.Do(func() {
			c.log.Warn("a peer refuses this agent; its log says why", "allocation", c.alloc, "error", err)
		})
	}
	return n, err
}
