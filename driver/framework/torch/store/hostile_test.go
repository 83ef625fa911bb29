// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

// forgedHave claims what a host has applied.
func forgedHave(applied, own uint64) wire.Put {
	return wire.Put{Scope: "have", Key: strconv.FormatUint(applied, 10), Value: binary.AppendUvarint(nil, own), Size: 2}
}

// forgedLog claims that so many entries lie before an empty end of the log.
func forgedLog(before uint64) wire.Put {
	b := binary.AppendUvarint(nil, before+1)
	b = binary.AppendUvarint(b, before)
	return wire.Put{Scope: "log", Value: binary.AppendUvarint(b, 0), Size: 2}
}

// A host that sends a forged log neither ends the leader's agent, which would end each
// leader of the job in turn, nor takes the log from the other hosts.
func TestSequencer_ForgedLog(t *testing.T) {
	for name, takesOver := range map[string]bool{"in a session": false, "when a leader takes over": true} {
		for _, before := range []uint64{1, 100, math.MaxInt64, math.MaxUint64 - 1} {
			t.Run(name+strconv.FormatUint(before, 10), func(t *testing.T) {
				w := newWorld(1, 1, 1)
				if takesOver {
					w.sequencer.Expect(w.hosts)
				}
				w.join("h0")
				_, err := w.sequencer.Restore("h0", w.replicas["h0"].Snapshot())
				must.NoError(t, err)
				for _, have := range []uint64{0, before, math.MaxInt64} {
					_, _ = w.sequencer.Submit("h1", []wire.Put{forgedHave(min(have, math.MaxInt64), 0), forgedLog(before)})
				}
				_, err = w.sequencer.Restore("h0", w.replicas["h0"].Snapshot())
				must.NoError(t, err)
			})
		}
	}
}

// A host may send only operations of its own ranks: unknown ranks would have no bound, and
// other hosts' ranks would be charged.
func TestReplica_ForeignRanks(t *testing.T) {
	w := newWorld(1, 1, 1)
	w.join("h0")
	w.join("h1")
	must.NoError(t, w.settle())
	victim := w.replicas["h0"].Client(0)
	value := make([]byte, store.MaxValue-1024)
	seq := uint64(0)
	for _, rank := range []int{0, 0, 0, 7, 8, 9, 1 << 30} {
		seq++
		op := store.AppendOp(rank, store.Op{Kind: store.Set, Key: "k" + strconv.Itoa(rank), Value: value})
		fills, err := w.sequencer.Submit("h1", []wire.Put{{Scope: "op", Key: strconv.FormatUint(seq, 10), Value: op, Size: 2}})
		must.NoError(t, err)
		for _, f := range fills {
			if f.Hosts[0] == "h0" {
				must.NoError(t, w.fill("h0", f))
			}
		}
		_, err = w.carry("h0", 0)
		must.NoError(t, err)
		_, err = w.carry("h0", 1)
		must.NoError(t, err)
	}
	res, err := victim.Do(t.Context(), store.Op{Kind: store.NumKeys})
	must.NoError(t, err)
	must.Eq(t, 0, res.Number)
}

// The leader's memory does not grow with a host that sends on without waiting for answers.
func TestSequencer_Flood(t *testing.T) {
	w := newWorld(1, 1, 1)
	op := store.AppendOp(1, store.Op{Kind: store.Set, Key: "k", Value: make([]byte, store.MaxValue)})
	var refused error
	for seq := uint64(1); seq <= 100 && refused == nil; seq++ { // the same memory each time
		_, refused = w.sequencer.Submit("h1", []wire.Put{{Scope: "op", Key: strconv.FormatUint(seq, 10), Value: op, Size: 2}})
	}
	must.ErrorIs(t, refused, store.ErrTooMuch)
}

// A rank that lists many keys delays the others only briefly, because sorting does not hold
// the lock.
func TestReplica_ListOfManyKeys(t *testing.T) {
	const ranks, each = 4, 50000
	r, err := store.NewReplica("h0", ringOf(ranks))
	must.NoError(t, err)
	c := r.Client(0)
	for rank := range ranks {
		var pairs []store.Pair
		for i := range each {
			pairs = append(pairs, store.Pair{Key: strconv.Itoa((rank*each + i) * 7919 % (ranks * each))})
		}
		do(t, r.Client(rank), store.Op{Kind: store.MultiSet, Pairs: pairs})
	}
	share := math.Inf(1) // of the longest that another operation took
	for begun := time.Now(); share > 0.6 && time.Since(begun) < 30*time.Second; {
		listed := make(chan time.Duration)
		go func() {
			begun := time.Now()
			res := do(t, c, store.Op{Kind: store.ListKeys})
			took := time.Since(begun)
			must.True(t, slices.IsSorted(res.Keys))
			listed <- took
		}()
		longest, took := time.Duration(0), time.Duration(0)
		for took == 0 {
			select {
			case took = <-listed:
			default:
				begun := time.Now()
				do(t, r.Client(1), store.Op{Kind: store.Get, Key: "0"})
				longest = max(longest, time.Since(begun))
			}
		}
		share = min(share, longest.Seconds()/took.Seconds())
	}
	must.Less(t, 0.6, share)
}
