// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/api/audit"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
)

// caller is who sent a request, as far as that is proven.
type caller struct {
	token string // what Nomad is asked with; "" is the autoscaler's own
	who   string // for the record
}

// token is the Nomad token of a request, in either of the headers that Nomad
// itself reads.
func token(r *http.Request) string {
	if t := r.Header.Get("X-Nomad-Token"); t != "" {
		return t
	}
	scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(t)
	}
	return ""
}

// admit returns who wants something that requires a proof, or an error for who may
// not even try, which names what requires the proof, and which token is one. With a
// token it is Nomad that decides on a change in the end.
func (s *Server) admit(r *http.Request, what, which string) (caller, error) {
	conn, local := local(r)
	own := caller{who: "anyone, by http { open }"}
	if local {
		own.who = "unix " + conn.peer.String()
	}
	may := local || s.controller.Config().HTTP.Open
	given := token(r)
	if given == "" {
		if may {
			return own, nil
		}
		return caller{who: "no token"}, problem(http.StatusUnauthorized, "%s requires a proof: %s", what, s.remedy(errNoToken.Error()+which))
	}
	who, err := s.tokens.Identify(r.Context(), given)
	switch {
	case err == nil && local:
		return caller{given, who + ", " + own.who}, nil
	case err == nil:
		return caller{given, who}, nil
	case errors.Is(err, cluster.ErrNoACL) && may:
		return own, nil // what Nomad does not check proves nothing
	case errors.Is(err, cluster.ErrNoACL):
		return caller{who: "unproven token"}, problem(http.StatusForbidden, "%w, so a token proves nothing: %s", err, s.remedy("let everyone write with http { open = true }"))
	case errors.Is(err, cluster.ErrUnknownToken) && local:
		// One that has expired, often of the environment, neither proves anything
		// nor takes away what the kernel reports of the caller.
		return own, nil
	case errors.Is(err, cluster.ErrUnknownToken):
		return caller{who: "unknown token"}, problem(http.StatusForbidden, "%w", err)
	}
	return caller{who: "unproven token"}, err
}

// remedy adds to what a caller can do that the Unix socket requires no token.
func (s *Server) remedy(other string) string {
	if s.socket == "" {
		return other
	}
	return fmt.Sprintf("%s, or run kolo on this machine as the autoscaler's user or root, which finds the Unix socket %s", other, s.socket)
}

// commandFunc is what a command does for a caller; it completes the record.
type commandFunc func(w http.ResponseWriter, r *http.Request, c caller, e *audit.Entry) error

// command makes a handler of a request that changes something. It is answered
// with {} unless do has answered it.
func (s *Server) command(action string, do commandFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := audit.Entry{Action: action, From: address(r), Via: via(r)}
		c, err := s.admit(r, "a change", " that may write the variable kolo/overrides")
		e.Who = c.who
		if err != nil {
			e.Err = err
			s.audit.Refused(e)
			fail(w, err)
			return
		}
		out := &answerWriter{ResponseWriter: w}
		e.Err = do(out, r, c, &e)
		s.audit.Write(e)
		switch {
		case out.done:
		case e.Err != nil:
			fail(w, e.Err)
		default:
			answer(w, struct{}{})
		}
	}
}

// answerWriter knows whether a request was answered.
type answerWriter struct {
	http.ResponseWriter
	done bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answerWriter) WriteHeader(code int) {
	a.done = true
	a.ResponseWriter.WriteHeader(code)
}

// decode reads the body of a command.
func decode(r *http.Request, into any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return problem(http.StatusBadRequest, "the body: %w", err)
	}
	return nil
}
