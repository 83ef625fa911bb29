// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Authenticator says who the bearer of a token is. Verifier and Secret are two.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Identity, error)
}

// Credentials sends this agent's workload identity with each call. The identity
// is read anew each time. Agents speak plain gRPC: whoever can read the network
// between them can read the identity and use it, with Nomad too, which does not
// look at audiences. A short ttl limits for how long.
func Credentials(t Token) credentials.PerRPCCredentials { return bearer(t.Read) }

type bearer func() (string, error)

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b()
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

type identityKey struct{}

// IdentityFrom returns who made the call, as Gate found.
func IdentityFrom(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// Gate refuses calls without a believed identity: Unauthenticated for a bad one,
// PermissionDenied for another job's, Unavailable where Nomad's keys cannot be
// had. It does so before anything of the request is read: an interceptor would be
// asked after a whole one was in memory, whoever sent it.
func Gate(a Authenticator) grpc.ServerOption {
	return grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		return admit(ctx, a)
	})
}

// admit returns a context that holds the caller's identity, or the status to
// refuse the call with.
func admit(ctx context.Context, a Authenticator) (context.Context, error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 {
		return nil, status.Error(codes.Unauthenticated, "no workload identity in the call")
	}
	token, ok := strings.CutPrefix(values[0], "Bearer ")
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "want a bearer token")
	}
	id, err := a.Authenticate(ctx, token)
	switch {
	case err == nil:
		return context.WithValue(ctx, identityKey{}, id), nil
	case errors.Is(err, ErrInvalid):
		return nil, status.Error(codes.Unauthenticated, err.Error())
	case errors.Is(err, ErrOtherJob):
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return nil, status.Error(codes.Unavailable, err.Error())
}

// Secret lets agents without Nomad know each other: who holds it is believed to
// be the allocation it claims to be.
type Secret [32]byte

// NewSecret returns a random one.
func NewSecret() Secret {
	var s Secret
	rand.Read(s[:]) // never fails
	return s
}

// String is the secret in hexadecimal, as ParseSecret reads it.
func (s Secret) String() string { return hex.EncodeToString(s[:]) }

// ParseSecret reads what String wrote.
func ParseSecret(text string) (Secret, error) {
	var s Secret
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(s) {
		return s, fmt.Errorf("a secret is %d hexadecimal digits", 2*len(s))
	}
	copy(s[:], b)
	return s, nil
}

// Credentials proves to be the allocation.
func (s Secret) Credentials(allocID string) credentials.PerRPCCredentials {
	return bearer(func() (string, error) { return allocID + ":" + s.sign(allocID), nil })
}

func (s Secret) sign(allocID string) string {
	m := hmac.New(sha256.New, s[:])
	m.Write([]byte(allocID))
	return hex.EncodeToString(m.Sum(nil))
}

// Authenticate checks a token that Credentials made.
func (s Secret) Authenticate(_ context.Context, token string) (Identity, error) {
	i := strings.LastIndex(token, ":")
	if i <= 0 || !hmac.Equal([]byte(token[i+1:]), []byte(s.sign(token[:i]))) {
		return Identity{}, fmt.Errorf("%w: not made with this run's secret", ErrInvalid)
	}
	return Identity{AllocID: token[:i]}, nil
}
