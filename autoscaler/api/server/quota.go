// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Limits of concurrent work. An answer is held in memory until it is read. A plan
// costs as much as a round and holds the same locks.
const (
	mostPlans   = 2
	mostAnswers = 16
)

// quota holds the concurrent work of all callers of the network, or of the Unix
// socket.
type quota struct {
	streams        *counter
	plans, answers chan struct{}
}

func newQuota(streamsByAddress int) *quota {
	return &quota{newCounter(mostStreams, streamsByAddress), make(chan struct{}, mostPlans), make(chan struct{}, mostAnswers)}
}

func (s *Server) quota(r *http.Request) *quota {
	if _, ok := local(r); ok {
		return s.own
	}
	return s.network
}

// slot takes one of slots, and waits up to within for it. It returns nil if none
// becomes free or the client disconnects.
func slot(ctx context.Context, slots chan struct{}, within time.Duration) (give func()) {
	give = func() { <-slots }
	select {
	case slots <- struct{}{}:
		return give
	default:
	}
	select {
	case slots <- struct{}{}:
		return give
	case <-ctx.Done():
	case <-time.After(within):
	}
	return nil
}

// limited wraps a handler whose answer may be large. It limits how many such
// answers are made concurrently, and the time to read each piece.
func (s *Server) limited(h func(http.ResponseWriter, *http.Request, *scope)) func(http.ResponseWriter, *http.Request, *scope) {
	return func(w http.ResponseWriter, r *http.Request, sc *scope) {
		give := slot(r.Context(), s.quota(r).answers, s.limits.slot)
		if give == nil {
			fail(w, tooMany("1", "too many answers are being read; try again in a moment"))
			return
		}
		defer give()
		h(&pacedWriter{ResponseWriter: w, each: s.limits.stream, all: s.limits.write}, r, sc)
	}
}

// tooMany returns the error for an exceeded limit.
func tooMany(seconds, text string) error {
	return coded{http.StatusTooManyRequests, errors.New(text), seconds}
}

const piece = 64 << 10

// pacedWriter writes an answer in pieces, each of which must be read in a limited
// time.
type pacedWriter struct {
	http.ResponseWriter
	each, all time.Duration
	end       time.Time // deadline of the whole answer, set with the first piece
}

// Write implements http.ResponseWriter.
func (p *pacedWriter) Write(text []byte) (n int, err error) {
	control := http.NewResponseController(p.ResponseWriter)
	for err == nil && n < len(text) {
		now := time.Now()
		if p.end.IsZero() {
			p.end = now.Add(p.all)
		}
		by := now.Add(p.each)
		if by.After(p.end) {
			by = p.end
		}
		if err := control.SetWriteDeadline(by); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		var some int
		some, err = p.ResponseWriter.Write(text[n:min(n+piece, len(text))])
		n += some
	}
	return n, err
}
