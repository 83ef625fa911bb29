// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
)

// Token is what a token is and may.
type Token struct {
	Accessor, Name string
	// Workload states that it is the identity of a task, which Nomad knows under
	// no accessor.
	Workload   bool
	Namespaces []string // whose jobs it may read
}

// DisableACL turns access control off: any token is accepted, and proves nothing.
func (c *Cluster) DisableACL() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
}

// AddToken makes a token known by its secret. Until the first, any is known,
// and may read the jobs of all namespaces.
func (c *Cluster) AddToken(secret string, t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens == nil {
		c.tokens = map[string]Token{}
	}
	c.tokens[secret] = t
}

// RevokeToken makes a token unknown.
func (c *Cluster) RevokeToken(secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, secret)
}

// token is the caller's. The caller of this method holds c.mu.
func (c *Cluster) token(r *http.Request) (t Token, known bool) {
	secret := r.Header.Get("X-Nomad-Token")
	if c.tokens != nil {
		t, known = c.tokens[secret]
		return t, known
	}
	h := fnv.New32a()
	h.Write([]byte(secret))
	return Token{Accessor: fmt.Sprintf("%08x-0000", h.Sum32()), Name: "any"}, secret != ""
}

// acl answers like Nomad 1.11.3.
func (c *Cluster) acl(w http.ResponseWriter, r *http.Request, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, known := c.token(r)
	switch {
	case path == "acl/token/self" && c.open:
		c.json(w, map[string]string{"AccessorID": "acls-disabled", "Name": "ACLs disabled token"})
	case path == "acl/token/self" && r.Header.Get("X-Nomad-Token") == "":
		c.json(w, map[string]string{"AccessorID": "anonymous", "Name": "Anonymous Token"})
	case path == "acl/token/self" && known && !t.Workload:
		c.json(w, map[string]string{"AccessorID": t.Accessor, "Name": t.Name})
	case path == "acl/token/self" && known:
		http.Error(w, "ACL token not found", http.StatusNotFound)
	case path == "acl/token/self" && !strings.Contains(r.Header.Get("X-Nomad-Token"), "-"):
		http.Error(w, "failed to parse signed token: compact JWS format must have three parts", http.StatusInternalServerError)
	case path == "acl/policy/self" && known && !c.open:
		c.json(w, nil)
	default:
		http.Error(w, "Permission denied", http.StatusForbidden)
	}
}

// getSummary answers those who may read a job.
func (c *Cluster) getSummary(w http.ResponseWriter, r *http.Request, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, known := c.token(r)
	switch {
	case !c.open && (!known || c.tokens != nil && !slices.Contains(t.Namespaces, r.URL.Query().Get("namespace"))):
		http.Error(w, "Permission denied", http.StatusForbidden)
	case c.jobs[id] == nil:
		http.Error(w, "job not found", http.StatusNotFound)
	default:
		c.json(w, c.summary(c.jobs[id]))
	}
}
