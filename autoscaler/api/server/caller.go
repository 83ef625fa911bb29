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

// caller is the sender of a request, as far as it is proven.
type caller struct {
	token string // token for requests to Nomad; "" means the autoscaler's own
	who   string // name in the audit log
}

// token returns the Nomad token of a request. It accepts the same two headers as
// Nomad.
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

// admit returns the caller of a request that requires proof of identity, or an
// error if the caller may not even try. The error names what requires the proof,
// and which token is accepted. For a change with a token, Nomad makes the final
// decision.
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
		return own, nil // a token proves nothing if Nomad does not check it
	case errors.Is(err, cluster.ErrNoACL):
		return caller{who: "unproven token"}, problem(http.StatusForbidden, "%w, so a token proves nothing: %s", err, s.remedy("let everyone write with http { open = true }"))
	case errors.Is(err, cluster.ErrUnknownToken) && local:
		// An expired token, often from the environment, proves nothing. The caller
		// keeps the identity that the kernel reports.
		return own, nil
	case errors.Is(err, cluster.ErrUnknownToken):
		return caller{who: "unknown token"}, problem(http.StatusForbidden, "%w", err)
	}
	return caller{who: "unproven token"}, err
}

// remedy appends the remedy of the Unix socket, which requires no token, to another
// one.
func (s *Server) remedy(other string) string {
	if s.socket == "" {
		return other
	}
	return fmt.Sprintf("%s, or run kolo on this machine as the autoscaler's user or root, which finds the Unix socket %s", other, s.socket)
}

// commandFunc carries out a command for a caller and completes its audit record.
type commandFunc func(w http.ResponseWriter, r *http.Request, c caller, e *audit.Entry) error

// command returns a handler for a request that changes something. The answer is {}
// unless do has already answered.
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

// answerWriter records whether a request was answered.
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
