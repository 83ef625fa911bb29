// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

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

func fewPeers() int { return 4 }

// listen serves what a test wants on a port of both protocols.
func listen(t *testing.T, server *grpc.Server, web *http.Server, failures int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	tired := &tiredListener{Listener: l}
	tired.failures.Store(int32(failures))
	ports := newSplit(tired, fewPeers)
	go func() { _ = server.Serve(ports.grpc) }()
	go func() { _ = web.Serve(ports.http) }()
	t.Cleanup(func() { server.Stop(); _ = web.Close(); ports.close() })
	return l.Addr().String()
}

func TestThePortOutlivesAWantOfDescriptors(t *testing.T) {
	t.Parallel()
	web := newWeb(func(context.Context) *Status { return &Status{} })
	addr := listen(t, newServer(newTestNomad(t, "lead").transport("lead").Server()), web, 3)
	resp, err := http.Get("http://" + addr + "/v1/health")
	must.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, "ok\n", string(body))
}

func TestNobodyHoldsTheStatusForLong(t *testing.T) {
	web := newWeb(nil)
	must.Positive(t, web.ReadHeaderTimeout)
	must.Positive(t, web.ReadTimeout)
	must.Positive(t, web.WriteTimeout)
	must.Positive(t, web.IdleTimeout)
}

// TestStrangersAreRefusedUnread has a call whose request would be noticed as
// soon as the server looks at it.
func TestStrangersAreRefusedUnread(t *testing.T) {
	t.Parallel()
	n := newTestNomad(t, "lead", "a")
	server := newServer(n.transport("lead").Server())
	var read atomic.Bool
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			read.Store(true) // by then the whole request is in memory
			return nil, errors.New("read")
		},
	}}}, struct{}{})
	addr := listen(t, server, newWeb(nil), 0)
	call := func(creds credentials.TransportCredentials) error {
		conn, err := dial(addr, creds)
		must.NoError(t, err)
		defer func() { _ = conn.Close() }()
		return conn.Invoke(t.Context(), "/test/Call", make([]byte, 1<<20), nil, grpc.CallContentSubtype(jsonCodecName))
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"plaintext": insecure.NewCredentials(), "no certificate": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		"signed by another Nomad": newTestNomad(t, "lead", "a").transport("a").Client("lead"),
	} {
		must.Eq(t, codes.Unavailable, status.Code(call(creds)), must.Sprint(name))
		must.False(t, read.Load(), must.Sprint(name))
	}
	must.ErrorContains(t, call(n.transport("a").Client("lead")), "read")
}

// TestSplit_evictedBeforeServing: a connection that is given up for another one
// costs nothing more, also while no one serves yet.
func TestSplit_evictedBeforeServing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	s := newSplit(l, fewPeers)
	t.Cleanup(s.close)
	before := runtime.NumGoroutine()
	for range 4 * maxUnknownEach {
		c, err := net.Dial("tcp", l.Addr().String())
		must.NoError(t, err)
		_, err = c.Write([]byte{tlsHandshake})
		must.NoError(t, err)
		must.NoError(t, c.Close())
	}
	left := 0
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = runtime.NumGoroutine() - before; left <= maxUnknownEach {
			return
		}
	}
	t.Fatalf("%d goroutines serve %d connections", left, maxUnknownEach)
}

// TestSplit_largeJob: the agents of a large job may all call at once, from one
// address.
func TestSplit_largeJob(t *testing.T) {
	const peers = 2 * maxUnknown
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	s := newSplit(l, func() int { return peers })
	t.Cleanup(s.close)
	for range peers {
		c, err := net.Dial("tcp", l.Addr().String())
		must.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte{tlsHandshake})
		must.NoError(t, err)
	}
	held := 0
	for end := time.Now().Add(10 * time.Second); held < peers && time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.unknown.mu.Lock()
		held = s.unknown.held
		s.unknown.mu.Unlock()
	}
	must.Eq(t, peers, held)
}
