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

// Everyone who can reach the port can connect. These limits bound the memory for callers
// that have not authenticated themselves: some kilobytes for a connection before its first
// byte, some tens of kilobytes for one in a handshake, and at most MaxHeader for one that
// asks for the status.
const (
	// maxUnknown bounds the connections that are in a handshake or have not sent anything
	// yet, and maxUnknownEach those from one address. A large job may have more of either,
	// unknownPerPeer for each agent. When another leader is elected, all agents may call at
	// once, and from one address if there is NAT between them. An agent opens two
	// connections at a time.
	maxUnknown, maxUnknownEach, unknownPerPeer = 256, 64, 4
	// maxWeb bounds the connections that ask for the status, and maxWebEach those from one
	// address.
	maxWeb, maxWebEach = 64, 16
	// firstByteWait is how long a caller may wait before it sends its first byte.
	firstByteWait = 5 * time.Second
	// MaxHeader bounds the headers of one call or request.
	MaxHeader = 64 << 10
	// IdleLimit is how long a connection is kept without a call or request.
	IdleLimit = time.Minute
	// acceptPause is how long a port pauses after a failed accept.
	acceptPause = 50 * time.Millisecond
	// tlsHandshake is the first byte of TLS (RFC 8446, 5.1). No HTTP method
	// begins with it.
	tlsHandshake = 0x16
)

// Port serves two protocols, so that a job needs only one port: gRPC within TLS for
// agents, and HTTP/1 for readers of the status.
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

// Share starts to serve the listener. peers returns how many agents the job has; the limits
// on connections grow with this number.
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

// Agents returns the listener for other agents.
func (p *Port) Agents() net.Listener { return p.agents }

// Web returns the listener for readers of the status.
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
		if err != nil { // for example no free file descriptor; that passes
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

// sort passes a connection on by its first byte. A TLS connection goes to the listener for
// agents, and counts until the caller is authenticated. Any other goes to the listener for
// readers of the status, and counts there until it ends.
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
	case <-first.claim.gone: // no one serves yet, and newer connections came
		_ = first.Close()
	case <-h.done:
		_ = first.Close()
	}
}

// Close closes the port and waits for connections that have yet to be passed on.
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

// Addr returns the shared port's address.
func (h *half) Addr() net.Addr { return h.addr }

// peekedConn is a connection whose first byte was read and is returned again by Read.
type peekedConn struct {
	net.Conn
	claim *claim
	head  [1]byte
	read  bool // Read has returned head
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

// Admitted lifts the limits from a connection whose caller is an agent of the job.
func (c *peekedConn) Admitted() { c.claim.release() }

// Gone returns a channel that is closed if the connection was replaced by another one.
func (c *peekedConn) Gone() <-chan struct{} { return c.claim.gone }

// Close closes the connection.
func (c *peekedConn) Close() error {
	c.claim.release()
	return c.Conn.Close()
}
