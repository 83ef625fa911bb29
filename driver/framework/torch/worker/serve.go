// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"bufio"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"
)

var (
	errSecret = errors.New("the secret is not this slot's (KOLO_WORKER_SECRET): the connection must come from the slot's own process")
	errHello  = errors.New("a connection begins with hello")
	errLine   = fmt.Errorf("a line is longer than %d bytes", maxLine)
)

// serve talks to a process until its connection ends. If that is due to an error,
// the process is sent the error last.
func (s *Server) serve(c *conn) {
	in := bufio.NewReaderSize(c.Conn, maxLine)
	err := s.greet(c, in)
	if err == nil {
		err = s.follow(c, in)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return
	}
	c.send(failure(err))
	s.handling.Lock()
	defer s.handling.Unlock()
	s.handler.Refused(err)
}

// greet handles a process's hello.
func (s *Server) greet(c *conn, in *bufio.Reader) error {
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	line, err := readLine(in)
	if err != nil {
		return err
	}
	r, err := parse(line)
	switch {
	case err != nil:
		return err
	case r.Type != typeHello:
		return errHello
	case subtle.ConstantTimeCompare([]byte(r.Secret), []byte(s.secret)) != 1:
		return errSecret
	case r.Version != Version:
		return fmt.Errorf("this agent speaks version %d of the worker protocol, %q speaks version %d: install the kolo package of the driver's release",
			Version, r.Client, r.Version)
	}
	s.handling.Lock()
	defer s.handling.Unlock()
	if err := s.handler.Hello(r.Hello); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Time{})
	c.send(welcome())
	s.adopt(c)
	return nil
}

// follow handles a process's further messages.
func (s *Server) follow(c *conn, in *bufio.Reader) error {
	pace := rate.NewLimiter(maxRate, maxBurst)
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		_ = pace.Wait(context.Background()) // for one line, which is less than a burst
		r, err := parse(line)
		if err != nil {
			return err
		}
		if ok, err := s.handle(c, r, line); !ok || err != nil {
			return err
		}
	}
}

// handle passes on a message, unless another connection has replaced this one.
func (s *Server) handle(c *conn, r request, line []byte) (bool, error) {
	s.handling.Lock()
	defer s.handling.Unlock()
	if !s.isPresent(c) {
		return false, nil
	}
	switch r.Type {
	case typeReady:
		s.handler.Ready(r.Generation)
	case typeForming, typeFormed:
		round, listening, known, err := r.group()
		switch {
		case err != nil:
			return true, err
		case r.Type == typeFormed:
			s.handler.Formed(r.Generation, round, listening, known)
		case known:
			s.handler.Forming(r.Generation, round, listening)
		}
	case typeProgress:
		s.handler.Progress(r.Generation, line)
	}
	return true, nil
}

// readLine returns the next line, valid until the next call.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errLine
	case err != nil:
		return nil, io.EOF // regardless of why the connection ended
	}
	return line, nil
}
