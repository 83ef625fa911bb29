// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package port_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/port"
	"github.com/kolo-nomad/kolo/driver/agent/session"
	"github.com/kolo-nomad/kolo/driver/agent/statusapi"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/internal/peertest"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

const (
	// floodSize connections cost 208 MB when each had gRPC's buffers.
	floodSize = 3000
	// floodCost bounds their memory, including the test's own ends.
	floodCost = 32 << 20
)

// flood opens connections from a number of addresses, sends something on each, and leaves
// them open.
func flood(t *testing.T, addr string, from int, send []byte) {
	t.Helper()
	for i := range floodSize {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i%from), 1)}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		must.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write(send)
	}
}

// floodOn continues the flood until the test ends.
func floodOn(t *testing.T, addr string, from int, send []byte) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		held := make([]net.Conn, 2*port.MaxUnknown)
		for i := 0; ctx.Err() == nil; i++ {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i%from), 1)}}
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				continue
			}
			_, _ = c.Write(send)
			if old := held[i%len(held)]; old != nil {
				_ = old.Close()
			}
			held[i%len(held)] = c
		}
		for _, c := range held {
			if c != nil {
				_ = c.Close()
			}
		}
	})
}

// tiredListener fails to accept at first.
type tiredListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *tiredListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// listen serves both protocols on a port.
func listen(t *testing.T, server *grpc.Server, web *http.Server, failures int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	tired := &tiredListener{Listener: l}
	tired.failures.Store(int32(failures))
	ports := port.Share(tired, func() int { return 4 })
	go func() { _ = server.Serve(ports.Agents()) }()
	go func() { _ = web.Serve(ports.Web()) }()
	t.Cleanup(func() { server.Stop(); _ = web.Close(); ports.Close() })
	return l.Addr().String()
}

func TestThePortOutlivesAWantOfDescriptors(t *testing.T) {
	t.Parallel()
	web := statusapi.NewServer(func(context.Context) *wire.Status { return &wire.Status{} })
	addr := listen(t, session.NewServer(peertest.New(t, "lead").Transport("lead").Server()), web, 3)
	resp, err := http.Get("http://" + addr + "/v1/health")
	must.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, "ok\n", string(body))
}

// Readers of the status at an address outside the flood are always answered.
func TestAFlood_ofOthers(t *testing.T) {
	addr := listen(t, grpc.NewServer(), statusapi.NewServer(func(context.Context) *wire.Status { return &wire.Status{} }), 0)
	for range 4 {
		floodOn(t, addr, 5, []byte("G"))
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 300 {
		resp, err := client.Get("http://" + addr + "/v1/health")
		must.NoError(t, err)
		must.NoError(t, resp.Body.Close())
	}
}

// clientHello returns the first message of a TLS client.
func clientHello(t *testing.T) []byte {
	near, far := net.Pipe()
	go func() {
		_ = tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(t.Context())
	}()
	head := make([]byte, 5)
	_, err := io.ReadFull(far, head)
	must.NoError(t, err)
	body := make([]byte, int(head[3])<<8|int(head[4]))
	_, err = io.ReadFull(far, body)
	must.NoError(t, err)
	_ = far.Close()
	return slices.Concat(head, body)
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// The flood consists of connections that never authenticate themselves. It must not exhaust
// the task's memory, end a session, or keep other callers out, not even those at its own
// address.
func TestAFlood(t *testing.T) {
	hello := clientHello(t)
	for name, c := range map[string]struct {
		from int
		send []byte
	}{
		"silent":                         {1, nil},
		"preface of HTTP/2":              {1, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
		"half a request":                 {1, []byte("GET /v1/status HTTP/1.1\r\nHost: a\r\n")},
		"a long header":                  {1, append([]byte("GET /v1/status HTTP/1.1\r\nA: "), bytes.Repeat([]byte("a"), 60<<10)...)},
		"TLS":                            {1, hello},
		"half of TLS":                    {1, hello[:100]},
		"TLS, from many addresses":       {200, hello},
		"a request, from many addresses": {200, []byte("GET /v1/status HTTP/1.1\r\nHost: a\r\n")},
	} {
		t.Run(name, func(t *testing.T) {
			n := peertest.New(t, "lead", "a", "b")
			server := session.NewServer(n.Transport("lead").Server())
			led := leader.New(leader.Options{Config: config.Config{Training: settings.Training{NP: 1, MinNP: 1, ElasticTimeout: settings.Duration(time.Hour)}}, Logger: hclog.NewNullLogger()})
			session.Register(server, func(s *session.LeaderEnd) error { return led.Serve(s) })
			addr := listen(t, server, statusapi.NewServer(func(context.Context) *wire.Status { return &wire.Status{} }), 0)
			s, err := session.Open(t.Context(), addr, n.Transport("a").Client("lead"), time.Minute)
			must.NoError(t, err)
			t.Cleanup(s.Close)
			must.NoError(t, s.Send(&wire.ToLeader{Register: &wire.Register{Info: elastic.HostInfo{ID: "a"}, AllocID: "a"}}))
			_, err = s.Recv()
			must.NoError(t, err)

			before := inUse()
			flood(t, addr, c.from, c.send)
			cost := inUse() - before
			t.Logf("%d connections hold %.1f MB", floodSize, float64(cost)/(1<<20))
			must.Less(t, int64(floodCost), cost)

			floodOn(t, addr, c.from, c.send)
			_, err = s.Recv() // the established session goes on
			must.NoError(t, err)
			for _, from := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 9, 0, 1)} {
				comeIn(t, n, addr, from)
			}
		})
	}
}

// comeIn connects an agent and a reader of the status from an address.
func comeIn(t *testing.T, n *peertest.Nomad, addr string, from net.IP) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	creds := n.Transport("b").Client("lead")
	// Like an agent (session.Follower), it tries again within a second. The handshakes of a
	// flood take computing time, and gRPC's own pauses grow longer.
	err := connect(ctx, addr, creds, d)
	for err != nil && ctx.Err() == nil {
		time.Sleep(time.Second)
		err = connect(ctx, addr, creds, d)
	}
	must.NoError(t, err)

	client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/v1/health", addr), nil)
	must.NoError(t, err)
	resp, err := client.Do(req)
	for err != nil && ctx.Err() == nil {
		resp, err = client.Do(req)
	}
	must.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, "ok\n", string(body))
}

// connect opens a session, and ends it.
func connect(ctx context.Context, addr string, creds *discovery.ClientSide, d net.Dialer) error {
	conn, err := session.Dial(addr, creds, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/kolo.driver.v1.Leader/Session",
		grpc.CallContentSubtype("kolo-json"))
	return err
}
