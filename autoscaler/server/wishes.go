// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/autoscaler/agent"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/nearest"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// SetPolicy is the body of PUT /v1/policy.
type SetPolicy struct {
	Pool   string `json:"pool"`
	Policy string `json:"policy"` // name, or name(option=value, …); "" is as configured
}

func (s *Server) setPolicy(w http.ResponseWriter, r *http.Request) {
	var in SetPolicy
	token, ok := s.wish(w, r, &in)
	if !ok {
		return
	}
	if in.Pool == "" {
		refuse(w, http.StatusBadRequest, errors.New(`which pool? write {"pool": "default", "policy": "…"}`))
		return
	}
	if in.Policy != "" {
		if known := s.pools(); s.agent.Status().Ready && !slices.Contains(known, in.Pool) {
			hint := nearest.Hint("", in.Pool, known)
			if hint == "" {
				hint = "; there are " + strings.Join(known, ", ")
			}
			refuse(w, http.StatusNotFound, fmt.Errorf("there is no node pool %q%s", in.Pool, hint))
			return
		}
	}
	err := s.agent.SetPolicy(r.Context(), token, in.Pool, in.Policy)
	if err != nil && cluster.Classify(err) == cluster.Away && !errors.Is(err, agent.ErrFollower) {
		// Not an error of Nomad's API: the policy itself.
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.done(w, err)
}

// Which is the body of PUT /v1/pause and /v1/resume; no ID is all jobs.
type Which struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
}

// pools are the node pools that have nodes or jobs, or a block of their own.
func (s *Server) pools() []string {
	configured, _ := s.agent.Pools()
	delete(configured, config.AnyPool)
	return slices.Sorted(maps.Keys(configured))
}

// unknown returns an error where the agent has not seen the job, which is more
// likely a mistyped name than one to come.
func (s *Server) unknown(key planner.JobKey) error {
	st := s.agent.Status()
	var known []string
	for _, j := range st.Jobs {
		known = append(known, planner.JobKey{Namespace: j.Namespace, ID: j.ID}.String())
	}
	for _, j := range st.Aside {
		known = append(known, planner.JobKey{Namespace: j.Namespace, ID: j.ID}.String())
	}
	if !st.Ready || slices.Contains(known, key.String()) {
		return nil
	}
	return fmt.Errorf("kolo does not look after a job %s%s", key, nearest.Hint("", key.String(), known))
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) { s.pausing(w, r, true, s.agent.Pause) }
func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	s.pausing(w, r, false, s.agent.Resume)
}

func (s *Server) pausing(w http.ResponseWriter, r *http.Request, known bool, do func(context.Context, string, planner.JobKey) error) {
	var in Which
	token, ok := s.wish(w, r, &in)
	if !ok {
		return
	}
	key := planner.JobKey{Namespace: in.Namespace, ID: in.ID}
	if key.ID == "" {
		key = planner.JobKey{}
	} else if key.Namespace == "" {
		key.Namespace = "default"
	}
	if known && key.ID != "" {
		if err := s.unknown(key); err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
	}
	s.done(w, do(r.Context(), token, key))
}

func (s *Server) reloading(w http.ResponseWriter, r *http.Request) {
	token, ok := s.wish(w, r, nil)
	if !ok {
		return
	}
	if token != "" {
		if err := s.agent.May(r.Context(), token); err != nil {
			fail(w, err)
			return
		}
	}
	if err := s.reload(); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, struct{}{})
}

// wish reads the token and the body of a request that changes something.
func (s *Server) wish(w http.ResponseWriter, r *http.Request, into any) (token string, ok bool) {
	if token, ok = s.admit(w, r); !ok {
		return "", false
	}
	if into != nil {
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("the body: %w", err))
			return "", false
		}
	}
	return token, true
}

// admit lets in who may try to change something: Nomad decides with the token.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (token string, ok bool) {
	// A page of another site must not be able to write with a form.
	page := r.Header.Get("Origin") != ""
	if page && !sameOrigin(r) {
		refuse(w, http.StatusForbidden, errors.New("requests of other sites are refused"))
		return "", false
	}
	token = r.Header.Get("X-Nomad-Token")
	// Nor where it has its own name point to this address once it is loaded. It
	// has no token. Programs are not fooled so, and may use any name they know,
	// but on loopback only those of this machine make sense.
	if c := s.agent.Config().HTTP; token == "" && (page || c.Loopback()) && !ours(r.Host, c) {
		refuse(w, http.StatusForbidden, fmt.Errorf("requests to %q are refused without a token: write to localhost, to an IP address, or to the address in http { advertise }", r.Host))
		return "", false
	}
	if token == "" && !s.open() {
		refuse(w, http.StatusUnauthorized, errors.New("present a Nomad token that may write the variable kolo/control (header X-Nomad-Token, or NOMAD_TOKEN for the command line)"))
		return "", false
	}
	return token, true
}

// ours says whether the host that a request was sent to is ours by a name that
// nobody else can give to it.
func ours(host string, c config.HTTP) bool {
	host = (&url.URL{Host: host}).Hostname()
	if host == "localhost" || host == c.Bind || net.ParseIP(host) != nil {
		return true
	}
	u, err := url.Parse(c.Advertise)
	return err == nil && host != "" && strings.EqualFold(host, u.Hostname())
}

func sameOrigin(r *http.Request) bool {
	_, host, _ := strings.Cut(r.Header.Get("Origin"), "://")
	return host == r.Host
}

// open says whether callers without a token may write.
func (s *Server) open() bool {
	c := s.agent.Config().HTTP
	if c.Open != nil {
		return *c.Open
	}
	return c.Loopback()
}

func (s *Server) done(w http.ResponseWriter, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, struct{}{})
}
