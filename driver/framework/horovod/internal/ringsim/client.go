// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package ringsim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// How Horovod's client handles failures and missing keys.
const (
	tries     = 3
	retryWait = 500 * time.Millisecond
	pollWait  = 10 * time.Millisecond
)

// Client behaves like Horovod's HTTP client.
type Client struct {
	// Addr is host:port of the server.
	Addr string
	// Requests counts the requests of all clients that share it. It may be nil.
	Requests *atomic.Int64
}

// Do sends one request, up to three times. Only 200 and 404 are answers.
func (c Client) Do(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	for try := range tries {
		if try > 0 {
			if err := sleep(ctx, retryWait); err != nil {
				return 0, nil, err
			}
		}
		status, answer, err = c.once(ctx, method, path, body)
		if err == nil && status != 200 && status != 404 {
			err = fmt.Errorf("status %d", status)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return status, answer, nil
}

// once sends one request on a connection of its own.
func (c Client) once(ctx context.Context, method, path, body string) (int, []byte, error) {
	if c.Requests != nil {
		c.Requests.Add(1)
	}
	dialer := net.Dialer{KeepAlive: -1} // as in the C++ client
	conn, err := dialer.DialContext(ctx, "tcp4", c.Addr)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	host, _, _ := strings.Cut(c.Addr, ":")
	request := method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, nil, err
	}
	return readResponse(bufio.NewReader(conn))
}

// readResponse is as strict as the C++ client: header names must have their usual
// spelling, and there must be a Content-Length.
func readResponse(r *bufio.Reader) (int, []byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, nil, err
	}
	fields := strings.Fields(line)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1.") {
		return 0, nil, fmt.Errorf("status line %q", line)
	}
	status, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0, nil, err
	}
	length := -1
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, nil, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if v, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(v); err != nil {
				return 0, nil, err
			}
		}
	}
	if length < 0 {
		return 0, nil, errors.New("no Content-Length")
	}
	body := make([]byte, length)
	_, err = io.ReadFull(r, body)
	return status, body, err
}

// Wait polls a key until it exists.
func (c Client) Wait(ctx context.Context, path string) error {
	for {
		status, _, err := c.Do(ctx, "GET", path, "")
		if err != nil || status == 200 {
			return err
		}
		if err := sleep(ctx, pollWait); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
