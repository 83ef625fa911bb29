// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
)

// Token describes an ACL token or workload identity and its permissions.
type Token struct {
	Accessor, Name string
	// Workload makes the token the identity of a task, for which Nomad has no
	// accessor.
	Workload   bool
	Namespaces []string // whose jobs it may read
}

// DisableACL turns access control off: any token is accepted and proves nothing.
func (c *Cluster) DisableACL() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
}

// AddToken makes the cluster accept a token, which it recognizes by its secret.
// Until AddToken is first called, the cluster accepts every token, and every token
// may read the jobs of all namespaces.
func (c *Cluster) AddToken(secret string, t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens == nil {
		c.tokens = map[string]Token{}
	}
	c.tokens[secret] = t
}

// RevokeToken makes the cluster refuse a token from now on.
func (c *Cluster) RevokeToken(secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, secret)
}

// token returns the token of a request. The caller of this method holds c.mu.
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

// may reports whether the caller may read and scale the jobs of the request's
// namespace.
func (c *Cluster) may(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open || c.tokens == nil {
		return true
	}
	t, known := c.token(r)
	return known && slices.Contains(t.Namespaces, cmp.Or(r.URL.Query().Get("namespace"), "default"))
}

// selfToken answers like Nomad 1.11.3.
func (c *Cluster) selfToken(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, known := c.token(r)
	switch secret := r.Header.Get("X-Nomad-Token"); {
	case c.open:
		c.json(w, map[string]string{"AccessorID": "acls-disabled", "Name": "ACLs disabled token"})
	case secret == "":
		c.json(w, map[string]string{"AccessorID": "anonymous", "Name": "Anonymous Token"})
	case known && !t.Workload:
		c.json(w, map[string]string{"AccessorID": t.Accessor, "Name": t.Name})
	case known:
		http.Error(w, "ACL token not found", http.StatusNotFound)
	case !strings.Contains(secret, "-"):
		http.Error(w, "failed to parse signed token: compact JWS format must have three parts", http.StatusInternalServerError)
	default:
		http.Error(w, "Permission denied", http.StatusForbidden)
	}
}

// selfPolicies accepts any known token, including workload identities.
func (c *Cluster) selfPolicies(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.token(r); !known || c.open {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	c.json(w, nil)
}
