// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// scope is one mesh, or one user-made set of keys, of a Store.
type scope struct {
	// id is the name, with the round unless that is the first.
	id string
	// size is the number of members, 0 if not known; locals is how many of them are
	// on this host.
	size, locals int
	// private means that the scope concerns this host only.
	private bool

	// blobs are the values of number keys: local ones as they are written, and all
	// of them once released.
	blobs map[string][]byte
	// notes are all other values.
	notes map[string][]byte
	// owner is the local rank that wrote a blob.
	owner map[string]int
	// released means that all members' blobs are here and may be read.
	released bool
	// sent means that the blobs were handed out for the leader.
	sent bool
	// changed is closed, and replaced, when a reader may find more than before.
	changed chan struct{}
	// left are the local members that have deleted their blob.
	left map[int]bool
	// charged is the number of bytes that each local rank has stored here.
	charged map[int]int
}

func newScope(id string) *scope {
	return &scope{
		id:      id,
		blobs:   map[string][]byte{},
		notes:   map[string][]byte{},
		owner:   map[string]int{},
		left:    map[int]bool{},
		charged: map[int]int{},
		changed: make(chan struct{}),
	}
}

// wake makes all waiting readers look again.
func (c *scope) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// readable returns the value of key for a reader; wait means that it may yet
// arrive.
func (c *scope) readable(key string) (value []byte, found, wait bool) {
	if !isBlobKey(key) {
		value, found = c.notes[key]
		return value, found, false
	}
	if c.size == 0 {
		value, found = c.blobs[key]
		return value, found, !found
	}
	if !inMesh(key, c.size) {
		return nil, false, false
	}
	if !c.released {
		return nil, false, true
	}
	value, found = c.blobs[key]
	return value, found, false
}

// complete reports whether all local members of a known mesh have written.
func (c *scope) complete() bool { return c.size > 0 && len(c.owner) == c.locals }

// puts returns the local blobs, for the leader.
func (c *scope) puts() []wire.Put {
	out := make([]wire.Put, 0, len(c.owner))
	for _, key := range sortedKeys(c.owner) {
		out = append(out, wire.Put{Scope: c.id, Key: key, Value: c.blobs[key], Size: c.size})
	}
	return out
}

// agrees reports whether the leader's values equal the local blobs.
func (c *scope) agrees(values map[string][]byte) bool {
	for key := range c.owner {
		if v, ok := values[key]; !ok || !bytes.Equal(v, c.blobs[key]) {
			return false
		}
	}
	return true
}

// isBlobKey reports whether key is a member's number, as strconv writes it.
func isBlobKey(key string) bool {
	return key == "0" || key != "" && key[0] != '0' && strings.Trim(key, "0123456789") == ""
}

// inMesh reports whether key belongs to a member of a mesh of that size.
func inMesh(key string, size int) bool {
	n, err := strconv.Atoi(key)
	return err == nil && isBlobKey(key) && n < size
}

// splitSet splits a scope name at its process set. It returns the mesh's name and
// the set's hash, which is empty for a mesh without set.
func splitSet(name string) (mesh, set string) {
	if at := strings.LastIndex(name, infixSet); at >= 0 {
		return name[:at], name[at+len(infixSet):]
	}
	return name, ""
}

// roundID distinguishes scopes of one name. No scope name contains a slash.
func roundID(name string, round int) string {
	if round == 0 {
		return name
	}
	return name + "/" + strconv.Itoa(round)
}
