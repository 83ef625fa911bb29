// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package gate lets only some processes of a machine connect to a port on its loopback
// address. The port is open to all of them, with host networking those of all
// tenants, so each connection is decided by its peer before a byte is read.
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

// Callers decides which processes are answered.
type Callers interface {
	// Admit returns nil for a connection whose peer may be answered; local is
	// the port's address, remote the peer's. It is called before a byte is
	// read, for many connections at a time, and reports itself whom it refuses.
	Admit(local, remote netip.AddrPort) error
}

// maxUndecided bounds the connections about which Admit is being asked, and
// those that it has admitted and that wait for their turn.
const maxUndecided = 256

// Listen returns a listener of the connections of ln that callers admits. Others are
// reset. They are taken from the kernel's queue as they come, so that they do
// not stand in the way of those that are admitted.
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
			case l.failed <- err: // the server waits before it comes again
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

// established reports whether the peer still has the connection open. One that was
// reset waits in the kernel's queue with what was sent over it, and its port may be
// another process's by the time that it is looked up. One that is open after
// the look-up was open during it, so that the peer which was found is its own.
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

// Reset closes a connection in a way that leaves nothing of it in the kernel.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Accept returns the next connection that is admitted.
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

// Close ends the listener and waits for what is being decided.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.Listener.Close()
	l.running.Wait()
	return err
}
