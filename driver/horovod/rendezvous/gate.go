// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Gate decides which processes an endpoint answers. The port is open to every
// process of the machine's network, and Horovod's client carries no secret.
type Gate interface {
	// Admit returns nil for a connection whose peer may be answered; local is
	// the endpoint's address, remote the peer's. It is called before a byte is
	// read, for many connections at a time, and reports itself whom it refuses.
	Admit(local, remote netip.AddrPort) error
}

// maxUndecided bounds the connections about which a gate is being asked, and
// those that it has admitted and that wait for their turn.
const maxUndecided = 256

// gateConns returns a listener of the connections that gate admits. Others are
// closed. They are taken from the kernel's queue as they come, so that they do
// not stand in the way of those that are admitted.
func gateConns(ln net.Listener, gate Gate) net.Listener {
	l := &gatedListener{
		Listener: ln, gate: gate,
		undecided: make(chan struct{}, maxUndecided),
		admitted:  make(chan net.Conn), failed: make(chan error), closed: make(chan struct{}),
	}
	l.running.Go(l.accept)
	return l
}

type gatedListener struct {
	net.Listener
	gate      Gate
	undecided chan struct{}
	admitted  chan net.Conn
	failed    chan error
	closed    chan struct{}
	once      sync.Once
	running   sync.WaitGroup
}

// accept takes connections until the listener is closed.
func (l *gatedListener) accept() {
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

// decide hands an admitted connection on, and closes any other.
func (l *gatedListener) decide(conn net.Conn) {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	remote, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !ok2 || l.gate.Admit(local.AddrPort(), remote.AddrPort()) != nil || !established(conn) {
		reset(conn)
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
// another process's by the time that the gate looks it up. One that is open after
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

// reset closes a connection in a way that leaves nothing of it in the kernel.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Accept returns the next connection that is admitted.
func (l *gatedListener) Accept() (net.Conn, error) {
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
func (l *gatedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	err := l.Listener.Close()
	l.running.Wait()
	return err
}
