// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// reads follows a list until the context ends, and returns when each read began and
// with which index.
func reads(ctx context.Context, w *Watcher, list func(n int) error) (at []time.Duration, indices []uint64) {
	start := time.Now()
	_ = w.follow(ctx, "allocations", func(_ context.Context, index uint64) (uint64, error) { // the context's
		at, indices = append(at, time.Since(start)), append(indices, index)
		if err := list(len(at)); err != nil {
			return 0, err
		}
		return uint64(len(at)), nil
	})
	return at, indices
}

// TestFollow_AfterAPurge: Nomad may remove allocations of a purged job without an event. So
// lists are read at once after a purge, however long the previous read waited.
func TestFollow_AfterAPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(nil, 10*time.Minute, hclog.NewNullLogger())
		w.streaming.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		var purged time.Duration
		at, _ := reads(ctx, w, func(n int) error {
			switch n {
			case 1:
				time.Sleep(50 * time.Millisecond)
			case 2: // it waits for news
				time.Sleep(4 * time.Minute)
				time.AfterFunc(2*time.Minute, func() { w.eagerUntil.Store(time.Now().Add(eagerTime).UnixNano()) })
				purged = 2 * time.Minute
			case 3:
				cancel()
			}
			return nil
		})
		must.Len(t, 3, at)
		must.Less(t, purged+4*time.Minute+time.Second, at[2]-at[1])
	})
}

// TestFollow_OfABigCluster: if reading the lists takes long, they are read during at most
// half of the time, and still soon after a purge.
func TestFollow_OfABigCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cost = 5 * time.Second
		w := NewWatcher(nil, 10*time.Minute, hclog.NewNullLogger())
		w.streaming.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		at, _ := reads(ctx, w, func(n int) error {
			if n == 1 {
				time.AfterFunc(cost+time.Minute, func() { w.eagerUntil.Store(time.Now().Add(eagerTime).UnixNano()) })
			}
			if n == 2 {
				w.eagerUntil.Store(time.Now().Add(time.Hour).UnixNano()) // one purge after the other
			}
			time.Sleep(cost)
			return nil
		})
		must.LessEq(t, cost+time.Minute+time.Second, at[1])
		must.LessEq(t, int(time.Hour/(2*cost))+1, len(at))
	})
}

// TestFollow_WithoutEvents: after a read that waited for news, the next read follows at
// once, although reads have a cost.
func TestFollow_WithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(nil, 10*time.Minute, hclog.NewNullLogger())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		at, _ := reads(ctx, w, func(n int) error {
			time.Sleep(10 * time.Millisecond)
			switch n {
			case 2:
				time.Sleep(4 * time.Minute)
			case 3:
				cancel()
			}
			return nil
		})
		must.Less(t, 4*time.Minute+time.Second, at[2]-at[1])
	})
}

// TestFollow_KnowsWhatAReadCosts: a cluster that has grown is not read continuously.
func TestFollow_KnowsWhatAReadCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(nil, 10*time.Minute, hclog.NewNullLogger())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		at, _ := reads(ctx, w, func(n int) error {
			if n > 1 {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		late := 0
		for _, d := range at {
			if d > 2*time.Hour {
				late++
			}
		}
		must.LessEq(t, int(8*time.Hour/(10*time.Second))+1, late, must.Sprint("half of the time"))
	})
}

// TestFollow_AfterAnError: after an error, the next request does not wait for changes, so
// the autoscaler notices at once that Nomad answers again.
func TestFollow_AfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(nil, time.Minute, hclog.NewNullLogger())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, indices := reads(ctx, w, func(n int) error {
			switch n {
			case 2:
				return errors.New("connection refused")
			case 3:
				must.Error(t, w.Trouble())
			case 4:
				must.NoError(t, w.Trouble())
				cancel()
			}
			return nil
		})
		must.Eq(t, []uint64{0, 1, 0, 3}, indices)
	})
}
