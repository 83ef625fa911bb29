// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

// alone returns a store that only one process uses.
func alone(t *testing.T) (*store.Replica, *store.Client) {
	t.Helper()
	r, err := store.NewReplica("h0", ringOf(1))
	must.NoError(t, err)
	return r, r.Client(0)
}

func do(t *testing.T, c *store.Client, op store.Op) store.Result {
	t.Helper()
	res, err := c.Do(t.Context(), op)
	must.NoError(t, err)
	return res
}

// Operations have the same effects as in PyTorch, even the odd ones.
func TestOperations(t *testing.T) {
	set := func(key, value string) store.Op { return store.Op{Kind: store.Set, Key: key, Value: []byte(value)} }
	for name, tc := range map[string]struct {
		before []store.Op
		op     store.Op
		want   store.Result
		err    error
		values map[string]string
	}{
		"compare_set of the value": {
			before: []store.Op{set("k", "old")},
			op:     store.Op{Kind: store.CompareSet, Key: "k", Expected: []byte("old"), Value: []byte("new")},
			want:   store.Result{Value: []byte("new")}, values: map[string]string{"k": "new"},
		},
		"compare_set of another": {
			before: []store.Op{set("k", "old")},
			op:     store.Op{Kind: store.CompareSet, Key: "k", Expected: []byte("other"), Value: []byte("new")},
			want:   store.Result{Value: []byte("old")}, values: map[string]string{"k": "old"},
		},
		"compare_set of none": {
			op:   store.Op{Kind: store.CompareSet, Key: "k", Value: []byte("new")},
			want: store.Result{Value: []byte("new")}, values: map[string]string{"k": "new"},
		},
		"compare_set expects a value where none is": {
			op:   store.Op{Kind: store.CompareSet, Key: "k", Expected: []byte("old"), Value: []byte("new")},
			want: store.Result{Value: []byte("old")}, values: map[string]string{},
		},
		"add to none":   {op: store.Op{Kind: store.Add, Key: "n", Number: -2}, want: store.Result{Number: -2}, values: map[string]string{"n": "-2"}},
		"add to number": {before: []store.Op{set("n", " 40x")}, op: store.Op{Kind: store.Add, Key: "n", Number: 2}, want: store.Result{Number: 42}, values: map[string]string{"n": "42"}},
		"add to text":   {before: []store.Op{set("n", "x")}, op: store.Op{Kind: store.Add, Key: "n", Number: 2}, err: store.ErrNumber, values: map[string]string{"n": "x"}},
		"add too much": {before: []store.Op{set("n", "9223372036854775807")}, op: store.Op{Kind: store.Add, Key: "n", Number: 1},
			err: store.ErrNumber, values: map[string]string{"n": "9223372036854775807"}},
		"append to none": {op: store.Op{Kind: store.Append, Key: "k", Value: []byte("a")}, values: map[string]string{"k": "a"}},
		"append":         {before: []store.Op{set("k", "a")}, op: store.Op{Kind: store.Append, Key: "k", Value: []byte("b")}, values: map[string]string{"k": "ab"}},
		"delete":         {before: []store.Op{set("k", "a")}, op: store.Op{Kind: store.Delete, Key: "k"}, want: store.Result{Number: 1}, values: map[string]string{}},
		"delete none":    {op: store.Op{Kind: store.Delete, Key: "k"}, values: map[string]string{}},
		"multi_set": {op: store.Op{Kind: store.MultiSet, Pairs: []store.Pair{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}},
			values: map[string]string{"a": "1", "b": "2"}},
		"pop of none": {op: store.Op{Kind: store.Pop, Key: "q"}, values: map[string]string{}},
		"pop": {before: []store.Op{{Kind: store.Push, Key: "q", Value: []byte("1")}, {Kind: store.Push, Key: "q", Value: []byte("2")}},
			op: store.Op{Kind: store.Pop, Key: "q"}, want: store.Result{Number: 2, Value: []byte("1")}, values: map[string]string{}},
		"check": {before: []store.Op{set("k", ""), {Kind: store.Push, Key: "q"}}, op: store.Op{Kind: store.Check, Keys: []string{"k", "q"}},
			want: store.Result{Number: 1}, values: map[string]string{"k": ""}},
		"check of one that is not": {before: []store.Op{set("k", "")}, op: store.Op{Kind: store.Check, Keys: []string{"k", "q"}}, values: map[string]string{"k": ""}},
		"unknown":                  {op: store.Op{Kind: 99}, err: store.ErrUnknown, values: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := alone(t)
			for _, op := range tc.before {
				do(t, c, op)
			}
			got, err := c.Do(t.Context(), tc.op)
			must.ErrorIs(t, err, tc.err)
			must.Eq(t, tc.want, got)
			values := contents(t, c)
			delete(values, "queue")
			must.Eq(t, tc.values, values)
		})
	}
}

// No rank exceeds the bounds, and freed space can be used again.
func TestBounds(t *testing.T) {
	w := newWorld(1, 2, 1)
	w.join("h0")
	w.join("h1")
	a, other := w.replicas["h0"].Client(0), w.replicas["h0"].Client(1)
	try := func(c *store.Client, op store.Op) error {
		out := make(chan error, 1)
		go func() { _, err := c.Do(t.Context(), op); out <- err }()
		for {
			must.NoError(t, w.settle())
			select {
			case err := <-out:
				return err
			default:
			}
		}
	}
	value := make([]byte, store.MaxValue)
	for name, op := range map[string]store.Op{
		"key":   {Kind: store.Set, Key: strings.Repeat("k", store.MaxKey+1)},
		"value": {Kind: store.Set, Value: make([]byte, store.MaxValue+1)},
		"keys":  {Kind: store.Check, Keys: make([]string, store.MaxKeys+1)},
		"all":   {Kind: store.CompareSet, Expected: value, Value: value},
	} {
		must.ErrorIs(t, try(a, op), store.ErrTooMuch, must.Sprint(name))
	}
	must.NoError(t, try(a, store.Op{Kind: store.Set, Key: "1", Value: value}))
	must.ErrorIs(t, try(a, store.Op{Kind: store.Set, Key: "2", Value: value}), store.ErrTooMuch)
	must.ErrorIs(t, try(a, store.Op{Kind: store.Append, Key: "1", Value: []byte("x")}), store.ErrTooMuch)
	must.NoError(t, try(other, store.Op{Kind: store.Set, Key: "2", Value: value}))
	must.NoError(t, try(a, store.Op{Kind: store.Set, Key: "1", Value: nil}))
	must.NoError(t, try(a, store.Op{Kind: store.Push, Key: "q", Value: value}))
	must.ErrorIs(t, try(a, store.Op{Kind: store.Push, Key: "q", Value: value}), store.ErrTooMuch)
	must.NoError(t, try(other, store.Op{Kind: store.Pop, Key: "q"}))
	must.NoError(t, try(a, store.Op{Kind: store.Push, Key: "q", Value: value}))
}

// Waits, and operations that the leader does not answer, have bounds, too.
func TestBounds_Pending(t *testing.T) {
	w := newWorld(1, 1, 1)
	w.join("h0")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	pending := w.replicas["h0"].Client(0)
	for range store.MaxPending {
		_, err := pending.Do(ended, store.Op{Kind: store.Add, Key: "n", Number: 1})
		must.ErrorIs(t, err, context.Canceled)
	}
	_, err := pending.Do(ended, store.Op{Kind: store.Add, Key: "n", Number: 1})
	must.ErrorIs(t, err, store.ErrTooMuch)
	// None of them is lost.
	w.join("h1")
	must.NoError(t, w.settle())
	must.Eq(t, strconv.Itoa(store.MaxPending), string(do(t, w.replicas["h1"].Client(1), store.Op{Kind: store.Get, Key: "n"}).Value))

	waiting, stop := context.WithCancel(t.Context())
	r, c := alone(t)
	for range store.MaxWaiters {
		go func() { _, _ = c.Do(waiting, store.Op{Kind: store.Wait, Keys: []string{"never", "ever"}}) }()
	}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return r.Waits() == store.MaxWaiters }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	_, err = c.Do(waiting, store.Op{Kind: store.Wait, Keys: []string{"never"}})
	must.ErrorIs(t, err, store.ErrTooMuch)
	stop()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return r.Waits() == 0 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
}

// However much all ranks of a host store at once, it fits into one message to another
// leader; the rest waits.
func TestBounds_Snapshot(t *testing.T) {
	const ranks, each, message = 9, 2, 256 << 20
	w := newWorld(1, ranks, 1)
	w.join("h0")
	answers := make(chan error, ranks*each)
	for i := range ranks * each {
		go func() {
			_, err := w.replicas["h0"].Client(i/each).Do(t.Context(), store.Op{Kind: store.Set, Key: strconv.Itoa(i), Value: make([]byte, store.MaxValue-1024)})
			answers <- err
		}()
	}
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.replicas["h0"].Begun() >= 14 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	w.cut("h0")
	must.Less(t, message-store.MaxLog/3*4, length(w.replicas["h0"].Snapshot()))
	w.join("h1")
	for range ranks * each {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.settle() == nil && len(answers) > 0 }), wait.Timeout(time.Minute)))
		must.NoError(t, <-answers)
	}
	must.Eq(t, ranks*each, int(do(t, w.replicas["h1"].Client(ranks), store.Op{Kind: store.NumKeys}).Number))
}

// Waits end when all keys have existed, once for each value of a queue, and with the ring.
func TestWait(t *testing.T) {
	r, c := alone(t)
	wait1 := func(op store.Op) chan error {
		before, out := r.Waits(), make(chan error, 1)
		go func() { _, err := c.Do(t.Context(), op); out <- err }()
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return r.Waits() == before+1 }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
		return out
	}
	two := wait1(store.Op{Kind: store.Wait, Keys: []string{"a", "b", "a"}})
	do(t, c, store.Op{Kind: store.Set, Key: "a"})
	do(t, c, store.Op{Kind: store.Delete, Key: "a"}) // it has been there
	must.Eq(t, 1, r.Waits())
	do(t, c, store.Op{Kind: store.MultiSet, Pairs: []store.Pair{{Key: "b"}}})
	must.NoError(t, <-two)

	first, second := wait1(store.Op{Kind: store.Wait, Keys: []string{"q"}}), wait1(store.Op{Kind: store.Wait, Keys: []string{"q"}})
	do(t, c, store.Op{Kind: store.Push, Key: "q"})
	must.NoError(t, <-first)
	must.Eq(t, 1, r.Waits())
	do(t, c, store.Op{Kind: store.Push, Key: "q"})
	must.NoError(t, <-second)

	barrier := wait1(store.Op{Kind: store.Barrier, Key: "n", Number: 3})
	again := wait1(store.Op{Kind: store.Barrier, Key: "n", Number: 3})
	must.Eq(t, 2, r.Waits())
	do(t, c, store.Op{Kind: store.Barrier, Key: "n", Number: 3})
	must.NoError(t, <-barrier)
	must.NoError(t, <-again)

	never := wait1(store.Op{Kind: store.Wait, Keys: []string{"never"}})
	r.Close()
	r.Close()
	must.ErrorIs(t, <-never, store.ErrOver)
	_, err := c.Do(t.Context(), store.Op{Kind: store.NumKeys})
	must.ErrorIs(t, err, store.ErrOver)
	_, open := <-r.News()
	must.False(t, open)
}

// A wait that is canceled just as it ends takes no queue value from another process.
func TestWait_CanceledAsItEnds(t *testing.T) {
	r, c := alone(t)
	op := store.Op{Kind: store.Wait, Keys: []string{"q"}}
	waiting := func(n int) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return r.Waits() == n }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	}
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := c.Do(ctx, op); first <- err }()
		waiting(1)
		go func() { _, err := c.Do(t.Context(), op); second <- err }()
		waiting(2)
		go cancel()
		do(t, c, store.Op{Kind: store.Push, Key: "q"})
		if err := <-first; err == nil { // it was woken, and leaves the value
			do(t, c, store.Op{Kind: store.Yield, Keys: []string{"other", "q"}})
		}
		select {
		case err := <-second:
			must.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatal("the other one that waits was not woken")
		}
		must.Eq(t, 1, do(t, c, store.Op{Kind: store.Pop, Key: "q"}).Number)
		cancel()
	}
	do(t, c, store.Op{Kind: store.Yield, Keys: []string{"q"}}) // no one waits
	must.Eq(t, 0, r.Waits())
}

// A ring on one host never talks to the leader.
func TestReplica_OneHost(t *testing.T) {
	r, err := store.NewReplica("h0", ringOf(2))
	must.NoError(t, err)
	do(t, r.Client(0), store.Op{Kind: store.Set, Key: "k", Value: []byte("v")})
	must.Eq(t, "v", string(do(t, r.Client(1), store.Op{Kind: store.Get, Key: "k"}).Value))
	must.SliceEmpty(t, r.Outgoing())
	must.SliceEmpty(t, r.Snapshot().Puts)
	_, err = r.Client(2).Do(t.Context(), store.Op{Kind: store.NumKeys})
	must.ErrorIs(t, err, store.ErrForeign)
	_, err = store.NewReplica("elsewhere", ringOf(2))
	must.Error(t, err)
}

// A process is up when it reports that it is connected, and visible to others once it has
// changed anything.
func TestReplica_Members(t *testing.T) {
	r, err := store.NewReplica("h0", ringOf(2))
	must.NoError(t, err)
	do(t, r.Client(0), store.Op{Kind: store.NumKeys})
	_, visible := r.Withdraw(0)
	must.False(t, visible)
	do(t, r.Client(0), store.Op{Kind: store.Add, Key: "n", Number: 1})
	_, visible = r.Withdraw(0)
	must.True(t, visible)
	_, visible = r.Withdraw(1)
	must.False(t, visible)

	must.False(t, r.Up(1))
	r.Formed(1)
	r.Formed(7)
	must.True(t, r.Up(1))
	must.False(t, r.Up(0))
	<-r.News()
}

// Entries that all hosts have applied are dropped everywhere, however many there are.
func TestLog_IsTrimmed(t *testing.T) {
	w := newWorld(1, 1, 1, 1)
	for _, h := range w.hosts {
		w.join(h)
	}
	for n := range 2000 {
		s := w.start(t.Context(), n%3, store.Op{Kind: store.Set, Key: "k", Value: make([]byte, 1000)})
		must.NoError(t, w.settle())
		must.NoError(t, (<-s.answer).err)
	}
	entries, held := w.sequencer.Kept()
	must.LessEq(t, 3, entries)
	must.Eq(t, 0, held)
	for _, h := range w.hosts {
		must.LessEq(t, 3, w.replicas[h].Tail())
	}
}

// A host that applies nothing delays the others only at a bound, and later catches up.
func TestLog_SlowHost(t *testing.T) {
	w := newWorld(1, 1, 1)
	w.join("h0")
	w.join("h1")
	must.NoError(t, w.settle())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const size, n = 1 << 20, 2 * store.MaxLog >> 20
	for range n {
		_, _ = w.replicas["h0"].Client(0).Do(ended, store.Op{Kind: store.Set, Key: "k", Value: make([]byte, size)})
		for direction := range 3 {
			for moved := true; moved; {
				var err error
				moved, err = w.carry("h0", direction)
				must.NoError(t, err)
			}
		}
	}
	entries, held := w.sequencer.Kept()
	must.LessEq(t, store.MaxLog/size+1, entries)
	must.Positive(t, held)
	must.NoError(t, w.settle())
	must.Eq(t, w.replicas["h0"].Applied(), w.replicas["h1"].Applied())
	entries, held = w.sequencer.Kept()
	must.Eq(t, 0, entries+held)
}
