// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/nomad/api"
	"golang.org/x/sync/singleflight"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

const (
	// keysAge is how long keys are used without asking Nomad again. Nomad keeps a replaced
	// key as long as anything signed by it is valid.
	keysAge = 15 * time.Minute
	// keysPause is the least time between two requests for an unknown key, so that forged
	// tokens cannot make an agent flood Nomad.
	keysPause = 5 * time.Second
	// keysTimeout bounds one request.
	keysTimeout = 5 * time.Second
)

// Keys caches Nomad's public keys. While Nomad cannot be reached, it keeps using the keys
// that it read last. Use NewKeys.
type Keys struct {
	fetch func(ctx context.Context) (jose.JSONWebKeySet, error)
	now   func() time.Time
	group singleflight.Group

	mu    sync.Mutex
	set   jose.JSONWebKeySet
	at    time.Time // of set
	tried time.Time // time of the last request
	err   error     // error of the last request
}

// NewKeys returns an empty cache. Get fills it from /.well-known/jwks.json of the Nomad at
// address (see NomadOptions), authorized by token. NewKeys itself makes no request.
func NewKeys(address string, token nomadapi.Token) (*Keys, error) {
	client, err := nomadapi.NewClient(address)
	if err != nil {
		return nil, err
	}
	fetch := func(ctx context.Context) (jose.JSONWebKeySet, error) {
		var set jose.JSONWebKeySet
		secret, err := token.Read()
		if err != nil {
			return set, err
		}
		q := &api.QueryOptions{AuthToken: secret}
		if _, err := client.Raw().Query("/.well-known/jwks.json", &set, q.WithContext(ctx)); err != nil {
			return set, nomadapi.Explain(err, address)
		}
		return set, nil
	}
	return &Keys{fetch: fetch, now: time.Now}, nil
}

// Get returns the key with the ID. It reads the keys again if they are old, or if they do
// not include this key. The error is ErrInvalid if Nomad has no such key, otherwise it
// states why Nomad could not be asked.
func (k *Keys) Get(ctx context.Context, id string) (jose.JSONWebKey, error) {
	key, ok, stale := k.known(id)
	if ok && !stale {
		return key, nil
	}
	done := k.group.DoChan("", func() (any, error) {
		// Not this caller's context, since others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
		defer cancel()
		k.refresh(ctx)
		return nil, nil
	})
	if ok { // known but old: no reason to wait
		return key, nil
	}
	select {
	case <-done:
	case <-ctx.Done():
		return jose.JSONWebKey{}, fmt.Errorf("key %s: %w: %w", id, nomadapi.ErrUnreachable, ctx.Err())
	}
	if key, ok, _ = k.known(id); ok {
		return key, nil
	}
	k.mu.Lock()
	err := k.err
	k.mu.Unlock()
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("key %s: %w", id, err)
	}
	return jose.JSONWebKey{}, fmt.Errorf("%w: Nomad has no key %s", ErrInvalid, id)
}

// known returns the key if it is there, and whether the set is old.
func (k *Keys) known(id string) (key jose.JSONWebKey, ok, stale bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.set.Key(id) {
		if key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			return key, true, k.now().Sub(k.at) > keysAge
		}
	}
	return jose.JSONWebKey{}, false, true
}

// refresh asks Nomad, unless it was asked just now.
func (k *Keys) refresh(ctx context.Context) {
	k.mu.Lock()
	now := k.now()
	if !k.tried.IsZero() && now.Sub(k.tried) < keysPause {
		k.mu.Unlock()
		return
	}
	k.tried = now
	k.mu.Unlock()

	set, err := k.fetch(ctx)

	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	if err == nil {
		k.set, k.at = set, now
	}
}
