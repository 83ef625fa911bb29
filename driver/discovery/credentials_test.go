// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
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

func (w *whoami) Watch(r *grpc_health_v1.HealthCheckRequest, s grpc_health_v1.Health_WatchServer) error {
	id, _ := IdentityFrom(s.Context())
	w.got <- id
	return nil
}

func serve(t *testing.T, a Authenticator) (string, *whoami) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	srv := grpc.NewServer(Gate(a))
	w := &whoami{health.NewServer(), make(chan Identity, 1)}
	grpc_health_v1.RegisterHealthServer(srv, w)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	return l.Addr().String(), w
}

func dial(t *testing.T, addr string, c credentials.PerRPCCredentials) grpc_health_v1.HealthClient {
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if c != nil {
		opts = append(opts, grpc.WithPerRPCCredentials(c))
	}
	conn, err := grpc.NewClient(addr, opts...)
	must.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func TestGate_identity(t *testing.T) {
	key := newEd25519(t, "ed")
	addr, w := serve(t, newFakeKeys(key).verifier())
	file := filepath.Join(t.TempDir(), "nomad_kolo.jwt")
	client := dial(t, addr, Credentials(Token{File: file}))

	call := func() error {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	write := func(token string) { must.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600)) }

	must.Eq(t, codes.Unauthenticated, status.Code(call())) // no file
	must.ErrorContains(t, call(), "identity { env = true file = true }")
	write(key.sign(t, nomadClaims(func(c *claims) { c.JobID = "other" })))
	must.Eq(t, codes.PermissionDenied, status.Code(call()))
	write(newEd25519(t, "ed").sign(t, nomadClaims()))
	must.Eq(t, codes.Unauthenticated, status.Code(call()))
	write(key.sign(t, nomadClaims())) // the file is read anew
	must.NoError(t, call())
	must.Eq(t, "aa11", (<-w.got).AllocID)

	s, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.NoError(t, err)
	_, err = s.Recv()
	must.Error(t, err) // the stream ends at once, but was let in
	must.Eq(t, "aa11", (<-w.got).AllocID)
}

func TestGate_none(t *testing.T) {
	addr, _ := serve(t, newFakeKeys().verifier())
	client := dial(t, addr, nil)
	_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.Eq(t, codes.Unauthenticated, status.Code(err))
	s, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.NoError(t, err)
	_, err = s.Recv()
	must.Eq(t, codes.Unauthenticated, status.Code(err))
}

func TestGate_nomadAway(t *testing.T) {
	f := newFakeKeys()
	f.err = ErrUnreachable
	addr, _ := serve(t, f.verifier())
	key := newEd25519(t, "ed")
	t.Setenv("KOLO_TEST_TOKEN", key.sign(t, nomadClaims()))
	_, err := dial(t, addr, Credentials(Token{Env: "KOLO_TEST_TOKEN"})).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.Eq(t, codes.Unavailable, status.Code(err))
}

func TestSecret(t *testing.T) {
	secret := NewSecret()
	same, err := ParseSecret(secret.String())
	must.NoError(t, err)
	addr, w := serve(t, secret)
	_, err = dial(t, addr, same.Credentials("local-1")).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.NoError(t, err)
	must.Eq(t, "local-1", (<-w.got).AllocID)

	_, err = dial(t, addr, NewSecret().Credentials("local-1")).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must.Eq(t, codes.Unauthenticated, status.Code(err))

	for name, token := range map[string]string{
		"empty": "", "no colon": "x", "no name": ":" + secret.sign(""), "another's": "local-2:" + secret.sign("local-1"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := secret.Authenticate(t.Context(), token)
			must.ErrorIs(t, err, ErrInvalid)
		})
	}
	_, err = ParseSecret("abc")
	must.Error(t, err)
}
