// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/driver/internal/registrytest"
)

// whoami is a health server that keeps who asked.
type whoami struct {
	*health.Server
	got chan Identity
}

func (w *whoami) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	id, _ := IdentityFrom(ctx)
	w.got <- id
	return w.Server.Check(ctx, r)
}

func (w *whoami) Watch(_ *grpc_health_v1.HealthCheckRequest, s grpc_health_v1.Health_WatchServer) error {
	id, _ := IdentityFrom(s.Context())
	w.got <- id
	<-s.Context().Done()
	return s.Context().Err()
}

// serve serves a whoami and returns its address.
func serve(t *testing.T, creds credentials.TransportCredentials) (string, *whoami) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	srv := grpc.NewServer(grpc.Creds(creds))
	w := &whoami{health.NewServer(), make(chan Identity, 1)}
	grpc_health_v1.RegisterHealthServer(srv, w)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	return l.Addr().String(), w
}

func dial(t testing.TB, addr string, creds credentials.TransportCredentials) grpc_health_v1.HealthClient {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	must.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func ask(t testing.TB, client grpc_health_v1.HealthClient) error {
	_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err
}

// world is a Nomad, as far as agents' transports need one. Its clock stands
// still.
type world struct {
	issuer issuer
	keys   *fakeKeys
	reg    *registrytest.Static
}

func newWorld(t testing.TB, allocs ...string) *world {
	w := &world{issuer: newRSA(t, "rsa"), reg: registrytest.NewStatic()}
	w.keys = newFakeKeys(w.issuer)
	for _, a := range allocs {
		w.reg.Add(registry.Peer{AllocID: a})
	}
	return w
}

// transport returns an allocation's transport, from claims that the caller may
// change.
func (w *world) transport(t testing.TB, alloc string, change ...func(*claims)) *Transport {
	token := w.issuer.sign(t, nomadClaims(append([]func(*claims){func(c *claims) { c.AllocID = alloc }}, change...)...))
	return w.transportFor(w.issuer, token)
}

func (w *world) transportFor(by issuer, token string) *Transport {
	certifier := &Certifier{read: func() (string, error) { return token, nil }, keys: &Keys{fetch: newFakeKeys(by).fetch, now: w.keys.clock}, now: w.keys.clock}
	return &Transport{Certifier: certifier, Verifier: w.keys.verifier(), Presence: NewPresence(w.reg, "train", time.Minute), Logger: hclog.NewNullLogger()}
}
