// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

func blob(scope, key, value string, size int) wire.Put {
	return wire.Put{Scope: scope, Key: key, Value: []byte(value), Size: size}
}

func submit(t *testing.T, c *rendezvous.Collector, host string, puts ...wire.Put) []wire.Fill {
	t.Helper()
	fills, err := c.Submit(host, puts)
	must.NoError(t, err)
	return fills
}

func TestCollector_Completes(t *testing.T) {
	c := rendezvous.NewCollector()
	must.SliceEmpty(t, submit(t, c, "b", blob("global", "2", "C", 3)))
	full := wire.Fill{Scope: "global", Complete: true, Values: values("0", "A", "1", "B", "2", "C"), Hosts: []string{"a", "b"}}
	must.Eq(t, []wire.Fill{full}, submit(t, c, "a", blob("global", "0", "A", 3), blob("global", "1", "B", 3)))

	// Sent again, it is given again to that host only.
	full.Hosts = []string{"b"}
	must.Eq(t, []wire.Fill{full}, submit(t, c, "b", blob("global", "2", "C", 3)))

	// Another value for a blob that was given out is the end of the ring.
	_, err := c.Submit("b", []wire.Put{blob("global", "2", "c", 3)})
	must.ErrorIs(t, err, rendezvous.ErrConflict)

	// Once all are up no one needs the values.
	c.Connected()
	must.SliceEmpty(t, submit(t, c, "b", blob("global", "2", "C", 3)))
}

func TestCollector_SeveralAtOnce(t *testing.T) {
	c := rendezvous.NewCollector()
	submit(t, c, "a", blob("cross_0", "0", "A0", 2), blob("cross_1", "0", "A1", 2))
	fills := submit(t, c, "b", blob("cross_1", "1", "B1", 2), blob("cross_0", "1", "B0", 2))
	must.Len(t, 2, fills)
	must.Eq(t, "cross_1", fills[0].Scope)
	must.Eq(t, values("0", "A0", "1", "B0"), fills[1].Values)
}

func TestCollector_Refuses(t *testing.T) {
	cases := map[string]wire.Put{
		"another size":    blob("global", "1", "B", 3),
		"size not known":  blob("global", "1", "B", 0),
		"not a member":    blob("global", "2", "C", 2),
		"not a number":    blob("global", "rank_0", "vm", 2),
		"number in words": blob("global", "01", "B", 2),
		"negative":        blob("global", "-1", "B", 2),
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			c := rendezvous.NewCollector()
			submit(t, c, "a", blob("global", "0", "A", 2))
			// The good one after it is still taken.
			fills, err := c.Submit("b", []wire.Put{p, blob("global", "1", "B", 2)})
			must.ErrorContains(t, err, "from host b")
			must.Len(t, 1, fills)
		})
	}
}

func TestCollector_UserSets(t *testing.T) {
	c := rendezvous.NewCollector()
	must.Eq(t, []wire.Fill{{Scope: "s", Values: values("0", "A", "word", "W")}},
		submit(t, c, "a", blob("s", "0", "A", 0), blob("s", "word", "W", 0)))
	must.Eq(t, []wire.Fill{{Scope: "s", Values: values("1", "B")}}, submit(t, c, "b", blob("s", "1", "B", 0)))
	// Sent again: all there is, for that host.
	must.Eq(t, []wire.Fill{{Scope: "s", Values: values("0", "A", "1", "B", "word", "W"), Hosts: []string{"a"}}},
		submit(t, c, "a", blob("s", "0", "A", 0)))
	// A value that changes is given to all.
	must.Eq(t, []wire.Fill{{Scope: "s", Values: values("word", "V")}}, submit(t, c, "b", blob("s", "word", "V", 0)))
}

func TestCollector_Withdraw(t *testing.T) {
	dead := blob("global", "0", "dead", 2)
	t.Run("in time", func(t *testing.T) {
		c := rendezvous.NewCollector()
		submit(t, c, "a", dead)
		must.False(t, c.Withdraw([]wire.Put{dead, blob("never-seen", "0", "", 2)}))
		must.SliceEmpty(t, submit(t, c, "b", blob("global", "1", "B", 2)))
		must.Eq(t, values("0", "alive", "1", "B"), submit(t, c, "a", blob("global", "0", "alive", 2))[0].Values)
	})
	t.Run("too late", func(t *testing.T) {
		c := rendezvous.NewCollector()
		other := blob("cross_0", "0", "X", 2)
		submit(t, c, "a", dead, other)
		submit(t, c, "b", blob("global", "1", "B", 2))
		must.True(t, c.Withdraw([]wire.Put{other, dead}))
		// Nothing was withdrawn.
		must.Len(t, 1, submit(t, c, "b", blob("cross_0", "1", "Y", 2)))
	})
	t.Run("given out by the leader before", func(t *testing.T) {
		c := rendezvous.NewCollector()
		_, err := c.Restore("b", wire.Snapshot{Puts: []wire.Put{blob("global", "1", "B", 2)}, Released: []string{"global"}})
		must.NoError(t, err)
		must.True(t, c.Withdraw([]wire.Put{dead}))
	})
	t.Run("before all hosts are restored at a new leader", func(t *testing.T) {
		c := rendezvous.NewCollector()
		c.Expect([]string{"a", "b"})
		must.False(t, c.Withdraw(nil))
		for _, host := range []string{"a", "b"} {
			must.True(t, c.Withdraw([]wire.Put{dead}))
			_, err := c.Restore(host, wire.Snapshot{})
			must.NoError(t, err)
		}
		must.False(t, c.Withdraw([]wire.Put{dead}))
	})
	t.Run("user set", func(t *testing.T) {
		c := rendezvous.NewCollector()
		p := blob("s", "0", "A", 0)
		must.False(t, c.Withdraw([]wire.Put{p}))
		submit(t, c, "a", p)
		must.True(t, c.Withdraw([]wire.Put{p}))
	})
}

// Once all agents have reported to a new leader, it can continue a generation.
func TestCollector_Restore(t *testing.T) {
	c := rendezvous.NewCollector()
	fills, err := c.Restore("a", wire.Snapshot{
		Puts:     []wire.Put{blob("global", "0", "A", 2), blob("s", "0", "X", 0)},
		Released: []string{"global"},
	})
	must.NoError(t, err)
	must.Eq(t, []wire.Fill{{Scope: "s", Values: values("0", "X")}, {Scope: "s", Values: values("0", "X"), Hosts: []string{"a"}}}, fills)
	fills, err = c.Restore("b", wire.Snapshot{Puts: []wire.Put{blob("global", "1", "B", 2)}})
	must.NoError(t, err)
	must.Eq(t, []wire.Fill{
		{Scope: "global", Complete: true, Values: values("0", "A", "1", "B"), Hosts: []string{"a", "b"}},
		{Scope: "s", Values: values("0", "X"), Hosts: []string{"b"}},
	}, fills)
}
