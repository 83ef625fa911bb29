// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"
)

// ServeHTTP implements http.Handler.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.calls++
	fault := c.Fault
	c.mu.Unlock()
	if fault != nil {
		if code := fault(r.Method, r.URL.Path); code != 0 {
			http.Error(w, "fault on demand", code)
			return
		}
	}
	w.Header().Set("X-Nomad-LastContact", "0") // without, Nomad's client reads no token of the next page
	c.mux.ServeHTTP(w, r)
}

// routes maps every Nomad API call that package contract asserts to its handler.
func (c *Cluster) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /v1/nodes":                          c.listed("nodes"),
		"GET /v1/allocations":                    c.listed("allocs"),
		"GET /v1/jobs":                           c.listed("jobs"),
		"GET /v1/evaluations":                    c.listed("evals"),
		"GET /v1/scaling/policies":               c.listed("policies"),
		"GET /v1/namespaces":                     c.listed("namespaces"),
		"GET /v1/event/stream":                   c.stream,
		"GET /v1/acl/token/self":                 c.selfToken,
		"GET /v1/acl/policy/self":                c.selfPolicies,
		"GET /v1/node/{id}":                      c.one("node not found", c.node),
		"GET /v1/client/stats":                   c.clientStats,
		"GET /v1/allocation/{id}":                c.one("alloc not found", c.allocation),
		"GET /v1/service/{id}":                   c.one("", c.registrations),
		"GET /v1/job/{id}":                       c.ofJob(c.whole),
		"DELETE /v1/job/{id}":                    c.deregister,
		"GET /v1/job/{id}/allocations":           c.ofJob(c.own),
		"GET /v1/job/{id}/scale":                 c.ofJob(c.scaleStatus),
		"PUT /v1/job/{id}/scale":                 c.putScale,
		"GET /v1/job/{id}/summary":               c.ofJob(func(j *Job) any { return c.summary(j) }),
		"GET /v1/job/{id}/versions":              c.ofJob(c.versions),
		"PUT /v1/job/{id}/versions/{tag}/tag":    c.putTag,
		"DELETE /v1/job/{id}/versions/{tag}/tag": c.putTag,
		"GET /v1/vars":                           c.variables,
		"GET /v1/var/{path...}":                  c.variables,
		"PUT /v1/var/{path...}":                  c.variables,
		"DELETE /v1/var/{path...}":               c.variables,
	}
}

// serve returns the handler of all routes. Other requests are answered with a status
// that Nomad never uses for missing objects.
func (c *Cluster) serve() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range c.routes() {
		mux.HandleFunc(pattern, handler)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such endpoint in the stand-in: "+r.Method+" "+r.URL.Path, http.StatusNotImplemented)
	})
	return mux
}

// here reports whether a request concerns the only namespace.
func here(r *http.Request) bool {
	return slices.Contains([]string{"", "*", "default"}, r.URL.Query().Get("namespace"))
}

// ofJob returns a handler that answers with get's view of a job, if the caller may
// read it.
func (c *Cluster) ofJob(get func(*Job) any) http.HandlerFunc {
	answer := c.one(string(errNoJob), func(r *http.Request) any {
		if j := c.jobs[r.PathValue("id")]; j != nil && here(r) {
			return get(j)
		}
		return nil
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if !c.may(r) {
			http.Error(w, "Permission denied", http.StatusForbidden)
			return
		}
		answer(w, r)
	}
}

func (c *Cluster) whole(j *Job) any { return c.details(j) }

// own returns the allocations of a job, which Nomad lists without their resources.
func (c *Cluster) own(j *Job) any {
	out := []any{}
	for _, a := range c.byJob[j.ID] {
		stub := a.wire()
		delete(stub, "AllocatedResources")
		out = append(out, stub)
	}
	return out
}

func (c *Cluster) scaleStatus(j *Job) any {
	groups := map[string]api.TaskGroupScaleStatus{}
	for _, g := range j.groups() {
		groups[g.Name] = api.TaskGroupScaleStatus{Desired: g.Count, Events: slices.Clone(c.scales[[2]string{j.ID, g.Name}])}
	}
	return api.JobScaleStatusResponse{JobID: j.ID, Namespace: "default", TaskGroups: groups}
}

// deregister stops a job, or removes it.
func (c *Cluster) deregister(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("purge") == "true" {
		c.Purge(r.PathValue("id"))
	} else {
		c.Stop(r.PathValue("id"))
	}
	_, _ = w.Write([]byte("{}")) // a reader that went away
}

func (c *Cluster) node(r *http.Request) any {
	if n := c.nodes[r.PathValue("id")]; n != nil {
		return n.detail()
	}
	return nil
}

// one returns a handler that answers with one object, or 404 if get returns nil. get
// is called under the lock.
func (c *Cluster) one(none string, get func(*http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		v := get(r)
		text, err := json.Marshal(v)
		index := c.index
		c.mu.Unlock()
		switch {
		case v == nil:
			http.Error(w, none, http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
			_, _ = w.Write(text) // a reader that went away
		}
	}
}

func (c *Cluster) putScale(w http.ResponseWriter, r *http.Request) {
	if !c.may(r) {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	var req api.ScalingRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	j, err := c.scale(r.PathValue("id"), &req)
	c.mu.Unlock()
	var stale conflict
	switch {
	case errors.As(err, &stale):
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case errors.Is(err, errNoJob):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		_, _ = fmt.Fprintf(w, `{"EvalID":"e","JobModifyIndex":%d}`, j.change) // a reader that went away
	}
}

// registrations returns the instances of a service.
func (c *Cluster) registrations(r *http.Request) any {
	name, out := r.PathValue("id"), []any{}
	for _, j := range c.jobs {
		for i, at := range j.At {
			claim := at
			if j.Claim != "" {
				claim = j.Claim
			}
			if host, port, err := net.SplitHostPort(claim); err == nil && j.Service == name {
				n, _ := strconv.Atoi(port) // 0 is as good as any that is none
				out = append(out, map[string]any{
					"ServiceName": name, "Namespace": "default", "JobID": j.ID, "AllocID": c.instance(j, i), "Address": host, "Port": n,
				})
			}
		}
	}
	return out
}

// instance returns the allocation that is registered at the i-th address of a job: its
// i-th worker, or an invented ID if the job has fewer workers.
func (c *Cluster) instance(j *Job, i int) string {
	if w := c.workers(j.ID); i < len(w) {
		return w[i].ID
	}
	return fmt.Sprintf("%s-at-%d", j.ID, i)
}

// allocation returns a whole allocation, with its address as an instance of a service;
// nil if it does not exist.
func (c *Cluster) allocation(r *http.Request) any {
	id := r.PathValue("id")
	a := c.allocs[id]
	for _, j := range c.jobs {
		for i, at := range j.At {
			if c.instance(j, i) != id {
				continue
			}
			if a == nil {
				a = &Alloc{ID: id, Job: j.ID, Group: j.Group, Client: api.AllocClientStatusRunning, Desired: api.AllocDesiredStatusRun}
			}
			return a.at(at)
		}
	}
	if a == nil {
		return nil
	}
	return a.wire()
}

// stream sends recent events, then new ones as they happen.
func (c *Cluster) stream(w http.ResponseWriter, r *http.Request) {
	sub := make(chan []byte, 4096)
	c.mu.Lock()
	c.subs[sub] = struct{}{}
	for _, text := range c.recent {
		sub <- text
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subs, sub)
	}()
	rc := http.NewResponseController(w)
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	send := func(text []byte) bool {
		_, err := w.Write(text)
		return err == nil && rc.Flush() == nil
	}
	if !send([]byte("{}\n")) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if !send([]byte("{}\n")) {
				return
			}
		case text := <-sub:
			if !send(text) {
				return
			}
		}
	}
}
