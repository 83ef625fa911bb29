// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import "slices"

// maxWaiters bounds the waits of one host's processes. A process has at most one for each
// of its connections.
const maxWaiters = 4096

// waiter waits until each of its keys has existed.
type waiter struct {
	keys    []string
	missing int
	least   int64         // the number that the key has to reach, for a barrier
	ready   chan struct{} // closed when no key is missing
}

// waiters are the waiters of one host, by key.
type waiters struct {
	byKey map[string][]*waiter
	count int
}

// add adds a waiter for the keys, none of which exists yet.
func (ws *waiters) add(least int64, keys ...string) *waiter {
	w := &waiter{keys: keys, missing: len(keys), least: least, ready: make(chan struct{})}
	for _, k := range keys {
		ws.byKey[k] = append(ws.byKey[k], w)
	}
	ws.count++
	return w
}

// value wakes the waiters for a key that now has a value, or this number.
func (ws *waiters) value(key string, number int64) {
	list := slices.DeleteFunc(ws.byKey[key], func(w *waiter) bool {
		if w.least > max(number, 0) {
			return false
		}
		ws.arrived(w)
		return true
	})
	ws.put(key, list)
}

// queued wakes the first waiter for a queue: one value is for one waiter.
func (ws *waiters) queued(key string) {
	list := ws.byKey[key]
	if i := slices.IndexFunc(list, func(w *waiter) bool { return w.least == 0 }); i >= 0 {
		ws.arrived(list[i])
		ws.put(key, slices.Delete(list, i, i+1))
	}
}

func (ws *waiters) arrived(w *waiter) {
	w.missing--
	if w.missing == 0 {
		ws.count--
		close(w.ready)
	}
}

// drop removes a waiter, and reports whether it was woken before.
func (ws *waiters) drop(w *waiter) (woken bool) {
	if w.missing == 0 {
		return true
	}
	ws.count--
	w.missing = 0
	for _, k := range w.keys {
		ws.put(k, slices.DeleteFunc(ws.byKey[k], func(o *waiter) bool { return o == w }))
	}
	return false
}

func (ws *waiters) put(key string, list []*waiter) {
	if len(list) == 0 {
		delete(ws.byKey, key)
	} else {
		ws.byKey[key] = list
	}
}
