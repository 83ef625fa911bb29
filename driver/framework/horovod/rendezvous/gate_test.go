// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
)

// The gate resets connections of refused peers before it reads anything. However many they
// are, they displace no admitted connection.
func TestEndpoint_Gate(t *testing.T) {
	const foreigners = 3000
	gate := &intrudertest.Callers{}
	m := newMemory()
	e, err := rendezvous.ListenLimits(m, gate, hclog.NewNullLogger(), rendezvous.Limits{Conns: 2})
	must.NoError(t, err)
	defer func() { must.NoError(t, e.Close()) }()

	dialer := intrudertest.Dialer()
	var foreign []net.Conn
	for range foreigners {
		conn, err := dialer.Dial("tcp4", addrOf(e))
		if errors.Is(err, syscall.ECONNRESET) {
			continue // cut off already
		}
		must.NoError(t, err)
		defer conn.Close()
		_, _ = io.WriteString(conn, "PUT /s/forged HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
		foreign = append(foreign, conn)
	}
	// All of them are held open by their clients when the slot comes.
	status, _, err := clientOf(e).Do(withTimeout(t), "PUT", "/s/k", "v")
	must.NoError(t, err)
	must.Eq(t, 200, status)
	for _, conn := range foreign {
		answer, _ := io.ReadAll(conn)
		must.SliceEmpty(t, answer)
	}
	must.Eq(t, foreigners, gate.Refused.Load())
	_, found, err := m.Get(t.Context(), "s", "forged")
	must.NoError(t, err)
	must.False(t, found)
}

// heldGate admits no one before it is opened.
type heldGate struct{ asked, opened chan struct{} }

func (g heldGate) Admit(netip.AddrPort, netip.AddrPort) error {
	g.asked <- struct{}{}
	<-g.opened
	return nil
}

// An endpoint that is closed while its gate decides leaves nothing behind.
func TestEndpoint_CloseWhileDeciding(t *testing.T) {
	gate := heldGate{asked: make(chan struct{}), opened: make(chan struct{})}
	e, err := rendezvous.Listen(newMemory(), gate, hclog.NewNullLogger())
	must.NoError(t, err)
	conn, err := net.Dial("tcp4", addrOf(e))
	must.NoError(t, err)
	defer conn.Close()
	<-gate.asked
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	close(gate.opened)
	must.NoError(t, <-closed)
	_, err = conn.Read(make([]byte, 1))
	must.Error(t, err)
}

// Data from a peer that has reset its connection is not read: by the time that the gate
// looks for the peer, its address may belong to a process that the gate admits.
func TestEndpoint_ResetWhileDeciding(t *testing.T) {
	gate := heldGate{asked: make(chan struct{}), opened: make(chan struct{})}
	m := newMemory()
	e, err := rendezvous.Listen(m, gate, hclog.NewNullLogger())
	must.NoError(t, err)
	conn, err := net.Dial("tcp4", addrOf(e))
	must.NoError(t, err)
	_, err = io.WriteString(conn, "PUT /s/forged HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
	must.NoError(t, err)
	<-gate.asked
	must.NoError(t, conn.(*net.TCPConn).SetLinger(0))
	stranger := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	must.NoError(t, conn.Close())
	end := localpeer.Socket{Local: conn.RemoteAddr().(*net.TCPAddr).AddrPort(), Remote: stranger}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return !listed(t, end) }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	close(gate.opened)
	go func() { <-gate.asked }()
	status, _, err := clientOf(e).Do(withTimeout(t), "PUT", "/s/k", "v")
	must.NoError(t, err)
	must.Eq(t, 200, status)
	must.NoError(t, e.Close())
	_, found, err := m.Get(t.Context(), "s", "forged")
	must.NoError(t, err)
	must.False(t, found)
}

// listed reports whether the kernel lists this end of a connection. Others may have the
// same remote port, and be listed for a minute after they were closed.
func listed(t *testing.T, end localpeer.Socket) bool {
	t.Helper()
	f, err := os.Open("/proc/net/tcp")
	must.NoError(t, err)
	defer func() { _ = f.Close() }()
	for s := range localpeer.Table(f) {
		if s.Local == end.Local && s.Remote == end.Remote {
			return true
		}
	}
	return false
}

// BenchmarkGate measures one full rendezvous of 16 processes on two hosts. The endpoints
// admit every peer, or look it up by cgroup or by process. All 16 share one process here,
// which has all their files open, so the look-up by process costs more than usual.
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct {
		name string
		gate gate.Callers
	}{
		{"any peer", ringsim.AnyPeer{}},
		{"own cgroup", localpeer.NewTask(ownCgroup(b), hclog.NewNullLogger()).NewGate()},
		{"own processes", localpeer.NewTask(0, hclog.NewNullLogger()).NewGate()},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				ring, err := ringsim.Start(ringsim.Slots(8, 8), c.gate)
				must.NoError(b, err)
				must.NoError(b, ring.Initialize(b.Context(), "5e7", "seed"))
				b.ReportMetric(float64(ring.Requests.Load()), "requests/op")
				ring.Close()
			}
		})
	}
}

// ownCgroup returns the ID of this process's cgroup (version 2), 0 when it has none.
func ownCgroup(b *testing.B) uint64 {
	b.Helper()
	list, err := os.ReadFile("/proc/self/cgroup")
	must.NoError(b, err)
	_, path, _ := strings.Cut(string(list), "0::")
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var info syscall.Stat_t
		if syscall.Stat(filepath.Join(root, strings.TrimSpace(path)), &info) == nil {
			return info.Ino
		}
	}
	return 0
}
