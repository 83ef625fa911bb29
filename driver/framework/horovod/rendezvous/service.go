// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Scopes with a special meaning.
const (
	scopeRankAndSize     = "rank_and_size"
	scopeWorkerAddresses = "worker_addresses"
)

// service turns HTTP requests into Handler calls.
type service struct {
	handler Handler
	limits  limits
	log     hclog.Logger
	refused atomic.Int64
}

// loudRefusals is how many refused requests are logged as warnings: enough to find
// the cause, too few to fill the log.
const loudRefusals = 20

// ServeHTTP answers one request with the statuses that Horovod knows: 200 and 404
// are answers; any other status is a failure, on which it retries and then aborts.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scope, key, ok := splitPath(r.RequestURI)
	if !ok {
		s.refuse(w, r, http.StatusBadRequest, "path is not /scope/key")
		return
	}
	if len(scope) > s.limits.Name || len(key) > s.limits.Name {
		s.refuse(w, r, http.StatusRequestURITooLong, "scope or key too long")
		return
	}
	switch r.Method {
	case http.MethodGet:
		if scope == scopeRankAndSize {
			s.rankAndSize(w, r)
			return
		}
		value, found, err := s.handler.Get(r.Context(), scope, key)
		if err == nil && !found {
			s.answer(w, http.StatusNotFound, nil)
			return
		}
		s.finish(w, r, value, err)
	case http.MethodPut:
		s.put(w, r, scope, key)
	case http.MethodDelete:
		s.finish(w, r, nil, s.handler.Delete(r.Context(), scope, key))
	default:
		w.Header().Set("Allow", "GET, PUT, DELETE")
		s.refuse(w, r, http.StatusMethodNotAllowed, "method")
	}
}

func (s *service) put(w http.ResponseWriter, r *http.Request, scope, key string) {
	value, err := s.readBody(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "body too large")
		return
	case err != nil:
		// The client stalled or went away while it sent its body.
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if scope != scopeWorkerAddresses {
		s.finish(w, r, nil, s.handler.Put(r.Context(), scope, key, value))
		return
	}
	target, err := DecodeNotifyTarget(value)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	s.finish(w, r, nil, s.handler.WorkerAddress(r.Context(), target))
}

func (s *service) rankAndSize(w http.ResponseWriter, r *http.Request) {
	a, err := s.handler.RankAndSize(r.Context())
	if err == nil {
		err = a.Valid()
	}
	if err != nil {
		if r.Context().Err() == nil {
			s.log.Warn("no rank for this slot, its request is held", "error", err)
		}
		abandon(r)
	}
	s.answer(w, http.StatusOK, []byte(a.String()))
}

// readBody reads the whole body within the limits of size and time.
func (s *service) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > s.limits.Body {
		return nil, &http.MaxBytesError{Limit: s.limits.Body}
	}
	rc := http.NewResponseController(w)
	if err := rc.SetReadDeadline(time.Now().Add(s.limits.Transfer)); err != nil {
		return nil, err
	}
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.limits.Body))
	if err != nil {
		return nil, err
	}
	// The deadline must not end the request while it waits.
	return value, rc.SetReadDeadline(time.Time{})
}

// answer sends a status and a body, always with its length: without one, Horovod's
// client reads no further than the first packet.
func (s *service) answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Date"], h["Content-Type"] = nil, nil // no client reads them
	h.Set("Content-Length", strconv.Itoa(len(body)))
	// Best effort: not all writers have deadlines, and the write itself fails if
	// the client is gone.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.Transfer))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// refuse answers a request that no version of Horovod sends.
func (s *service) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	level := hclog.Warn
	if s.refused.Add(1) > loudRefusals {
		level = hclog.Debug
	}
	s.log.Log(level, "refused a request", "method", r.Method, "path", clip(r.RequestURI), "status", status, "reason", clip(why))
	w.Header().Set("Connection", "close")
	s.answer(w, status, nil)
}

// finish answers a request with the handler's value, or ends it if the handler had
// none.
func (s *service) finish(w http.ResponseWriter, r *http.Request, value []byte, err error) {
	switch {
	case err == nil:
		s.answer(w, http.StatusOK, value)
		return
	case errors.Is(err, ErrHold) || r.Context().Err() != nil:
		abandon(r)
	}
	s.log.Error("request failed", "method", r.Method, "path", clip(r.RequestURI), "error", err)
	s.answer(w, http.StatusInternalServerError, nil)
}

// abandon keeps a request open until its client goes away or the endpoint closes,
// and never returns. Returning would send an empty answer with status 200, which a
// live process would take for rank 0 of 0.
func abandon(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler) // net/http's way to close without an answer
}

// splitPath splits "/scope/key". It unescapes nothing, because Horovod escapes
// nothing: a percent sign is a percent sign. (net/http refuses a percent sign that
// is not followed by two hexadecimal digits before it gets here.)
func splitPath(uri string) (scope, key string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "/")
	if !ok {
		return "", "", false
	}
	scope, key, ok = strings.Cut(rest, "/")
	if !ok || scope == "" || key == "" || strings.Contains(key, "/") {
		return "", "", false
	}
	return scope, key, true
}

// clip shortens a client's text, so that it cannot fill the log.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
