// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

const ttl = 15 * time.Second

// server is Nomad's side of the lock: it lets it go at 2×TTL plus the delay.
type server struct {
	mu     sync.Mutex
	holder string
	until  time.Time
	away   bool          // no answer
	slow   time.Duration // answers late
}

type client struct {
	*server
	name string
}

func (c client) Acquire(ctx context.Context) error {
	return c.do(ctx, func() error { return c.take(true) })
}
func (c client) Renew(ctx context.Context) error {
	return c.do(ctx, func() error { return c.take(false) })
}
func (c client) Release(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder == c.name {
		c.holder = ""
	}
	return nil
}

func (c client) take(fresh bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.holder != "" && time.Now().Before(c.until)
	if held && c.holder != c.name || !fresh && !held {
		return ErrConflict
	}
	c.holder, c.until = c.name, time.Now().Add(2*ttl+10*time.Second)
	return nil
}

func (c client) do(ctx context.Context, f func() error) error {
	c.mu.Lock()
	away, slow := c.away, c.slow
	c.mu.Unlock()
	if away {
		<-ctx.Done()
		return errors.New("no answer")
	}
	err := f()
	time.Sleep(slow)
	return err
}

func (s *server) set(f func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// run starts an elector; its work counts terms and ends with them.
func run(ctx context.Context, l Lock) (e *Elector, terms *atomic.Int64) {
	e, terms = New(l, ttl, hclog.NewNullLogger()), new(atomic.Int64)
	go e.Run(ctx, func(ctx context.Context) {
		terms.Add(1)
		<-ctx.Done()
	})
	return e, terms
}

func TestElector_OneOfTwoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{}
		a, _ := run(ctx, client{s, "a"})
		synctest.Wait()
		b, _ := run(ctx, client{s, "b"})
		for range 100 {
			time.Sleep(time.Second)
			must.NoError(t, a.Check())
			must.Error(t, b.Check())
		}
		cancel()
		synctest.Wait()
		must.Eq(t, "", s.holder) // given back
	})
}

func TestElector_FencesItselfBeforeTheLockCanBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &server{}
		a, terms := run(ctx, client{s, "a"})
		time.Sleep(time.Minute)
		must.NoError(t, a.Check())
		s.set(func(s *server) { s.away = true })
		lost := time.Now()
		for a.Check() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		must.LessEq(t, ttl+100*time.Millisecond, time.Since(lost))
		must.True(t, time.Now().Before(s.until), must.Sprint("gave up after another could lead"))

		// And when Nomad is back the autoscaler leads again, in a new term.
		s.set(func(s *server) { s.away, s.holder = false, "" })
		time.Sleep(ttl)
		must.NoError(t, a.Check())
		must.Eq(t, 2, terms.Load())
	})
}

func TestElector_ASlowAnswerProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &server{slow: 4 * time.Second}
		start := time.Now()
		a, _ := run(ctx, client{s, "a"})
		time.Sleep(5 * time.Second)
		must.NoError(t, a.Check())
		must.True(t, a.deadline.Equal(start.Add(ttl)))
	})
}

func TestElector_StopsWhenTheLockIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &server{}
		a, _ := run(ctx, client{s, "a"})
		time.Sleep(time.Second)
		s.set(func(s *server) { s.holder, s.until = "b", time.Now().Add(time.Hour) })
		time.Sleep(ttl / 3)
		must.ErrorIs(t, a.Check(), ErrNotLeading)
	})
}

// TestElector_TheLastWorkIsDoneAsTheLeader stops the process. It then saves its state while
// no other process can lead.
func TestElector_TheLastWorkIsDoneAsTheLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		taken bool          // by another, as the process is stopped
		takes time.Duration // the last work
		want  error
	}{
		"quickly":             {takes: time.Second},
		"longer than the TTL": {takes: time.Minute, want: ErrNotLeading},
		"the lock is lost":    {taken: true, takes: time.Second, want: ErrNotLeading},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := &server{slow: time.Millisecond}
				e := New(client{s, "a"}, ttl, hclog.NewNullLogger())
				var last error
				var holder string
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.Run(ctx, func(ctx context.Context) {
						<-ctx.Done()
						time.Sleep(tc.takes)
						last = e.Check()
						s.set(func(s *server) { holder = s.holder })
					})
				}()
				time.Sleep(ttl)
				if tc.taken {
					s.set(func(s *server) { s.holder, s.until = "b", time.Now().Add(time.Hour) })
					time.Sleep(3500 * time.Microsecond) // the third renewal is under way
				}
				cancel()
				<-done
				must.ErrorIs(t, last, tc.want)
				must.Error(t, e.Check())
				if !tc.taken {
					must.Eq(t, "a", holder, must.Sprint("given back before the work had ended"))
					must.Eq(t, "", s.holder)
				}
			})
		})
	}
}

func TestElector_WaitsForTheWorkOfTheLastTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &server{}
		e := New(client{s, "a"}, ttl, hclog.NewNullLogger())
		var running, most atomic.Int64
		go e.Run(ctx, func(ctx context.Context) {
			most.Store(max(most.Load(), running.Add(1)))
			<-ctx.Done()
			time.Sleep(time.Minute) // a write that takes its time
			running.Add(-1)
		})
		time.Sleep(time.Second)
		s.set(func(s *server) { s.holder, s.until = "b", time.Now().Add(20*time.Second) })
		time.Sleep(5 * time.Minute)
		must.Eq(t, 1, most.Load())
		must.NoError(t, e.Check())
		cancel()
		time.Sleep(2 * time.Minute)
		must.Eq(t, 0, running.Load())
	})
}
