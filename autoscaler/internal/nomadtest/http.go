// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	parts := strings.Split(path, "/")
	switch {
	case lists[path] != "":
		c.list(w, r, lists[path])
	case path == "event/stream":
		c.stream(w, r)
	case parts[0] == "job" && len(parts) > 1:
		c.job(w, r, parts[1], parts[2:])
	case parts[0] == "acl":
		c.acl(w, r, path)
	case parts[0] == "service" && len(parts) == 2:
		c.one(w, func() any { return c.registrations(parts[1]) })
	case parts[0] == "allocation" && len(parts) == 2:
		c.one(w, func() any { return c.allocation(parts[1]) })
	case parts[0] == "node" && len(parts) == 2:
		c.one(w, func() any {
			if n := c.nodes[parts[1]]; n != nil {
				return n.wire()
			}
			return nil
		})
	case parts[0] == "var", parts[0] == "vars":
		c.variables(w, r, strings.TrimPrefix(path, "var/"))
	default:
		missing(w, r)
	}
}

// lists maps the paths of lists to their tables.
var lists = map[string]string{
	"nodes": "nodes", "allocations": "allocs", "jobs": "jobs", "evaluations": "evals", "scaling/policies": "policies",
}

func missing(w http.ResponseWriter, r *http.Request) {
	http.Error(w, "no such endpoint in the stand-in: "+r.URL.Path, http.StatusNotFound)
}

// job answers what is below /v1/job/<id>.
func (c *Cluster) job(w http.ResponseWriter, r *http.Request, id string, rest []string) {
	if len(rest) == 3 && rest[2] == "tag" {
		c.putTag(w, r, id, rest[1])
		return
	}
	switch strings.Join(rest, "/") {
	case "":
		if r.Method == http.MethodDelete {
			c.Purge(id)
			_, _ = w.Write([]byte("{}")) // a reader that went away
			return
		}
		c.one(w, func() any {
			if j := c.jobs[id]; j != nil {
				return c.details(j)
			}
			return nil
		})
	case "allocations":
		c.one(w, func() any {
			out := []any{}
			for _, a := range c.byJob[id] {
				out = append(out, a.wire())
			}
			return out
		})
	case "scale":
		if r.Method != http.MethodGet {
			c.putScale(w, r, id)
			return
		}
		c.one(w, func() any {
			j := c.jobs[id]
			if j == nil {
				return nil
			}
			return api.JobScaleStatusResponse{JobID: j.ID, Namespace: "default", TaskGroups: map[string]api.TaskGroupScaleStatus{
				j.Group: {Desired: j.Count, Events: slices.Clone(c.scales[j.ID])},
			}}
		})
	case "summary":
		c.getSummary(w, r, id)
	case "versions":
		c.one(w, func() any { return c.versions(id) })
	default:
		missing(w, r)
	}
}

func (c *Cluster) one(w http.ResponseWriter, get func() any) {
	c.mu.Lock()
	v := get()
	text, err := json.Marshal(v)
	index := c.index
	c.mu.Unlock()
	switch {
	case v == nil:
		http.Error(w, "not found", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
		_, _ = w.Write(text) // a reader that went away
	}
}

// list answers a list, and waits for it to change where the query asks so.
func (c *Cluster) list(w http.ResponseWriter, r *http.Request, name string) {
	q := r.URL.Query()
	after, _ := strconv.ParseUint(q.Get("index"), 10, 64)
	wait, err := time.ParseDuration(q.Get("wait"))
	if err != nil {
		wait = 5 * time.Minute
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for expired := false; ; {
		c.mu.Lock()
		t, moved := c.tables[name], c.moved
		if after == 0 || t.index > after || expired {
			if t.text == nil {
				t.text = c.encode(name)
			}
			text, index := t.text, max(t.index, 1)
			c.mu.Unlock()
			w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
			_, _ = w.Write(text) // a reader that went away
			return
		}
		c.mu.Unlock()
		select {
		case <-moved:
		case <-timer.C:
			expired = true
		case <-r.Context().Done():
			return
		}
	}
}

func (c *Cluster) encode(name string) []byte {
	out := []any{}
	switch name {
	case "nodes":
		for _, id := range c.order {
			out = append(out, c.nodes[id].wire())
		}
	case "allocs":
		for _, a := range c.allocs {
			out = append(out, a.wire())
		}
	case "jobs":
		for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
			out = append(out, c.stub(c.jobs[id]))
		}
	case "evals":
		for _, e := range c.evals {
			if j := c.jobs[e.job]; j != nil {
				out = append(out, e.wire(j))
			}
		}
	case "policies":
		for _, j := range c.jobs {
			if j.Elastic != nil {
				out = append(out, map[string]any{"ID": j.ID, "Enabled": !j.Stop, "Type": "horizontal",
					"Target": map[string]string{"Namespace": "default", "Job": j.ID, "Group": j.Group}})
			}
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // a mistake in this package
	}
	return text
}

func (c *Cluster) putScale(w http.ResponseWriter, r *http.Request, id string) {
	var req api.ScalingRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	j, err := c.scale(id, &req)
	c.mu.Unlock()
	var stale conflict
	switch {
	case errors.As(err, &stale):
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err != nil && err.Error() == "job not found":
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		_, _ = fmt.Fprintf(w, `{"EvalID":"e","JobModifyIndex":%d}`, j.change) // a reader that went away
	}
}

// registrations are the instances of a service.
func (c *Cluster) registrations(name string) any {
	out := []any{}
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

// instance is the allocation that is registered at the i-th address of a job:
// its i-th worker, or one that is not there, for a job without as many.
func (c *Cluster) instance(j *Job, i int) string {
	if w := c.workers(j.ID); i < len(w) {
		return w[i].ID
	}
	return fmt.Sprintf("%s-at-%d", j.ID, i)
}

// allocation is an instance's allocation with the address that it holds; nil
// for none.
func (c *Cluster) allocation(id string) any {
	for _, j := range c.jobs {
		for i, at := range j.At {
			if c.instance(j, i) != id {
				continue
			}
			host, port, _ := net.SplitHostPort(at)
			n, _ := strconv.Atoi(port) // 0 is as good as any that is none
			return map[string]any{
				"ID": id, "Namespace": "default", "JobID": j.ID, "DesiredStatus": "run", "ClientStatus": "running",
				"AllocatedResources": map[string]any{"Shared": map[string]any{"Ports": []any{map[string]any{"Label": "kolo", "Value": n, "HostIP": host}}}},
			}
		}
	}
	return nil
}

// stream sends events as they happen, from now on.
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
