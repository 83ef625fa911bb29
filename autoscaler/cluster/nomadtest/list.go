// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// table is a list with its encoding and the index of its last change.
type table struct {
	index uint64
	items []json.RawMessage // the whole list at index; nil if it must be rebuilt
	text  []byte            // encoding of all items
}

// listed returns a handler for the pages of a list. It waits for a change if the query
// asks for that.
func (c *Cluster) listed(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if name == "evals" && q.Get("filter") != `Status == "blocked"` {
			http.Error(w, "the stand-in lists blocked evaluations only", http.StatusNotImplemented)
			return
		}
		items, text, index := c.await(r, name)
		if index == 0 {
			return // a reader that went away
		}
		if !here(r) {
			items, text = nil, []byte("[]")
		}
		from, _ := strconv.Atoi(q.Get("next_token")) // none is the first page
		if size, _ := strconv.Atoi(q.Get("per_page")); size > 0 && (from > 0 || size < len(items)) {
			to := min(from+size, len(items))
			if to < len(items) {
				w.Header().Set("X-Nomad-NextToken", strconv.Itoa(to))
			}
			text = join(items[min(from, to):to])
		}
		w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
		_, _ = w.Write(text) // a reader that went away
	}
}

// await returns a list once it has changed since the query's index, or the wait is
// over. An index of 0 means that the client has disconnected.
func (c *Cluster) await(r *http.Request, name string) (items []json.RawMessage, text []byte, index uint64) {
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
			if t.items == nil {
				t.items = c.items(name)
				t.text = join(t.items)
			}
			items, text, index = t.items, t.text, max(t.index, 1)
			c.mu.Unlock()
			return items, text, index
		}
		c.mu.Unlock()
		select {
		case <-moved:
		case <-timer.C:
			expired = true
		case <-r.Context().Done():
			return nil, nil, 0
		}
	}
}

func join(items []json.RawMessage) []byte {
	parts := make([][]byte, len(items))
	for i, item := range items {
		parts[i] = item
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

// items returns the objects of a list, ordered by ID as in Nomad: each page begins
// where the previous one ended. The caller holds c.mu.
func (c *Cluster) items(name string) []json.RawMessage {
	out := []json.RawMessage{}
	add := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // a mistake in this package
		}
		out = append(out, text)
	}
	switch name {
	case "nodes":
		for _, id := range c.order {
			add(c.nodes[id].wire())
		}
	case "allocs":
		for _, id := range slices.Sorted(maps.Keys(c.allocs)) {
			add(c.allocs[id].wire())
		}
	case "jobs":
		for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
			add(c.stub(c.jobs[id]))
		}
	case "evals":
		for _, id := range slices.Sorted(maps.Keys(c.evals)) {
			if c.jobs[id] != nil {
				add(c.evals[id].wire())
			}
		}
	case "namespaces":
		add(map[string]any{"Name": "default"})
	case "policies":
		for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
			j := c.jobs[id]
			for _, g := range j.groups() {
				if j.Elastic != nil {
					add(map[string]any{"ID": j.ID + "/" + g.Name, "Enabled": !j.Stop, "Type": "horizontal",
						"Target": map[string]string{"Namespace": "default", "Job": j.ID, "Group": g.Name}})
				}
			}
		}
	}
	return out
}
