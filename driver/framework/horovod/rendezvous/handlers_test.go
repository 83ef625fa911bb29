// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

var errRefused = errors.New("not for this test")

// refuseAll is a Handler to embed in tests that need only some methods.
type refuseAll struct{}

func (refuseAll) Put(context.Context, string, string, []byte) error { return errRefused }

func (refuseAll) Get(context.Context, string, string) ([]byte, bool, error) {
	return nil, false, errRefused
}

func (refuseAll) Delete(context.Context, string, string) error { return errRefused }

func (refuseAll) RankAndSize(context.Context) (rendezvous.Assignment, error) {
	return rendezvous.Assignment{}, errRefused
}

func (refuseAll) WorkerAddress(context.Context, rendezvous.NotifyTarget) error { return errRefused }

// memory is a Handler that stores, finds and deletes values in memory. Scopes with
// these names are special: "held" blocks until the client goes away or release is
// closed, "broken" fails, "never" holds.
type memory struct {
	mu      sync.Mutex
	values  map[string][]byte
	held    chan string // gets an element when a request is being held
	gone    chan string // gets an element when the client of a held request has left
	release chan struct{}
	assign  func(context.Context) (rendezvous.Assignment, error)
}

func newMemory() *memory {
	return &memory{
		values: map[string][]byte{}, held: make(chan string, 100),
		gone: make(chan string, 100), release: make(chan struct{}),
	}
}

func (m *memory) Put(_ context.Context, scope, key string, value []byte) error {
	if scope == "broken" {
		return errRefused
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[scope+"/"+key] = value
	return nil
}

func (m *memory) Get(ctx context.Context, scope, key string) ([]byte, bool, error) {
	switch scope {
	case "held":
		m.held <- key
		select {
		case <-m.release:
			return []byte("released"), true, nil
		case <-ctx.Done():
			m.gone <- key
			return nil, false, ctx.Err()
		}
	case "broken":
		return nil, false, errRefused
	case "never":
		m.held <- key
		return nil, false, fmt.Errorf("it is over: %w", rendezvous.ErrHold)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[scope+"/"+key]
	return v, ok, nil
}

func (m *memory) Delete(_ context.Context, scope, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, scope+"/"+key)
	return nil
}

func (m *memory) RankAndSize(ctx context.Context) (rendezvous.Assignment, error) {
	m.held <- "rank"
	return m.assign(ctx)
}

func (m *memory) WorkerAddress(context.Context, rendezvous.NotifyTarget) error { return errRefused }

func listen(t testing.TB, h rendezvous.Handler, limits rendezvous.Limits) *rendezvous.Endpoint {
	t.Helper()
	e, err := rendezvous.ListenLimits(h, ringsim.AnyPeer{}, hclog.NewNullLogger(), limits)
	must.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func clientOf(e *rendezvous.Endpoint) ringsim.Client {
	return ringsim.Client{Addr: addrOf(e)}
}

func addrOf(e *rendezvous.Endpoint) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(e.Port()))
}

// raw sends bytes as they are and returns everything that comes back.
func raw(t testing.TB, e *rendezvous.Endpoint, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp4", addrOf(e))
	must.NoError(t, err)
	defer conn.Close()
	must.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	_, err = io.WriteString(conn, request)
	must.NoError(t, err)
	answer, _ := io.ReadAll(conn) // the server may reset what it refuses
	return string(answer)
}
