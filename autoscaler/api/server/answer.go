// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
)

func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the reader may have disconnected
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(api.Problem{Error: err.Error()}) // the reader may have disconnected
}

// coded is an error with the HTTP status of its answer.
type coded struct {
	code int
	error
	retryAfter string // seconds, "" is none
}

// Unwrap returns the error itself.
func (c coded) Unwrap() error { return c.error }

func problem(code int, format string, args ...any) error {
	return coded{code: code, error: fmt.Errorf(format, args...)}
}

// fail answers with the HTTP status that belongs to an error of the autoscaler or
// of Nomad.
func fail(w http.ResponseWriter, err error) {
	var known coded
	switch class := cluster.Classify(err); {
	case errors.As(err, &known):
		if known.retryAfter != "" {
			w.Header().Set("Retry-After", known.retryAfter)
		}
		refuse(w, known.code, err)
	case errors.Is(err, leader.ErrNotLeading):
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%w; try again in a moment", err))
	case errors.Is(err, cluster.ErrNotReady):
		refuse(w, http.StatusServiceUnavailable, err)
	case class == cluster.Forbidden:
		refuse(w, http.StatusForbidden, fmt.Errorf("the token may not write the variable kolo/overrides: %w", err))
	case class == cluster.Gone:
		refuse(w, http.StatusNotFound, err)
	default:
		refuse(w, http.StatusBadGateway, err)
	}
}
