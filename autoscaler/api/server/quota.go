// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Bounds of what is made at a time. An answer is held until it is read, and a
// plan costs as much as a round and holds the same locks.
const (
	mostPlans   = 2
	mostAnswers = 16
)

// quota is what the callers of the network, or of the Unix socket, may have at
// a time.
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

// slot takes one of slots within a time; it returns nil where there is none, or
// the caller went away.
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

// limited is for an answer that may be large: so many are made at a time, and each
// is to be read piece by piece.
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

// tooMany is the error of what is bounded in number.
func tooMany(seconds, text string) error {
	return coded{http.StatusTooManyRequests, errors.New(text), seconds}
}

const piece = 64 << 10

// pacedWriter writes an answer in pieces, each of which is to be read in a time.
type pacedWriter struct {
	http.ResponseWriter
	each, all time.Duration
	end       time.Time // of all, from the first piece on
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
