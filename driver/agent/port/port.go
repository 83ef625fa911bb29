// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// The port is open to all who reach it. These bound what callers that have not
// authenticated themselves cost: a connection before its first byte some
// kilobytes, one in a handshake some tens of them, one that asks for the status
// at most MaxHeader.
const (
	// maxUnknown connections are in a handshake, or have not sent anything yet;
	// maxUnknownEach of one address. In a large job there may be more of either,
	// unknownPerPeer for each agent: all of them may call at once, when another
	// leader is elected, and from one address where there is NAT between them. An
	// agent opens two at a time.
	maxUnknown, maxUnknownEach, unknownPerPeer = 256, 64, 4
	// maxWeb connections ask for the status, maxWebEach of one address.
	maxWeb, maxWebEach = 64, 16
	// firstByteWait is how long a caller may be silent.
	firstByteWait = 5 * time.Second
	// MaxHeader bounds the headers of one call or request.
	MaxHeader = 64 << 10
	// IdleLimit is how long a connection is kept without a call or request.
	IdleLimit = time.Minute
	// acceptPause is how long a port rests after a connection that could not be
	// taken.
	acceptPause = 50 * time.Millisecond
	// tlsHandshake is the first byte of TLS (RFC 8446, 5.1). No HTTP method
	// begins with it.
	tlsHandshake = 0x16
)

// Port serves two protocols on one port, so that a job needs only one: gRPC
// within TLS, for agents, and HTTP/1, for those who read the status.
type Port struct {
	l                net.Listener
	agents, web      *half
	unknown, readers *limiter
	wg               sync.WaitGroup
}

// half is one protocol's side of a port.
type half struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newHalf(addr net.Addr) *half {
	return &half{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// Share serves the listener. peers returns how many agents the job has.
func Share(l net.Listener, peers func() int) *Port {
	p := &Port{l: l, agents: newHalf(l.Addr()), web: newHalf(l.Addr()),
		unknown: newLimiter(func() (total, each int) {
			n := unknownPerPeer * peers()
			return max(maxUnknown, n), max(maxUnknownEach, n)
		}),
		readers: newLimiter(func() (total, each int) { return maxWeb, maxWebEach })}
	p.wg.Add(1)
	go p.serve()
	return p
}

// Agents listens for other agents.
func (p *Port) Agents() net.Listener { return p.agents }

// Web listens for those who read the status.
func (p *Port) Web() net.Listener { return p.web }

func (p *Port) serve() {
	defer p.wg.Done()
	for {
		c, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			_ = p.agents.Close()
			_ = p.web.Close()
			return
		}
		if err != nil { // no file descriptor is free, for one; that passes
			time.Sleep(acceptPause)
			continue
		}
		claim := p.unknown.add(c)
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.sort(c, claim)
		}()
	}
}

// sort reads the first byte of a connection. TLS goes to the side of the agents,
// and counts until the caller is authenticated; the rest to that of the status,
// and counts there until its end.
func (p *Port) sort(c net.Conn, claim *claim) {
	first := &peekedConn{Conn: c, claim: claim}
	_ = c.SetReadDeadline(time.Now().Add(firstByteWait))
	if _, err := io.ReadFull(c, first.head[:]); err != nil {
		_ = first.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	h := p.agents
	if first.head[0] != tlsHandshake {
		h = p.web
		first.claim = p.readers.add(c)
		claim.release()
	}
	select {
	case h.conns <- first:
	case <-first.claim.gone: // no one serves yet, and others came
		_ = first.Close()
	case <-h.done:
		_ = first.Close()
	}
}

// Close closes the port and waits for what is being sorted.
func (p *Port) Close() {
	_ = p.l.Close()
	p.wg.Wait()
}

// Accept waits for a connection of this protocol.
func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *half) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is the shared port's address.
func (h *half) Addr() net.Addr { return h.addr }

// peekedConn gives back the byte that was looked at.
type peekedConn struct {
	net.Conn
	claim *claim
	head  [1]byte
	read  bool // head has been given back
}

// Read reads from the connection.
func (c *peekedConn) Read(b []byte) (int, error) {
	if !c.read && len(b) > 0 {
		c.read = true
		b[0] = c.head[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// Admitted ends the limits of a connection whose caller is an agent of the job.
func (c *peekedConn) Admitted() { c.claim.release() }

// Gone is closed when the connection was closed for another one.
func (c *peekedConn) Gone() <-chan struct{} { return c.claim.gone }

// Close closes the connection.
func (c *peekedConn) Close() error {
	c.claim.release()
	return c.Conn.Close()
}
