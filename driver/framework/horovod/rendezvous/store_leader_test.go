// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// The leader gets one message when the last slot of a host has written, and
// its answer releases the mesh.
func TestStore_Leader(t *testing.T) {
	s := newStore(t, "h0", 2, 1)
	put(t, s, 1, "global", "1", "B")
	must.SliceEmpty(t, s.Outgoing())
	put(t, s, 0, "global", "0", "A")
	<-s.News()
	puts := []wire.Put{
		{Scope: "global", Key: "0", Value: []byte("A"), Size: 3},
		{Scope: "global", Key: "1", Value: []byte("B"), Size: 3},
	}
	must.Eq(t, puts, s.Outgoing())
	must.SliceEmpty(t, s.Outgoing())
	must.Eq(t, wire.Snapshot{Puts: puts}, s.Snapshot())
	must.Eq(t, "held", look(t, s, 0, "global", "1"))

	full := wire.Fill{Scope: "global", Complete: true, Values: values("0", "A", "1", "B", "2", "C")}
	must.NoError(t, s.Fill(full))
	must.Eq(t, "C", look(t, s, 0, "global", "2"))
	must.NoError(t, s.Fill(full)) // from the next leader
	must.Eq(t, wire.Snapshot{Puts: puts, Released: []string{"global"}}, s.Snapshot())

	// What is not about us, or no longer, is ignored.
	must.NoError(t, s.Fill(wire.Fill{Scope: "cross_7", Complete: true, Values: values("0", "x")}))
	must.NoError(t, s.Delete(0, "global", "0"))
	must.NoError(t, s.Delete(1, "global", "1"))
	must.NoError(t, s.Fill(full))
	must.Eq(t, wire.Snapshot{}, s.Snapshot())
}

func TestStore_FillRefused(t *testing.T) {
	cases := map[string]map[string][]byte{
		"another value of ours": values("0", "a", "1", "B", "2", "C"),
		"ours is missing":       values("1", "B", "2", "C"),
		"too few":               values("0", "A", "1", "B"),
		"too many":              values("0", "A", "1", "B", "2", "C", "3", "D"),
	}
	for name, v := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, "h0", 2, 1)
			put(t, s, 0, "global", "0", "A")
			put(t, s, 1, "global", "1", "B")
			must.Error(t, s.Fill(wire.Fill{Scope: "global", Complete: true, Values: v}))
			must.Eq(t, "held", look(t, s, 0, "global", "1"))
		})
	}
}

// A slot that died before its mesh was released can be started again.
func TestStore_Withdraw(t *testing.T) {
	t.Run("not sent", func(t *testing.T) {
		s := newStore(t, "h0", 2, 1)
		put(t, s, 0, "global", "0", "dead")
		puts, visible := s.Withdraw(0)
		must.False(t, visible)
		must.SliceEmpty(t, puts)
		must.False(t, s.Arrived(0))
		put(t, s, 1, "global", "1", "B")
		must.SliceEmpty(t, s.Outgoing())
		put(t, s, 0, "global", "0", "alive")
		must.Eq(t, "alive", string(s.Outgoing()[0].Value))
	})
	t.Run("sent", func(t *testing.T) {
		s := newStore(t, "h0", 2, 1)
		put(t, s, 0, "global", "0", "dead")
		put(t, s, 1, "global", "1", "B")
		must.Len(t, 2, s.Outgoing())
		puts, visible := s.Withdraw(0)
		must.False(t, visible)
		must.Eq(t, []wire.Put{{Scope: "global", Key: "0", Value: []byte("dead"), Size: 3}}, puts)
		must.Len(t, 1, s.Snapshot().Puts)
		put(t, s, 0, "global", "0", "alive")
		must.Eq(t, []wire.Put{{Scope: "global", Key: "0", Value: []byte("alive"), Size: 3}}, s.Outgoing())
	})
	t.Run("handed out but not fetched", func(t *testing.T) {
		s := newStore(t, "h0", 2, 1)
		put(t, s, 0, "global", "0", "dead")
		put(t, s, 1, "global", "1", "B")
		_, visible := s.Withdraw(0)
		must.False(t, visible)
		out := s.Outgoing()
		must.Len(t, 1, out)
		must.Eq(t, "1", out[0].Key)
	})
	t.Run("released", func(t *testing.T) {
		s := newStore(t, "h0", 2)
		put(t, s, 0, "global", "0", "A")
		put(t, s, 1, "global", "1", "B")
		puts, visible := s.Withdraw(0)
		must.True(t, visible)
		must.SliceEmpty(t, puts)
		must.Eq(t, "A", look(t, s, 1, "global", "0"))
	})
	t.Run("released and left", func(t *testing.T) {
		s := newStore(t, "h0", 2)
		put(t, s, 0, "global", "0", "A")
		put(t, s, 1, "global", "1", "B")
		must.NoError(t, s.Delete(0, "global", "0"))
		must.NoError(t, s.Delete(1, "global", "1"))
		_, visible := s.Withdraw(0)
		must.True(t, visible)
	})
	t.Run("alone", func(t *testing.T) {
		s := newStore(t, "h0", 1)
		put(t, s, 0, "global", "0", "")
		must.NoError(t, s.Delete(0, "global", "0"))
		put(t, s, 0, "local_h0", "0", "")
		_, visible := s.Withdraw(0)
		must.False(t, visible)
		put(t, s, 0, "global", "0", "")
		must.NoError(t, s.Delete(0, "global", "0"))
	})
	t.Run("not ours", func(t *testing.T) {
		_, visible := newStore(t, "h0", 1, 1).Withdraw(1)
		must.False(t, visible)
	})
}
