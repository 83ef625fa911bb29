// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// rack returns the place of a new host. Some hosts are of an older version and report
// none; others know only a part of theirs.
func (w *world) rack() string {
	if !w.racks {
		return ""
	}
	return []string{"x/1", "x/2", "y/1", "y/1", "x", ""}[w.pick(6)]
}

// checkRacks fails if ranks leave a domain and come back to it. It leaves out hosts that
// have yet to register, whose place this leader does not know.
func (w *world) checkRacks(r *Ring) {
	var paths []string
	for i, m := range r.Members {
		if r.Replica > 0 && i%r.Replica > 0 {
			continue // a replica is where its first member is
		}
		if h := w.m.hosts[m.Proc.Slot.Host]; h != nil && h.registered && h.topology != "" {
			paths = append(paths, h.topology)
		}
	}
	if domain := leftAndEntered(paths); domain != "" {
		w.fail("ranks leave %q and come back: %q", domain, paths)
	}
}

// leftAndEntered returns a domain that the paths, in this order, enter twice, or "".
func leftAndEntered(paths []string) string {
	for _, depth := range []int{1, 2, 3} {
		left, present := map[string]bool{}, ""
		for _, path := range paths {
			names := append(strings.Split(path, "/"), "", "", "")[:depth]
			domain := strings.Join(names, "/")
			if left[domain] && domain != present {
				return domain
			}
			left[domain], present = true, domain
		}
	}
	return ""
}

func TestNeighbours(t *testing.T) {
	for name, c := range map[string]struct{ paths, want string }{
		"none":                               {"", ""},
		"one rack":                           {"r r r", "0 1 2"},
		"two racks that alternate":           {"r s r s", "0 2 1 3"},
		"racks of blocks":                    {"x/1 y/1 x/2 y/1 x/1", "0 4 2 1 3"},
		"racks of one name in two blocks":    {"x/1 y/1 x/1", "0 2 1"},
		"one that tells nothing stays":       {"r s - r s", "0 3 1 2 4"},
		"the first tells nothing":            {"- r s r", "0 1 3 2"},
		"uneven depth":                       {"x/1 x y x/1/a x", "0 3 1 4 2"},
		"the first is in no rack":            {"x x/1 x", "0 2 1"},
		"a name that is not known":           {"x/ x/1 x", "0 2 1"},
		"a name that begins as another does": {"r rr r", "0 2 1"},
	} {
		t.Run(name, func(t *testing.T) {
			paths := strings.Fields(c.paths)
			for i, p := range paths {
				paths[i] = strings.Trim(p, "-")
			}
			var got []string
			for _, i := range neighbours(paths) {
				got = append(got, string(rune('0'+i)))
			}
			must.Eq(t, c.want, strings.Join(got, " "))
		})
	}
}

// The order is a permutation that keeps the first path and makes domains contiguous.
// Ordering it again changes nothing. Removing a host does not change the order of the
// others, unless it was the first of its domain.
func TestNeighboursOfAnyPaths(t *testing.T) {
	names := []string{"", "x", "y", "x/1", "x/2", "y/1", "y/2/a", "y/2/b", "x/"}
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(list []string, order []int) []string {
		out := make([]string, len(order))
		for i, at := range order {
			out[i] = list[at]
		}
		return out
	}
	for range 5000 {
		paths := make([]string, 1+rng.IntN(12))
		for i := range paths {
			paths[i] = names[rng.IntN(len(names))]
		}
		order := neighbours(paths)
		must.Eq(t, 0, order[0])
		sorted := slices.Sorted(slices.Values(order))
		for i := range paths {
			must.Eq(t, i, sorted[i])
		}
		grouped := pick(paths, order)
		must.Eq(t, "", leftAndEntered(slices.DeleteFunc(slices.Clone(grouped), func(p string) bool { return p == "" })),
			must.Sprintf("%q -> %q", paths, grouped))
		for i, at := range neighbours(grouped) {
			must.Eq(t, i, at, must.Sprintf("%q -> %q, and again", paths, grouped))
		}
		if slices.Contains(paths, "") || len(paths) == 1 {
			continue
		}
		gone := 1 + rng.IntN(len(paths)-1) // of the current ring
		left := slices.Delete(slices.Clone(grouped), gone, gone+1)
		must.Eq(t, left, pick(left, neighbours(left)))
	}
}

func TestCheckTopology(t *testing.T) {
	for path, want := range map[string]string{
		"":                       "",
		"block 1/rack-2/ü":       "",
		"//":                     "",
		"a/b/c/d/e/f/g/h":        "",
		"a/b/c/d/e/f/g/h/i":      "at most 8 levels, has 9",
		strings.Repeat("a", 257): "at most 256 bytes, has 257",
		"a\nb":                   "printable",
		"a\xff":                  "printable",
		"a\u202eb":               "printable",
		"${meta.rack}":           "a variable that Nomad does not fill in",
	} {
		err := CheckTopology(path)
		if want == "" {
			must.NoError(t, err)
			continue
		}
		must.ErrorContains(t, err, want)
	}
}

// joinRacks adds hosts "name rack" with a slot each, in this order.
func (s *script) joinRacks(hosts ...string) {
	for _, h := range hosts {
		name, rack, _ := strings.Cut(h, " ")
		s.event(HostJoined{HostInfo{ID: HostID(name), Group: "g", Index: int(name[0] - 'a'), Topology: rack, Slots: make([]SlotReport, 1)}})
	}
}

func TestRanksFollowTheTopology(t *testing.T) {
	four := func(t *testing.T, o Options) *script {
		o.NP, o.MinNP, o.SlotRestarts = 4, 1, 2
		s := newScript(t, o)
		s.joinRacks("a r1", "b r2", "c r1", "d r2")
		s.wait(time.Second)
		s.expect("start a:0 0/4", "start c:0 1/4", "start b:0 2/4", "start d:0 3/4")
		s.arrive("a:0", "b:0", "c:0", "d:0")
		s.expect("form 1: a:0 c:0 b:0 d:0")
		s.up("a:0", "b:0", "c:0", "d:0")
		s.event(Trained{1})
		return s
	}
	t.Run("a host joins the rack in front", func(t *testing.T) {
		s := four(t, Options{})
		s.joinRacks("e r1")
		s.wait(time.Second)
		s.arrive("e:0")
		s.waiting("a:0", "b:0", "c:0", "d:0")
		s.expect("start e:0 2/5", "notify a:0", "form 2: a:0 c:0 e:0 b:0 d:0")
		s.up("a:0", "b:0", "c:0", "d:0", "e:0")
		s.wait(time.Minute)
		s.expect() // at rest
	})
	t.Run("the host with rank 0 dies", func(t *testing.T) {
		s := four(t, Options{})
		s.event(HostLost{"a"})
		s.waiting("b:0", "c:0", "d:0")
		s.expect("break 1", "form 2: c:0 b:0 d:0")
	})
	t.Run("the rack with rank 0 is lost", func(t *testing.T) {
		s := four(t, Options{})
		s.event(HostLost{"a"})
		s.event(HostLost{"c"})
		s.waiting("b:0", "d:0")
		s.expect("break 1", "form 2: b:0 d:0")
		s.joinRacks("e r1", "f r2")
		s.wait(time.Second)
		s.expect("start f:0 2/4", "start e:0 3/4")
	})
	t.Run("max_np keeps those that train", func(t *testing.T) {
		s := four(t, Options{MaxNP: 4})
		s.joinRacks("e r1")
		s.wait(time.Minute)
		s.expect()
	})
	t.Run("another leader keeps the order while hosts register", func(t *testing.T) {
		s := four(t, Options{})
		ring, racks := *s.m.Ring(), map[HostID]string{"a": "r1", "b": "r2", "c": "r1", "d": "r2"}
		s.m = New(patient(Options{NP: 4, MinNP: 1, SlotRestarts: 2}), 2)
		for _, id := range []HostID{"b", "d", "c", "a"} {
			s.event(HostJoined{HostInfo{ID: id, Group: "g", Ring: &ring, Topology: racks[id],
				Slots: []SlotReport{{State: InRing, Incarnation: 1, Generation: 1, SyncedSince: 1, Up: true, Notifiable: true}}}})
			s.wait(time.Minute)
		}
		s.did = slices.DeleteFunc(s.did, func(what string) bool { return what == "form 1: a:0 c:0 b:0 d:0" })
		s.expect()
	})
}

// If no host reports its place, ranks do not depend on topology.
func TestRanksWithoutTopology(t *testing.T) {
	s := newScript(t, Options{NP: 4, MinNP: 1})
	s.joinRacks("c", "a", "d", "b")
	s.wait(time.Second)
	s.expect("start a:0 0/4", "start b:0 1/4", "start c:0 2/4", "start d:0 3/4")
}

// The members of a replica send most of their data to each other, so they are in one rack
// if it has enough slots.
func TestReplicasFollowTheTopology(t *testing.T) {
	s := newScript(t, Options{NP: 4, MinNP: 2, Replica: 2, Framework: torch})
	s.joinRacks("a r1", "b r2", "c r1", "d r2")
	s.wait(time.Second)
	s.expect("start a:0 0/4", "start c:0 1/4", "start b:0 2/4", "start d:0 3/4")
}
