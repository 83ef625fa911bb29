// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

// variable is a Nomad variable with its lock.
type variable struct {
	items api.VariableItems
	index uint64 // of the last change
	lock  string // id of the lock, "" is free
	until time.Time
	ttl   time.Duration
	delay time.Duration
}

// held reports whether the lock still excludes others. Nomad waits twice the TTL,
// then the lock delay.
func (v *variable) held(now time.Time) bool {
	return v.lock != "" && now.Before(v.until.Add(v.ttl+v.delay))
}

// Deny makes the cluster refuse all requests for variables that are sent with this
// token.
func (c *Cluster) Deny(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = token
}

// awaitVariable waits for a variable to change if the query asks for it.
func (c *Cluster) awaitVariable(r *http.Request, path string) {
	after, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	for after > 0 {
		c.mu.Lock()
		v, changed := c.vars[path], c.varsMoved
		newer := v != nil && v.index > after
		c.mu.Unlock()
		if newer {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// varsChanged wakes the queries that wait for a variable. The caller holds c.mu.
func (c *Cluster) varsChanged() {
	close(c.varsMoved)
	c.varsMoved = make(chan struct{})
}

// mostItems bounds the names and values of a variable, in bytes.
const mostItems = 64 << 10

func (c *Cluster) variables(w http.ResponseWriter, r *http.Request) {
	path := r.PathValue("path")
	if r.Method == http.MethodGet {
		c.awaitVariable(r, path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied != "" && r.Header.Get("X-Nomad-Token") == c.denied {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	switch {
	case r.URL.Path == "/v1/vars":
		c.listVariables(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodGet:
		c.getVariable(w, path)
	case r.Method == http.MethodDelete:
		delete(c.vars, path)
	default:
		c.putVariable(w, r, path)
	}
}

func (c *Cluster) listVariables(w http.ResponseWriter, prefix string) {
	out := []any{}
	for p := range c.vars {
		if strings.HasPrefix(p, prefix) {
			out = append(out, map[string]any{"Namespace": "default", "Path": p})
		}
	}
	c.json(w, out)
}

func (c *Cluster) getVariable(w http.ResponseWriter, path string) {
	v := c.vars[path]
	if v == nil {
		w.Header().Set("X-Nomad-Index", "1")
		http.Error(w, "variable not found", http.StatusNotFound)
		return
	}
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(max(1, v.index), 10))
	out := v.wire(path)
	delete(out, "Lock") // Nomad shows it to management tokens only
	c.json(w, out)
}

func (c *Cluster) putVariable(w http.ResponseWriter, r *http.Request, path string) {
	var in api.Variable
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	size := 0
	for name, value := range in.Items {
		size += len(name) + len(value)
	}
	if size > mostItems {
		http.Error(w, "variables are limited to 64KiB in total size", http.StatusBadRequest)
		return
	}
	q, v := r.URL.Query(), c.vars[path]
	stale := v != nil && q.Get("cas") != strconv.FormatUint(v.index, 10) || v == nil && q.Get("cas") != "0"
	if v == nil {
		v = &variable{}
	}
	if q.Has("cas") && stale {
		w.WriteHeader(http.StatusConflict)
		c.json(w, v.wire(path))
		return
	}
	c.vars[path] = v
	if code, why := c.change(v, q, &in); code != http.StatusOK {
		http.Error(w, why, code)
		return
	}
	c.json(w, v.wire(path))
}

// change writes a variable, or performs the lock operation of the query.
func (c *Cluster) change(v *variable, q url.Values, in *api.Variable) (code int, why string) {
	now := time.Now()
	switch {
	case q.Has("lock-acquire"):
		if v.held(now) {
			return http.StatusConflict, "lock is held"
		}
		v.ttl, _ = time.ParseDuration(in.Lock.TTL)
		v.delay, _ = time.ParseDuration(in.Lock.LockDelay)
		v.lock, v.until, v.items = fmt.Sprint("lock-", now.UnixNano()), now.Add(v.ttl), in.Items
	case q.Has("lock-release") && len(in.Items) > 0:
		return http.StatusBadRequest, "lock release operation doesn't take variable items"
	case q.Has("lock-renew"), q.Has("lock-release"):
		if v.lock == "" || v.lock != in.Lock.ID || !v.held(now) {
			return http.StatusConflict, "conflict"
		}
		v.until = now.Add(v.ttl)
		if q.Has("lock-release") {
			v.lock = ""
		}
	case v.held(now) && (in.Lock == nil || in.Lock.ID != v.lock):
		return http.StatusConflict, "attempting to modify locked variable"
	default:
		c.index++
		v.items, v.index = in.Items, c.index
		c.varsChanged()
	}
	return http.StatusOK, ""
}

func (v *variable) wire(path string) map[string]any {
	out := map[string]any{"Namespace": "default", "Path": path, "Items": v.items, "ModifyIndex": v.index}
	if v.lock != "" {
		out["Lock"] = map[string]any{"ID": v.lock, "TTL": v.ttl.String(), "LockDelay": v.delay.String()}
	}
	return out
}

func (c *Cluster) json(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err) // a mistake in this package
	}
}

// ExpireLock frees the leader's lock, as if its holder had stopped renewing it.
func (c *Cluster) ExpireLock(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.vars[path]; v != nil {
		v.lock = ""
	}
}

// EditVariable changes the items of a variable, regardless of its lock.
func (c *Cluster) EditVariable(path string, edit func(items map[string]string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.vars[path]; v != nil {
		c.index++
		v.items, v.index = maps.Clone(v.items), c.index
		edit(v.items)
		c.varsChanged()
	}
}
