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

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// listening serves a fake autoscaler at an address of its own.
func listening(t *testing.T, f *fake, edit func(*Server)) (tcp, unix string) {
	s := New(f, f, nil, hclog.NewNullLogger())
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
	must.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	line, err := bufio.NewReader(c).ReadString('\n')
	return c, strings.TrimSpace(line), err
}

const stream = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestLimits_Streams opens more event streams than allowed. Each costs a goroutine and a
// connection until the caller ends it.
func TestLimits_Streams(t *testing.T) {
	tcp, unix := listening(t, &fake{events: make(chan api.Event)}, nil)
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
	}), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)))
}

// TestLimits_IdleConnectionsMakeRoom opens more connections than one address may have, from
// several addresses of one machine.
func TestLimits_IdleConnectionsMakeRoom(t *testing.T) {
	tcp, unix := listening(t, &fake{}, nil)
	var held []net.Conn
	for i := range 2 * connectionsByAddress {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%4))}}
		c, err := d.Dial("tcp", tcp)
		must.NoError(t, err)
		defer c.Close()
		held = append(held, c)
	}
	_, line, err := send(t, "tcp", tcp, "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 200 OK", line)
	t.Log("the one that was silent longest is gone")
	must.NoError(t, held[0].SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = held[0].Read(make([]byte, 1))
	must.Error(t, err)
	var late net.Error
	must.False(t, errors.As(err, &late) && late.Timeout(), must.Sprint("it is kept"))
	t.Log("the operator gets in over the socket")
	_, line, err = send(t, "unix", unix, "GET /v1/health HTTP/1.1\r\nHost: kolo\r\n\r\n")
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 200 OK", line)
}

// TestLimits_StreamsOfTheSocket uses up all streams of the network, from loopback addresses
// that any user of the machine can choose.
func TestLimits_StreamsOfTheSocket(t *testing.T) {
	tcp, unix := listening(t, &fake{events: make(chan api.Event)}, nil)
	lines := map[string]int{}
	for i := range mostStreams {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%2))}}
		c, err := d.Dial("tcp", tcp)
		must.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, stream)
		must.NoError(t, err)
		line, err := bufio.NewReader(c).ReadString('\n')
		must.NoError(t, err)
		lines[strings.TrimSpace(line)]++
	}
	must.Eq(t, streamsByAddress, lines["HTTP/1.1 200 OK"], must.Sprint("loopback is one address"))
	for range streamsByAddress {
		_, line, err := send(t, "unix", unix, stream)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 200 OK", line)
	}
}

// TestLimits_Plans asks for more plans at a time than are made, because each plan delays
// the rounds.
func TestLimits_Plans(t *testing.T) {
	entered, release := make(chan struct{}, 8), make(chan struct{})
	tcp, unix := listening(t, &fake{plan: func() { entered <- struct{}{}; <-release }}, nil)
	const text = "GET /v1/plan HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	ask := func(network, address string) {
		c, err := net.Dial(network, address)
		must.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, text)
		must.NoError(t, err)
		<-entered
	}
	ask("tcp", tcp)
	ask("tcp", tcp)
	defer close(release)
	_, line, err := send(t, "tcp", tcp, text)
	must.NoError(t, err)
	must.Eq(t, "HTTP/1.1 429 Too Many Requests", line)
	ask("unix", unix)
}

// TestLimits_SlowReaders asks for answers and reads none of them, so that the server must
// hold each.
func TestLimits_SlowReaders(t *testing.T) {
	large := &api.Status{Jobs: []api.JobStatus{{JobKey: identity.JobKey{ID: strings.Repeat("x", 4<<20)}}}}
	const text = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
	hold := func(t *testing.T, tcp string) {
		for range mostAnswers {
			c, err := net.Dial("tcp", tcp)
			must.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			must.NoError(t, c.(*net.TCPConn).SetReadBuffer(1))
			_, err = io.WriteString(c, text)
			must.NoError(t, err)
			// It has begun, and is not to end.
			_, err = c.Read(make([]byte, 1))
			must.NoError(t, err)
		}
	}
	t.Run("others wait for a while, and not on the socket", func(t *testing.T) {
		tcp, unix := listening(t, &fake{status: large}, func(s *Server) {
			s.limits.slot, s.limits.stream, s.limits.write = 100*time.Millisecond, time.Hour, time.Hour
		})
		hold(t, tcp)
		_, line, err := send(t, "tcp", tcp, text)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 429 Too Many Requests", line)
		_, line, err = send(t, "unix", unix, text)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 200 OK", line)
	})
	t.Run("they are cut off", func(t *testing.T) {
		tcp, _ := listening(t, &fake{status: large}, func(s *Server) {
			s.limits.slot, s.limits.stream, s.limits.write = time.Hour, 100*time.Millisecond, time.Hour
		})
		hold(t, tcp)
		_, line, err := send(t, "tcp", tcp, text)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 200 OK", line)
	})
}

func TestOrigin(t *testing.T) {
	for given, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:10.0.0.1": "10.0.0.1",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2::7": "2001:db8:1:2::",
	} {
		must.Eq(t, want, origin(net.ParseIP(given)), must.Sprint(given))
	}
}

// TestLimits_Slow has callers that never finish sending their request, and one that does
// not read the answer.
func TestLimits_Slow(t *testing.T) {
	short := func(s *Server) {
		s.limits = timeouts{header: 200 * time.Millisecond, read: 200 * time.Millisecond, write: time.Second, idle: 200 * time.Millisecond, stream: 200 * time.Millisecond}
	}
	events := make(chan api.Event)
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
			must.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = io.Copy(io.Discard, c)
			must.NoError(t, err, must.Sprint("it was not cut off"))
		})
	}
	t.Run("a stream that is not read", func(t *testing.T) {
		_, line, err := send(t, "tcp", tcp, stream)
		must.NoError(t, err)
		must.Eq(t, "HTTP/1.1 200 OK", line)
		// Each event fills buffers until a write waits longer than it may; then
		// events are no longer read.
		full := api.Event{Type: "trouble", Reason: strings.Repeat("x", 1<<20)}
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
			select {
			case events <- full:
				return false
			case <-time.After(2 * time.Second):
				return true
			}
		}), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	})
	t.Run("a stream that is read lasts", func(t *testing.T) {
		resp, err := http.Get("http://" + tcp + "/v1/events")
		must.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 6 { // twice the limit of an answer
			time.Sleep(400 * time.Millisecond) // the time is what is tested
			events <- api.Event{Type: "leader", Reason: fmt.Sprint("event ", i)}
			for lines.Scan() && !strings.Contains(lines.Text(), fmt.Sprint("event ", i)) {
			}
			must.NoError(t, lines.Err())
		}
	})
}

// TestLimits_SlowPlan has policies that take longer than a plan may.
func TestLimits_SlowPlan(t *testing.T) {
	ends := &fake{http: config.HTTP{Open: true}, slow: true}
	tcp, _ := listening(t, ends, func(s *Server) { s.limits.plan = 50 * time.Millisecond })
	resp, err := http.Get("http://" + tcp + "/v1/plan")
	must.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	must.Eq(t, 503, resp.StatusCode)
	must.StrContains(t, string(text), "the policies take longer than a plan may (50ms)")
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
