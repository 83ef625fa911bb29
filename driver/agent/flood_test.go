// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

const (
	// floodSize connections cost 208 MB when each had gRPC's buffers.
	floodSize = 3000
	// floodCost bounds what they may hold, the test's own ends included.
	floodCost = 32 << 20
)

// flood opens connections from so many addresses, says something on each, and
// leaves them open.
func flood(t *testing.T, addr string, from int, say []byte) {
	t.Helper()
	for i := range floodSize {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i%from), 1)}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		must.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write(say)
	}
}

// floodOn goes on with the flood until the test ends.
func floodOn(t *testing.T, addr string, from int, say []byte) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		held := make([]net.Conn, 2*maxUnknown)
		for i := 0; ctx.Err() == nil; i++ {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(i%from), 1)}}
			c, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				continue
			}
			_, _ = c.Write(say)
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

// TestAFlood_ofOthers: readers at an address that takes no part in a flood are
// answered each time.
func TestAFlood_ofOthers(t *testing.T) {
	addr := listen(t, grpc.NewServer(), newWeb(func(context.Context) *Status { return &Status{} }), 0)
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

// clientHello is the first message of a TLS client.
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

// TestAFlood is of connections that never authenticate themselves. They must
// not cost the task its memory, end a session, or keep others out, not even
// those at their own address, while it goes on.
func TestAFlood(t *testing.T) {
	hello := clientHello(t)
	for name, c := range map[string]struct {
		from int
		say  []byte
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
			n := newTestNomad(t, "lead", "a", "b")
			server := newServer(n.transport("lead").Server())
			leader := NewLeader(LeaderOptions{Config: Config{NP: 1, MinNP: 1}, Logger: quietStories(t).log})
			registerSessions(server, func() *Leader { return leader })
			addr := listen(t, server, newWeb(func(context.Context) *Status { return &Status{} }), 0)
			s, err := openSession(t.Context(), addr, n.transport("a").Client("lead"), time.Minute)
			must.NoError(t, err)
			t.Cleanup(s.close)
			must.NoError(t, s.send(&ToLeader{Register: &Register{Info: elastic.HostInfo{ID: "a"}, AllocID: "a"}}))
			_, err = s.recv()
			must.NoError(t, err)

			before := inUse()
			flood(t, addr, c.from, c.say)
			cost := inUse() - before
			t.Logf("%d connections hold %.1f MB", floodSize, float64(cost)/(1<<20))
			must.Less(t, int64(floodCost), cost)

			floodOn(t, addr, c.from, c.say)
			_, err = s.recv() // the established session goes on
			must.NoError(t, err)
			for _, from := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 9, 0, 1)} {
				comeIn(t, n, addr, from)
			}
		})
	}
}

// comeIn has an agent and a reader of the status come from the address.
func comeIn(t *testing.T, n *testNomad, addr string, from net.IP) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := dial(addr, n.transport("b").Client("lead"), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	}))
	must.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Like an agent, it tries again: what a flood of handshakes computes takes time.
	_, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, sessionMethod,
		grpc.CallContentSubtype(jsonCodecName), grpc.WaitForReady(true))
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

func TestLimiter(t *testing.T) {
	l := newLimiter(fixed(4, 2))
	made := map[string]net.Conn{}
	add := func(name string, ip net.IP) *limited {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
		made[name] = near
		return l.add(addrConn{near, &net.TCPAddr{IP: ip}})
	}
	open := func(name string) bool {
		_ = made[name].SetReadDeadline(time.Now().Add(-time.Second))
		_, err := made[name].Read(make([]byte, 1))
		return !errors.Is(err, io.ErrClosedPipe)
	}
	a, b := net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 2)
	left := func(names ...string) (n int) {
		for _, name := range names {
			if open(name) {
				n++
			}
		}
		return n
	}
	first := add("a1", a)
	second := add("a2", a)
	add("b1", b)
	must.True(t, open("a1"))
	third := add("a3", a)
	must.Eq(t, 2, left("a1", "a2", "a3"), must.Sprint("one of the address"))
	must.True(t, open("a3") && open("b1"))
	for _, n := range []*limited{first, second} {
		select {
		case <-n.gone:
		default:
			n.release() // it is not counted any more
			n.release()
		}
	}
	third.release()
	must.Eq(t, 1, l.held)
	add("c1", net.ParseIP("2001:db8::1"))
	add("c2", net.ParseIP("2001:db8::ffff"))
	add("c3", net.ParseIP("2001:db8::3"))
	must.Eq(t, 2, left("c1", "c2", "c3"), must.Sprint("a network counts as one address"))
	add("d1", net.ParseIP("2001:db8:0:1::1"))
	add("e1", net.ParseIP("2001:db8:0:2::1"))
	must.Eq(t, 1, left("c1", "c2", "c3"), must.Sprint("one of the address with the most"))
	must.True(t, open("b1") && open("d1") && open("e1"), must.Sprint("others keep theirs"))
	must.Eq(t, 4, l.held)
	must.MapLen(t, 4, l.from)
	must.Eq(t, origin(&net.TCPAddr{IP: a}), origin(&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.1")}))
}

type addrConn struct {
	net.Conn
	remote net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.remote }
