// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// callers remembers for a moment what Nomad said of tokens: it is asked for
// every request otherwise, and a page asks every two seconds. Tokens are kept
// as their hashes.
type callers struct {
	client *cluster.Client
	asking chan struct{} // bounds the questions under way
	who    *memo[string, identity]
	may    *memo[reading, bool]
}

type identity struct {
	who string
	err error // cluster.ErrNoACL or cluster.ErrUnknownToken
}

type reading struct{ token, namespace string }

// Bounds of what is remembered of callers.
const (
	callerTTL   = 10 * time.Second // a token that is revoked works no longer than this
	callerSize  = 4096
	callerAsked = 16
)

func newCallers(c *cluster.Client) *callers {
	return &callers{client: c, asking: make(chan struct{}, callerAsked),
		who: newMemo[string, identity](callerTTL, callerSize), may: newMemo[reading, bool](callerTTL, callerSize)}
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// turn waits until one more question may be asked.
func (c *callers) turn(ctx context.Context) (done func(), err error) {
	select {
	case c.asking <- struct{}{}:
		return func() { <-c.asking }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Identify is how a log calls the caller who presents a token, as Nomad says.
// It returns cluster.ErrNoACL where that proves nothing, and
// cluster.ErrUnknownToken where Nomad does not take it.
func (a *Controller) Identify(ctx context.Context, token string) (string, error) {
	id, err := a.callers.who.get(hashed(token), func() (identity, error) {
		done, err := a.callers.turn(ctx)
		if err != nil {
			return identity{}, err
		}
		defer done()
		who, err := a.client.Identify(ctx, token)
		if err != nil && !errors.Is(err, cluster.ErrNoACL) && !errors.Is(err, cluster.ErrUnknownToken) {
			return identity{}, err
		}
		return identity{who, err}, nil
	})
	if err != nil {
		return "", err
	}
	return id.who, id.err
}

// MayRead says whether Nomad lets a token read the jobs of a namespace, of which
// one is given.
func (a *Controller) MayRead(ctx context.Context, token string, one planner.JobKey) (bool, error) {
	return a.callers.may.get(reading{hashed(token), one.Namespace}, func() (bool, error) {
		done, err := a.callers.turn(ctx)
		if err != nil {
			return false, err
		}
		defer done()
		return a.client.MayRead(ctx, token, one)
	})
}

// memo remembers answers for a time, and no more than so many.
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

// get returns the answer that is remembered, or else asks. Errors are not
// remembered.
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

// shrink forgets what is too old, or everything where nothing is. The caller
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
