// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

// seeds returns what a leader sends for some operations, and seedPuts what it receives.
func seeds(f *testing.F) (fills []wire.Fill, puts []wire.Put) {
	w := newWorld(1, 1, 1)
	w.join("h0")
	w.join("h1")
	must.NoError(f, w.settle())
	for n := range 20 {
		w.start(f.Context(), 0, w.randomOp(0, n))
	}
	puts = w.replicas["h0"].Outgoing()
	fills, err := w.sequencer.Submit("h0", puts)
	must.NoError(f, err)
	must.NoError(f, w.replicas["h0"].Fill(fills[0]))
	return fills, append(puts, w.replicas["h0"].Snapshot().Puts...)
}

// FuzzFill: whatever the leader sends, a replica applies it or returns an error, and
// continues.
func FuzzFill(f *testing.F) {
	fills, _ := seeds(f)
	for _, fill := range fills {
		f.Add(fill.Values["entries"])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := store.NewReplica("h0", ringOf(1, 1))
		must.NoError(t, err)
		fill := wire.Fill{Scope: "log", Values: map[string][]byte{"entries": b}}
		before := r.Applied()
		err = r.Fill(fill)
		must.GreaterEq(t, before, r.Applied())
		if err == nil {
			must.NoError(t, r.Fill(fill)) // again changes nothing
		}
		must.LessEq(t, len(b), int(r.Applied()))
		r.Snapshot()
		r.Outgoing()
	})
}

// FuzzPut: whatever a host sends, the leader accepts it or returns an error. The leader's
// output can be applied by a host that has not sent anything like that.
func FuzzPut(f *testing.F) {
	_, puts := seeds(f)
	for _, p := range puts {
		f.Add(p.Scope, p.Key, p.Value, p.Size, false)
		f.Add(p.Scope, p.Key, p.Value, p.Size, true)
	}
	f.Fuzz(func(t *testing.T, scope, key string, value []byte, size int, takeOver bool) {
		w := newWorld(1, 1, 1)
		if takeOver {
			w.sequencer.Expect(w.hosts)
		}
		put := wire.Put{Scope: scope, Key: key, Value: value, Size: size}
		_, err := w.sequencer.Restore("h0", wire.Snapshot{Puts: []wire.Put{put}})
		if err == nil {
			_, _ = w.sequencer.Submit("h0", []wire.Put{put, put})
		}
		w.join("h1")
		fills, _ := w.sequencer.Submit("h1", w.replicas["h1"].Outgoing())
		for _, fill := range fills {
			_, err := store.Entries(fill)
			_ = err // an operation may be malformed: hosts apply it as one that fails
			if !takeOver && scope != "log" {
				must.NoError(t, w.replicas["h1"].Fill(fill))
			}
		}
	})
}
