// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"net"
	"testing"

	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// BenchmarkConnect measures a new connection up to the answer to its first call,
// and its end, in plaintext and with identities. Certificates are made and proofs
// verified beforehand, except in the sub-benchmarks "first", where everything is
// new.
func BenchmarkConnect(b *testing.B) {
	b.Run("plaintext", func(b *testing.B) {
		addr := serveHealth(b, insecure.NewCredentials())
		for b.Loop() {
			connect(b, addr, insecure.NewCredentials())
		}
	})
	w := newWorld(b, "aa11", "bb22")
	b.Run("RSA-2048", func(b *testing.B) {
		addr, caller := serveHealth(b, w.transport(b, "aa11").Server()), w.transport(b, "bb22")
		for b.Loop() {
			connect(b, addr, caller.Client("aa11"))
		}
	})
	b.Run("RSA-2048/first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			addr, caller := serveHealth(b, w.transport(b, "aa11").Server()), w.transport(b, "bb22")
			b.StartTimer()
			connect(b, addr, caller.Client("aa11"))
		}
	})
}

func serveHealth(b *testing.B, creds credentials.TransportCredentials) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(b, err)
	srv := grpc.NewServer(grpc.Creds(creds))
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	go srv.Serve(l)
	b.Cleanup(srv.Stop)
	return l.Addr().String()
}

func connect(b *testing.B, addr string, creds credentials.TransportCredentials) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds))
	must.NoError(b, err)
	must.NoError(b, ask(b, grpc_health_v1.NewHealthClient(conn)))
	must.NoError(b, conn.Close())
}
