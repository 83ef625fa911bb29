// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// ErrorClass classifies errors of Nomad's API by how the caller should react.
type ErrorClass string

// The ways to react to an error.
const (
	Conflict  ErrorClass = "conflict"  // the job has changed, or another version has the tag: read again, then plan again
	Busy      ErrorClass = "busy"      // a deployment is running: try again later
	Refused   ErrorClass = "refused"   // the request itself is wrong: report it and do not repeat it
	Forbidden ErrorClass = "forbidden" // the token lacks a capability: report it and try again later
	Gone      ErrorClass = "gone"      // the job no longer exists
	Away      ErrorClass = "away"      // no answer, no leader, too many requests: try again later
	Stopped   ErrorClass = "stopped"   // this autoscaler gave up the request
)

// Classify returns the class of an error of Nomad's API. It has to read the
// error's text, because Nomad uses one status code for several cases: 500 for a
// conflicting index ("Enforcing job modify index …"), for a tag that another
// version has, and for a missing tag; 400 while a deployment runs, among others.
func Classify(err error) ErrorClass {
	if errors.Is(err, context.Canceled) || errors.Is(err, errNotLeading) {
		return Stopped
	}
	var resp api.UnexpectedResponseError
	if !errors.As(err, &resp) || !resp.HasStatusCode() {
		return Away
	}
	body := resp.Body()
	switch code := resp.StatusCode(); {
	case strings.Contains(body, "Enforcing job modify index"), strings.Contains(body, "already exists on a different version of job"):
		return Conflict
	case code == http.StatusBadRequest && strings.Contains(body, "blocked due to active deployment"):
		return Busy
	case code == http.StatusNotFound, strings.Contains(body, "job not found"), strings.Contains(body, "not found on job"):
		return Gone
	case code == http.StatusForbidden || code == http.StatusUnauthorized || strings.Contains(body, "Permission denied"):
		return Forbidden
	case code == http.StatusConflict:
		return Conflict
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError, code == http.StatusRequestTimeout:
		return Away
	}
	return Refused
}

// errNotLeading is returned if an autoscaler that is not sure of its leadership is
// about to write.
var errNotLeading = errors.New("no longer the leader")
