// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tcpstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
	"github.com/kolo-nomad/kolo/driver/sandbox/gate"
)

// connection is one client. One goroutine reads its requests while another performs them in
// turn, so that a wait can be canceled.
//
//	read ── requests ──> run ──> answers
type connection struct {
	server   *Server
	conn     net.Conn
	ctx      context.Context // ends with the connection
	requests chan request    // closed when no more will come
	readErr  error           // why requests was closed, nil at a clean end; set before that
	answers  *answerWriter
	store    Store // nil before the first operation
	// waited are the keys of the previous request, if it was a wait.
	waited []string
}

func newConnection(ctx context.Context, s *Server, conn net.Conn) *connection {
	return &connection{server: s, conn: conn, ctx: ctx, requests: make(chan request), answers: newAnswerWriter(conn, s.limits.Transfer)}
}

// run serves the connection to its end. It returns nil if the client has closed it.
func (c *connection) run() error {
	ctx, cancel := context.WithCancel(c.ctx)
	c.ctx = ctx
	stop := context.AfterFunc(ctx, func() { gate.Reset(c.conn) })
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		c.readErr = c.read()
		close(c.requests)
	}()
	err := c.perform()
	if err == nil {
		stop() // the client may not have read the last answer yet
	}
	cancel()
	for req := range c.requests {
		c.server.budget.release(req.size)
	}
	<-reading
	return err
}

// read reads requests until the client closes the connection.
func (c *connection) read() error {
	r := &requestReader{r: bufio.NewReader(c.conn), budget: &c.server.budget}
	for first := true; ; first = false {
		req, err := c.next(r, first)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			continue
		}
		select {
		case c.requests <- req:
		case <-c.ctx.Done():
			c.server.budget.release(req.size)
			return c.ctx.Err()
		}
	}
}

// next reads one request. Only the first must validate the protocol, and it must do so.
func (c *connection) next(r *requestReader, first bool) (request, error) {
	var deadline time.Time // a connection may be idle
	if first {
		deadline = time.Now().Add(c.server.limits.Validate)
	}
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return request{}, err
	}
	begin, err := r.r.ReadByte()
	if err != nil {
		return request{}, err
	}
	if err := c.conn.SetReadDeadline(time.Now().Add(c.server.limits.Transfer)); err != nil {
		return request{}, err
	}
	if first != (command(begin) == cmdValidate) {
		return request{}, fmt.Errorf("%w: command %d, first request: %t", errProtocol, begin, first)
	}
	req, err := r.read(command(begin))
	if errors.Is(err, io.EOF) {
		return request{}, io.ErrUnexpectedEOF
	}
	if err == nil && first && req.number != validation {
		return request{}, fmt.Errorf("%w: it begins with %#x", errProtocol, req.number)
	}
	return req, err
}

// perform performs requests in turn.
func (c *connection) perform() error {
	defer c.yield()
	for req := range c.requests {
		err := c.handle(req)
		c.server.budget.release(req.size)
		if err != nil {
			return err
		}
	}
	return c.readErr
}

// handle performs one request.
func (c *connection) handle(req request) error {
	if req.command == cmdCancelWait { // the wait had already ended
		c.yield()
	}
	waited := c.waited
	c.waited = nil
	switch req.command {
	case cmdPing:
		return c.answers.ping(req.number)
	case cmdCancelWait:
		c.answers.byte(waitCanceled)
		return c.answers.flush()
	case cmdWait, cmdBarrier:
		return c.wait(req)
	default:
		return c.operate(req, waited)
	}
}

// operate performs an operation that does not wait; waited are the keys of the client's
// previous wait.
func (c *connection) operate(req request, waited []string) error {
	res, err := c.do(c.ctx, req.op)
	for err == nil && req.command == cmdQueuePop && res.Number == 0 && slices.Equal(waited, []string{req.op.Key}) {
		// Another process has popped the value that ended the wait.
		if _, err = c.do(c.ctx, store.Op{Kind: store.Wait, Keys: waited}); err == nil {
			res, err = c.do(c.ctx, req.op)
		}
	}
	if err != nil {
		return err
	}
	return c.answers.answer(req.command, res)
}

// do performs one operation in the store of the connection's ring.
func (c *connection) do(ctx context.Context, op store.Op) (store.Result, error) {
	if c.store == nil {
		s, err := c.server.process.Store(ctx)
		if err != nil {
			return store.Result{}, err
		}
		c.store = s
	}
	return c.store.Do(ctx, op)
}

// wait performs a request that the client may cancel.
func (c *connection) wait(req request) error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.do(ctx, req.op)
		done <- err
	}()
	select {
	case err := <-done:
		return c.waitOver(req, err)
	case next, more := <-c.requests:
		cancel()
		err := <-done
		c.server.budget.release(next.size)
		switch {
		case !more:
			if err == nil {
				c.waited = req.op.Keys
			}
			return c.readErr
		case next.command != cmdCancelWait:
			return fmt.Errorf("%w: command %d during a wait", errProtocol, next.command)
		case err == nil: // the wait ended first: the client reads both answers
			if err := c.waitOver(req, nil); err != nil {
				return err
			}
			c.yield()
		case !errors.Is(err, context.Canceled):
			return err
		}
		c.waited = nil
		c.answers.byte(waitCanceled)
		return c.answers.flush()
	}
}

// yield leaves the keys that the client has waited for to others, since it will not pop
// them.
func (c *connection) yield() {
	if len(c.waited) > 0 && c.store != nil {
		_, _ = c.store.Do(c.ctx, store.Op{Kind: store.Yield, Keys: c.waited}) // fails only if no one waits any longer
	}
}

// waitOver answers a wait that was not canceled.
func (c *connection) waitOver(req request, err error) error {
	if err != nil {
		return err
	}
	c.waited = req.op.Keys
	return c.answers.answer(req.command, store.Result{})
}
