// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package tokens briefly caches Nomad's answers about the tokens of API callers.
// Without the cache every request would cause a request to Nomad, and a web page
// sends one every two seconds. Tokens are stored as hashes.
package tokens

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// Cache looks up the names of callers by their tokens, and which namespaces they may
// read. It keeps the answers for a short time.
type Cache struct {
	client  *cluster.Client
	pending chan struct{} // bounds the pending requests
	who     *memo[string, caller]
	may     *memo[reading, bool]
}

type caller struct {
	who string
	err error // cluster.ErrNoACL or cluster.ErrUnknownToken
}

type reading struct{ token, namespace string }

// Limits of the cache.
const (
	ttl            = 10 * time.Second // a revoked token works no longer than this
	size           = 4096
	requestsAtOnce = 16
)

// New returns an empty cache, which uses c to ask Nomad for what it lacks.
func New(c *cluster.Client) *Cache {
	return &Cache{client: c, pending: make(chan struct{}, requestsAtOnce),
		who: newMemo[string, caller](ttl, size), may: newMemo[reading, bool](ttl, size)}
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// begin waits until another request may be sent.
func (c *Cache) begin(ctx context.Context) (done func(), err error) {
	select {
	case c.pending <- struct{}{}:
		return func() { <-c.pending }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Identify asks Nomad who owns a token, and returns a name of the owner for logs.
// It returns cluster.ErrNoACL if tokens prove nothing, and cluster.ErrUnknownToken
// if Nomad does not know the token.
func (c *Cache) Identify(ctx context.Context, token string) (string, error) {
	id, err := c.who.get(hashed(token), func() (caller, error) {
		done, err := c.begin(ctx)
		if err != nil {
			return caller{}, err
		}
		defer done()
		who, err := c.client.Identify(ctx, token)
		if err != nil && !errors.Is(err, cluster.ErrNoACL) && !errors.Is(err, cluster.ErrUnknownToken) {
			return caller{}, err
		}
		return caller{who, err}, nil
	})
	if err != nil {
		return "", err
	}
	return id.who, id.err
}

// MayRead reports whether Nomad lets a token read the jobs in the namespace of the job
// one.
func (c *Cache) MayRead(ctx context.Context, token string, one identity.JobKey) (bool, error) {
	return c.may.get(reading{hashed(token), one.Namespace}, func() (bool, error) {
		done, err := c.begin(ctx)
		if err != nil {
			return false, err
		}
		defer done()
		return c.client.MayRead(ctx, token, one)
	})
}

// memo remembers a limited number of answers for a limited time.
type memo[K comparable, V any] struct {
	ttl  time.Duration
	size int
	now  func() time.Time

	mu      sync.Mutex
	answers map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	until time.Time
}

func newMemo[K comparable, V any](ttl time.Duration, size int) *memo[K, V] {
	return &memo[K, V]{ttl: ttl, size: size, now: time.Now, answers: map[K]remembered[V]{}}
}

// get returns the remembered answer, or calls ask. Errors are not remembered.
func (m *memo[K, V]) get(key K, ask func() (V, error)) (V, error) {
	m.mu.Lock()
	got, ok := m.answers[key]
	m.mu.Unlock()
	if ok && m.now().Before(got.until) {
		return got.value, nil
	}
	value, err := ask()
	if err != nil {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.answers) >= m.size {
		m.shrink()
	}
	m.answers[key] = remembered[V]{value, m.now().Add(m.ttl)}
	return value, nil
}

// shrink forgets expired answers, or all answers if none has expired. The caller
// holds m.mu.
func (m *memo[K, V]) shrink() {
	now := m.now()
	for k, a := range m.answers {
		if !now.Before(a.until) {
			delete(m.answers, k)
		}
	}
	if len(m.answers) >= m.size {
		clear(m.answers)
	}
}
