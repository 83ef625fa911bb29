// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/agent"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// listening serves a fake agent at an address of its own.
func listening(t *testing.T, f *fake, edit func(*Server)) (tcp, unix string) {
	s := New(f, nil, hclog.NewNullLogger())
	if edit != nil {
		edit(s)
	}
	f.http.Bind, f.http.Unix = "127.0.0.1", filepath.Join(t.TempDir(), "kolo.sock")
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() { done <- s.Serve(ctx, f.http, func(a net.Addr) { up <- a }) }()
	t.Cleanup(func() {
		cancel()
		must.NoError(t, <-done)
	})
	return (<-up).String(), f.http.Unix
}

// send writes a text to a connection and returns the first line of the answer.
func send(t *testing.T, network, address, text string) (net.Conn, string, error) {
	c, err := net.Dial(network, address)
	must.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // some are closed by the other side
	if _, err := io.WriteString(c, text); err != nil {
		return c, "", err
	}
	must.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	line, err := bufio.NewReader(c).ReadString('\n')
	return c, strings.TrimSpace(line), err
}

const stream = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestLimits_Streams opens more event streams than there may be, which each
// cost a goroutine and a connection for as long as the caller likes.
func TestLimits_Streams(t *testing.T) {
	tcp, unix := listening(t, &fake{events: make(chan agent.Event)}, nil)
	var held []net.Conn
	for range streamsByAddress {
		c, line, err := send(t, "tcp", tcp, stream)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 200 OK", line)
		held = append(held, c)
	}
	_, line, err := send(t, "tcp", tcp, stream)
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 429 Too Many Requests", line)
	t.Log("others are still answered, and the stream of one that left is free")
	_, line, err = send(t, "unix", unix, stream)
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 200 OK", line)
	must.NoError(t, held[0].Close())
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		_, line, err := send(t, "tcp", tcp, stream)
		return err == nil && line == "HTTP/1.1 200 OK"
	}), wait.Timeout(20*time.Second), wait.Gap(20*time.Millisecond)))
}

// TestLimits_Connections holds more connections than there may be.
func TestLimits_Connections(t *testing.T) {
	tcp, unix := listening(t, &fake{}, nil)
	for range connectionsByAddress {
		c, err := net.Dial("tcp", tcp)
		must.NoError(t, err)
		defer c.Close()
	}
	_, _, err := send(t, "tcp", tcp, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	must.Error(t, err)
	var late net.Error
	must.False(t, errors.As(err, &late) && late.Timeout(), must.Sprint("it was kept waiting"))
	t.Log("the operator gets in over the socket")
	_, line, err := send(t, "unix", unix, "GET /v1/health HTTP/1.1\r\nHost: kolo\r\n\r\n")
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 200 OK", line)
}

// TestLimits_Slow has callers who never come to the end of what they say, and
// one who does not read.
func TestLimits_Slow(t *testing.T) {
	short := func(s *Server) {
		s.limits = timeouts{header: 200 * time.Millisecond, read: 200 * time.Millisecond, write: time.Second, idle: 200 * time.Millisecond, stream: 200 * time.Millisecond}
	}
	events := make(chan agent.Event)
	tcp, _ := listening(t, &fake{events: events, http: config.HTTP{Open: true}}, short)
	for name, text := range map[string]string{
		"half a header": "GET /v1/health HTTP/1.1\r\nHost: local",
		"half a body":   "PUT /v1/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
		"nothing more":  "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", tcp)
			must.NoError(t, err)
			defer c.Close()
			_, err = io.WriteString(c, text)
			must.NoError(t, err)
			must.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
			_, err = io.Copy(io.Discard, c)
			must.NoError(t, err, must.Sprint("it was not cut off"))
		})
	}
	t.Run("a stream that is not read", func(t *testing.T) {
		_, line, err := send(t, "tcp", tcp, stream)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 200 OK", line)
		// Each event fills buffers until a write waits longer than it may; then
		// no one takes events any more.
		full := agent.Event{Type: "trouble", Reason: strings.Repeat("x", 1<<20)}
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			select {
			case events <- full:
				return false
			case <-time.After(2 * time.Second):
				return true
			}
		}), wait.Timeout(30*time.Second), wait.Gap(time.Millisecond)))
	})
	t.Run("a stream that is read lasts", func(t *testing.T) {
		resp, err := http.Get("http://" + tcp + "/v1/events")
		must.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 6 { // twice the limit of an answer
			time.Sleep(400 * time.Millisecond) // the time is what is tested
			events <- agent.Event{Type: "leader", Reason: fmt.Sprint("event ", i)}
			for lines.Scan() && !strings.Contains(lines.Text(), fmt.Sprint("event ", i)) {
			}
			must.NoError(t, lines.Err())
		}
	})
}

func TestLimits_Large(t *testing.T) {
	tcp, _ := listening(t, &fake{http: config.HTTP{Open: true}}, nil)
	_, line, err := send(t, "tcp", tcp, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 2*headerLimit)+"\r\n\r\n")
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 431 Request Header Fields Too Large", line)
	resp, err := http.DefaultClient.Do(put(t, "http://"+tcp+"/v1/pause", `{"id": "`+strings.Repeat("x", 2*bodyLimit)+`"}`))
	must.NoError(t, err)
	defer resp.Body.Close()
	must.Eq(t, 400, resp.StatusCode)
}

func put(t *testing.T, url, body string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	must.NoError(t, err)
	return r
}
