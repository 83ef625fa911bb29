// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// FuzzEndpoint: whatever is sent, the endpoint answers or closes, the handler sees only
// names without slashes, and the next client is served.
func FuzzEndpoint(f *testing.F) {
	f.Add([]byte("GET /global/0 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte("PUT /global/rank_0 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nvm"))
	f.Add([]byte("DELETE /cross_0_process_set_hash_7d/0 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte("GET /rank_and_size/a:0 HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte("PUT /worker_addresses/a:0 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\ngAQu"))
	f.Add([]byte("PUT /s/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"))
	f.Add([]byte("GET /a%2fb/%zz HTTP/1.0\r\n\r\n"))
	f.Add([]byte("PUT /s/k HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\nshort"))
	h := &checker{}
	e := listen(f, h, rendezvous.Limits{Body: 4 << 10, Header: 50 * time.Millisecond, Transfer: 50 * time.Millisecond})
	f.Fuzz(func(t *testing.T, request []byte) {
		conn, err := net.Dial("tcp4", addrOf(e))
		must.NoError(t, err)
		defer conn.Close()
		must.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
		_, _ = conn.Write(request)           // it may be refused before it is read
		_ = conn.(*net.TCPConn).CloseWrite() // or closed already
		answer, err := io.ReadAll(conn)
		var timeout net.Error
		must.False(t, errors.As(err, &timeout) && timeout.Timeout(), must.Sprint("neither answered nor closed"))
		if len(answer) > 0 {
			must.StrHasPrefix(t, "HTTP/1.", string(answer))
		}
		must.Eq(t, "", h.wrong())
	})
}

// checker is a Handler that looks at what it is asked.
type checker struct {
	mu    sync.Mutex
	fault string
}

func (c *checker) wrong() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

func (c *checker) look(scope, key string, value []byte) {
	if scope == "" || key == "" || strings.Contains(scope+key, "/") || len(scope) > 512 || len(key) > 512 || len(value) > 4<<10 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fault = fmt.Sprintf("%q %q with %d bytes", scope, key, len(value))
	}
}

func (c *checker) Put(_ context.Context, scope, key string, value []byte) error {
	c.look(scope, key, value)
	return nil
}

func (c *checker) Get(_ context.Context, scope, key string) ([]byte, bool, error) {
	c.look(scope, key, nil)
	return []byte(key), len(key)%2 == 0, nil
}

func (c *checker) Delete(_ context.Context, scope, key string) error {
	c.look(scope, key, nil)
	return nil
}

func (c *checker) RankAndSize(context.Context) (rendezvous.Assignment, error) {
	return rendezvous.Removed(), nil
}

func (c *checker) WorkerAddress(context.Context, rendezvous.NotifyTarget) error { return nil }
