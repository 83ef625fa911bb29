// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package gate restricts which processes of a machine can use a port on its loopback
// address. Every process of the network namespace can connect to such a port; with host
// networking, these are the processes of all tenants. So the gate decides on each
// connection by its peer before it reads a byte.
//
//	listener ──> Callers.Admit ─┬─ admitted ──> Accept
//	                            └─ refused ───> Reset
package gate

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Callers decides which processes may connect.
type Callers interface {
	// Admit returns nil if the peer of a connection may be served; local is the port's
	// address, remote the peer's. It is called before a byte is read, for many connections
	// at a time. Admit itself logs the peers that it refuses.
	Admit(local, remote netip.AddrPort) error
}

// maxUndecided bounds the connections that wait for Admit or, after Admit, for Accept.
const maxUndecided = 256

// Listen returns a listener for the connections of ln that callers admits. The listener
// resets all other connections. It takes connections from the kernel's queue as they
// arrive, so that refused connections do not block admitted ones.
func Listen(ln net.Listener, callers Callers) net.Listener {
	l := &listener{
		Listener: ln, callers: callers,
		undecided: make(chan struct{}, maxUndecided),
		admitted:  make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}),
	}
	l.running.Go(l.accept)
	return l
}

type listener struct {
	net.Listener
	callers   Callers
	undecided chan struct{}
	admitted  chan net.Conn
	failed    chan error
	closed    chan struct{}
	once      sync.Once
	running   sync.WaitGroup
}

// accept takes connections until the listener is closed.
func (l *listener) accept() {
	for {
		select {
		case l.undecided <- struct{}{}:
		case <-l.closed:
			return
		}
		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.undecided
			select {
			case l.failed <- err: // the server pauses before it calls Accept again
				continue
			case <-l.closed:
				return
			}
		}
		l.running.Go(func() {
			defer func() { <-l.undecided }()
			l.decide(conn)
		})
	}
}

// decide hands an admitted connection on, and resets any other.
func (l *listener) decide(conn net.Conn) {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	remote, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !ok2 || l.callers.Admit(local.AddrPort(), remote.AddrPort()) != nil || !established(conn) {
		Reset(conn)
		return
	}
	select {
	case l.admitted <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// established reports whether the peer still has the connection open. After a reset, a
// connection and its data remain in the kernel's queue, and the peer's port may belong to
// another process by the time that it is looked up. A connection that is still open after
// the look-up was open during it, so the look-up found the right process.
func established(conn net.Conn) bool {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	var infoErr error
	err = raw.Control(func(fd uintptr) {
		info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return err == nil && infoErr == nil && info.State == unix.BPF_TCP_ESTABLISHED
}

// Reset closes a connection so that nothing of it remains in the kernel.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Accept returns the next admitted connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.admitted:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and waits for the pending decisions.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.Listener.Close()
	l.running.Wait()
	return err
}
