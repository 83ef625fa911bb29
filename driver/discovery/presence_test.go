// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package discovery

import (
	"context"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// views is a registry whose answers a test chooses.
type views struct {
	next  registry.View
	reads int
}

func (v *views) Watch(context.Context) <-chan registry.View { return nil }

func (v *views) Read(context.Context) registry.View {
	v.reads++
	return v.next
}

func TestPresence(t *testing.T) {
	t0 := testNow
	const window = time.Minute
	named := func(at time.Duration, allocs ...string) registry.View {
		v := registry.View{At: t0.Add(at)}
		for _, a := range allocs {
			v.Peers = append(v.Peers, registry.Peer{AllocID: a})
		}
		return v
	}
	own := func(issued time.Duration) Identity {
		return Identity{AllocID: "b", JobID: "train", Issued: t0.Add(issued)}
	}
	for name, tc := range map[string]struct {
		before    []registry.View // taken from the watch
		now       registry.View   // read when the peer calls
		id        Identity
		job       string
		departing bool
		err       error
	}{
		"named":                        {now: named(0, "a", "b"), id: own(-time.Hour)},
		"ended long ago":               {before: []registry.View{named(-time.Hour, "a")}, now: named(0, "a"), id: own(-2 * time.Hour), err: ErrNotLive},
		"ended, named by an old view":  {before: []registry.View{named(-2*time.Hour, "a", "b"), named(-time.Hour, "a")}, now: named(0, "a"), id: own(-3 * time.Hour), err: ErrNotLive},
		"leaving":                      {before: []registry.View{named(-30*time.Second, "a", "b"), named(-time.Second, "a")}, now: named(0, "a"), id: own(-time.Hour), departing: true},
		"leaving for too long":         {before: []registry.View{named(-time.Hour, "a", "b")}, now: named(0, "a"), id: own(-2 * time.Hour), err: ErrNotLive},
		"leaving when this agent came": {before: []registry.View{named(-30*time.Second, "a")}, now: named(0, "a"), id: own(-time.Hour), departing: true},
		"signed just now":              {before: []registry.View{named(-time.Hour, "a")}, now: named(0, "a"), id: own(-10 * time.Second), departing: true},
		"registry away, named before":  {before: []registry.View{named(-time.Hour, "a", "b")}, now: registry.View{Err: nomadapi.ErrUnreachable}, id: own(-2 * time.Hour)},
		"registry away, unheard of":    {before: []registry.View{named(-time.Hour, "a")}, now: registry.View{Err: nomadapi.ErrUnreachable}, id: own(-time.Minute)},
		"registry away, ended before":  {before: []registry.View{named(-2*time.Hour, "a"), named(-time.Hour, "a")}, now: registry.View{Err: nomadapi.ErrUnreachable}, id: own(-3 * time.Hour), err: ErrNotLive},
		// Of a dispatched job: the identity names the parent.
		"dispatched, named":   {job: "train/dispatch-1", now: named(0, "b"), id: own(-time.Hour)},
		"dispatched, leaving": {job: "train/dispatch-1", before: []registry.View{named(-30*time.Second, "b"), named(-time.Second)}, now: named(0), id: own(-time.Hour), departing: true},
		"a sibling's":         {job: "train/dispatch-1", before: []registry.View{named(-30*time.Second, "a")}, now: named(0, "a"), id: own(-time.Second), err: ErrNotLive},
		"no view at all":      {job: "train/dispatch-1", now: registry.View{Err: nomadapi.ErrUnreachable}, id: own(-time.Second), err: ErrNotLive},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.job == "" {
				tc.job = "train"
			}
			reg := &views{next: tc.now}
			p := NewPresence(reg, tc.job, window)
			p.now = func() time.Time { return t0.Add(-time.Millisecond) }
			for _, v := range tc.before {
				p.take(v)
			}
			err := p.Check(t.Context(), tc.id)
			if tc.err != nil {
				must.ErrorIs(t, err, tc.err)
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.departing, p.departing(t.Context(), tc.id.AllocID))
		})
	}
}

// TestPresence_reads: the registry is read for an allocation only if the newest
// view does not list it or is old, and never while the watch gets no answer.
func TestPresence_reads(t *testing.T) {
	reg := &views{next: registry.View{At: testNow, Peers: []registry.Peer{{AllocID: "b"}}}}
	p := NewPresence(reg, "train", time.Minute)
	now := testNow.Add(-time.Second)
	p.now = func() time.Time { return now }
	check := func() {
		must.NoError(t, p.Check(t.Context(), Identity{AllocID: "b", JobID: "train"}))
	}
	check()
	check()
	must.Eq(t, 1, reg.reads)
	now = testNow.Add(2 * time.Minute)
	reg.next.At = testNow.Add(3 * time.Minute)
	check()
	must.Eq(t, 2, reg.reads)
	now = testNow.Add(4 * time.Minute)
	must.ErrorIs(t, p.Check(t.Context(), Identity{AllocID: "c", JobID: "train"}), ErrNotLive)
	must.Eq(t, 3, reg.reads)
	now = testNow.Add(time.Hour)
	p.take(registry.View{Err: nomadapi.ErrUnreachable})
	check()
	must.Eq(t, 3, reg.reads)
}

func TestPresence_renewable(t *testing.T) {
	p := NewPresence(&views{}, "train", time.Minute)
	now := testNow
	p.now = func() time.Time { return now }
	must.True(t, p.renewable())
	p.take(registry.View{Err: nomadapi.ErrUnreachable})
	must.False(t, p.renewable())
	now = now.Add(time.Hour)
	must.False(t, p.renewable())
	p.take(registry.View{Err: nomadapi.ErrUnreachable})
	p.take(registry.View{At: now})
	must.False(t, p.renewable(), must.Sprint("identities are not renewed at once"))
	now = now.Add(time.Hour)
	must.False(t, p.renewable(), must.Sprint("Nomad's client may pause for an hour"))
	now = now.Add(renewalGrace + time.Second)
	must.True(t, p.renewable())
}

// TestPresence_renewable_afterOutages: Nomad's client tries again after 20 s, 40 s,
// 80 s and so on. So after an outage, peers may lack new identities for as long as
// the outage lasted.
func TestPresence_renewable_afterOutages(t *testing.T) {
	const good, bad = true, false
	type step struct {
		after time.Duration
		ok    bool
	}
	for name, tc := range map[string]struct {
		steps []step        // each a view, so long after the one before
		grace time.Duration // from the last view on
	}{
		"short":          {[]step{{0, bad}, {4 * time.Second, good}}, renewalGrace + 4*time.Second},
		"five minutes":   {[]step{{0, bad}, {time.Minute, bad}, {4 * time.Minute, good}}, renewalGrace + 5*time.Minute},
		"a day":          {[]step{{0, bad}, {24 * time.Hour, good}}, renewalGrace + time.Hour},
		"flapping":       {[]step{{0, bad}, {4 * time.Minute, good}, {time.Minute, bad}, {time.Minute, good}}, renewalGrace + 6*time.Minute},
		"once more":      {[]step{{0, bad}, {30 * time.Minute, good}, {10 * time.Minute, bad}, {time.Minute, good}}, renewalGrace + 19*time.Minute},
		"long after one": {[]step{{0, bad}, {10 * time.Minute, good}, {time.Hour, bad}, {time.Second, good}}, renewalGrace + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPresence(&views{}, "train", time.Minute)
			now := testNow
			p.now = func() time.Time { return now }
			for _, s := range tc.steps {
				now = now.Add(s.after)
				v := registry.View{At: now}
				if !s.ok {
					v = registry.View{Err: nomadapi.ErrUnreachable}
				}
				p.take(v)
				must.False(t, p.renewable())
			}
			now = now.Add(tc.grace)
			must.False(t, p.renewable())
			now = now.Add(time.Second)
			must.True(t, p.renewable())
		})
	}
}

// TestPresence_departing: a connection's permissions change with the registry. A
// registry that is slow or unreachable counts against no peer.
func TestPresence_departing(t *testing.T) {
	reg := &views{next: registry.View{At: testNow, Peers: []registry.Peer{{AllocID: "a"}}}}
	p := NewPresence(reg, "train", time.Minute)
	now := testNow.Add(-time.Second)
	p.now = func() time.Time { return now }
	must.True(t, p.departing(t.Context(), "b"))
	must.False(t, p.departing(t.Context(), "a"))
	now = testNow.Add(time.Second)
	reg.next = registry.View{Err: nomadapi.ErrUnreachable}
	must.False(t, p.departing(t.Context(), "b"), must.Sprint("the view is older than the question"))
	reg.next = registry.View{At: testNow.Add(time.Minute), Peers: []registry.Peer{{AllocID: "b"}}}
	must.False(t, p.departing(t.Context(), "b"), must.Sprint("it has come meanwhile"))
	must.Eq(t, 3, reg.reads)
	now = testNow.Add(time.Hour)
	p.take(registry.View{Err: nomadapi.ErrUnreachable})
	must.False(t, p.departing(t.Context(), "c"))
	must.Eq(t, 3, reg.reads)
}
