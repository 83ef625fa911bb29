// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/torch/store"
)

var (
	_ host.Exchange   = (*store.Replica)(nil)
	_ leader.Exchange = (*store.Sequencer)(nil)
)

// ringOf returns a ring with so many processes on each host: h0, h1, and so on.
func ringOf(perHost ...int) *elastic.Ring {
	r := &elastic.Ring{Generation: 1, Term: 1}
	for h, n := range perHost {
		for l := range n {
			slot := elastic.SlotID{Host: elastic.HostID("h" + strconv.Itoa(h)), Local: l}
			r.Members = append(r.Members, elastic.Member{Proc: elastic.Proc{Slot: slot, Incarnation: 1},
				Assignment: elastic.Assignment{Rank: len(r.Members), LocalRank: l, LocalSize: n}})
		}
	}
	for i := range r.Members {
		r.Members[i].Assignment.Size = len(r.Members)
	}
	return r
}

// A world is a ring whose operations, messages and failures happen in an order that
// a random generator picks, one step at a time.
//
//	process ── Replica ──(toLeader)──> Sequencer
//	              ^                        │
//	              └───────(toHost)─────────┘
//
// Messages of one session keep their order. When a session breaks, messages on their way
// are lost in both directions. A leader that takes over knows nothing.
type world struct {
	rng       *rand.Rand
	ring      *elastic.Ring
	hosts     []string
	replicas  map[string]*store.Replica
	attached  map[string]bool // in session
	joined    map[string]bool // knows of the ring
	toLeader  map[string][]message
	toHost    map[string][]wire.Fill
	sequencer *store.Sequencer
	logs      map[string][]store.Ordered // what each host has applied
	// counts of what was sent, in messages and in bytes of JSON.
	up, down traffic
}

type traffic struct{ messages, bytes int }

func (t *traffic) add(bytes int) {
	t.messages++
	t.bytes += bytes
}

// length returns the length of a message as a session sends it.
func length(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return len(b)
}

type message struct {
	puts     []wire.Put
	snapshot *wire.Snapshot
}

func newWorld(seed uint64, perHost ...int) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), ring: ringOf(perHost...), replicas: map[string]*store.Replica{},
		attached: map[string]bool{}, joined: map[string]bool{}, toLeader: map[string][]message{}, toHost: map[string][]wire.Fill{},
		sequencer: store.NewSequencer(), logs: map[string][]store.Ordered{},
	}
	for _, id := range w.ring.Hosts() {
		w.hosts = append(w.hosts, string(id))
	}
	return w
}

// join reports the ring to a host, as Form does; its session is attached.
func (w *world) join(h string) {
	r, err := store.NewReplica(elastic.HostID(h), w.ring)
	if err != nil {
		panic(err)
	}
	w.replicas[h], w.joined[h], w.attached[h] = r, true, true
}

// carry moves one message or batch of one host in one direction. It reports whether there
// was any.
func (w *world) carry(h string, direction int) (bool, error) {
	if !w.joined[h] {
		return false, nil
	}
	switch direction {
	case 0:
		puts := w.replicas[h].Outgoing()
		if len(puts) == 0 {
			return false, nil
		}
		if w.attached[h] {
			w.up.add(length(puts))
			w.toLeader[h] = append(w.toLeader[h], message{puts: puts})
		}
	case 1:
		if len(w.toLeader[h]) == 0 {
			return false, nil
		}
		m := w.toLeader[h][0]
		w.toLeader[h] = w.toLeader[h][1:]
		var fills []wire.Fill
		var err error
		if m.snapshot != nil {
			fills, err = w.sequencer.Restore(h, *m.snapshot)
		} else {
			fills, err = w.sequencer.Submit(h, m.puts)
		}
		if err != nil {
			return true, err
		}
		for _, f := range fills {
			bytes := length(f)
			for _, to := range f.Hosts {
				if w.attached[to] {
					w.down.add(bytes)
					w.toHost[to] = append(w.toHost[to], f)
				}
			}
		}
	case 2:
		if len(w.toHost[h]) == 0 {
			return false, nil
		}
		f := w.toHost[h][0]
		w.toHost[h] = w.toHost[h][1:]
		return true, w.fill(h, f)
	}
	return true, nil
}

// fill gives a host the next entries, and notes those that it applies.
func (w *world) fill(h string, f wire.Fill) error {
	r := w.replicas[h]
	before := r.Applied()
	if err := r.Fill(f); err != nil {
		return err
	}
	entries, err := store.Entries(f)
	for _, e := range entries {
		if e.Index > before {
			w.logs[h] = append(w.logs[h], e)
		}
	}
	return err
}

// cut breaks a host's session.
func (w *world) cut(h string) {
	w.attached[h], w.toLeader[h], w.toHost[h] = false, nil, nil
}

// attach begins a session.
func (w *world) attach(h string) {
	if !w.joined[h] || w.attached[h] {
		return
	}
	w.attached[h] = true
	snap := w.replicas[h].Snapshot()
	w.toLeader[h] = []message{{snapshot: &snap}}
}

// takeOver replaces the leader; hosts have yet to register with the new one.
func (w *world) takeOver() {
	for _, h := range w.hosts {
		w.cut(h)
	}
	w.sequencer = store.NewSequencer()
	w.sequencer.Expect(w.hosts)
}

// settle carries everything until nothing moves.
func (w *world) settle() error {
	for _, h := range w.hosts {
		w.attach(h)
	}
	for moved := true; moved; {
		moved = false
		for direction := range 3 {
			for _, h := range w.hosts {
				m, err := w.carry(h, direction)
				if err != nil {
					return err
				}
				moved = moved || m
			}
		}
	}
	return nil
}

// started is a process's operation whose answer is awaited elsewhere.
type started struct {
	rank   int
	op     store.Op
	answer chan answer
}

type answer struct {
	store.Result
	err error
}

// start performs an operation next to the world's steps: it is in the replica when
// start returns.
func (w *world) start(ctx context.Context, rank int, op store.Op) *started {
	s := &started{rank: rank, op: op, answer: make(chan answer, 1)}
	r := w.replicaOf(rank)
	before := r.Begun()
	do := func() {
		res, err := r.Client(rank).Do(ctx, op)
		s.answer <- answer{res, err}
	}
	if len(w.hosts) == 1 {
		do()
		w.logs[w.hosts[0]] = append(w.logs[w.hosts[0]], store.Ordered{Rank: rank, Op: op})
		return s
	}
	go do()
	for r.Begun() == before {
		runtime.Gosched()
	}
	return s
}

func (w *world) replicaOf(rank int) *store.Replica {
	return w.replicas[string(w.ring.Members[rank].Proc.Slot.Host)]
}

// randomOp returns an operation of a rank. All of its results are compared with the
// model's.
func (w *world) randomOp(rank, n int) store.Op {
	key := "k" + strconv.Itoa(w.rng.IntN(5))
	value := []byte(fmt.Sprintf("%d.%d", rank, n))
	switch w.rng.IntN(9) {
	case 0, 1:
		return store.Op{Kind: store.Add, Key: "sum", Number: int64(1 + w.rng.IntN(3))}
	case 2:
		return store.Op{Kind: store.Append, Key: "log", Value: []byte(fmt.Sprintf("[%d.%d]", rank, n))}
	case 3:
		return store.Op{Kind: store.CompareSet, Key: key, Expected: nil, Value: value}
	case 4:
		return store.Op{Kind: store.Delete, Key: key}
	case 5:
		return store.Op{Kind: store.Push, Key: "queue", Value: value}
	case 6:
		return store.Op{Kind: store.Pop, Key: "queue"}
	case 7:
		return store.Op{Kind: store.MultiSet, Pairs: []store.Pair{{Key: key, Value: value}, {Key: "m", Value: value}}}
	default:
		return store.Op{Kind: store.Set, Key: key, Value: value}
	}
}

// run performs random operations, one of each rank at a time, while messages move,
// sessions break and leaders are replaced. It returns the answers of each rank.
func (w *world) run(t *testing.T, steps int, faults bool) [][]*started {
	done := make([][]*started, len(w.ring.Members))
	busy := make([]*started, len(w.ring.Members))
	for range steps {
		h := w.hosts[w.rng.IntN(len(w.hosts))]
		switch roll := w.rng.IntN(100); {
		case !w.joined[h]:
			w.join(h)
		case faults && roll == 0:
			w.takeOver()
		case faults && roll < 4:
			w.cut(h)
		case roll < 12:
			w.attach(h)
		case roll < 40:
			rank := w.rng.IntN(len(busy))
			if s := busy[rank]; s != nil && len(s.answer) == 0 || w.replicaOf(rank) == nil {
				continue
			}
			busy[rank] = w.start(t.Context(), rank, w.randomOp(rank, len(done[rank])))
			done[rank] = append(done[rank], busy[rank])
		default:
			_, err := w.carry(h, w.rng.IntN(3))
			must.NoError(t, err)
		}
	}
	for _, h := range w.hosts {
		if !w.joined[h] {
			w.join(h)
		}
	}
	must.NoError(t, w.settle())
	for _, ops := range done {
		for _, s := range ops {
			a := <-s.answer // it is there, or the test hangs
			s.answer <- a
		}
	}
	return done
}

// Whatever breaks, all hosts apply the same operations in the same order, each once, and
// each process gets the answers that follow from that order.
func TestWorld(t *testing.T) {
	seeds := 50
	switch {
	case testing.Short():
		seeds = 10
	case os.Getenv("KOLO_SEEDS") == "all": // make check
		seeds = 300
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			perHost := [][]int{{2, 1}, {1, 1, 1}, {3, 2, 2, 1}, {4}}[seed%4]
			w := newWorld(uint64(seed), perHost...)
			done := w.run(t, 200+10*seed, seed%3 > 0)
			check(t, w, done)
		})
	}
}

// check compares with a model: one store, to which operations are applied in the
// order of the log.
func check(t *testing.T, w *world, done [][]*started) {
	t.Helper()
	order := w.logs[w.hosts[0]]
	for _, h := range w.hosts {
		must.Eq(t, order, w.logs[h], must.Sprintf("log of %s", h))
	}
	alone, err := store.NewReplica("h0", ringOf(1))
	must.NoError(t, err)
	model := alone.Client(0)
	next := make([]int, len(done))
	for _, a := range order {
		must.True(t, next[a.Rank] < len(done[a.Rank]), must.Sprintf("operation of rank %d that it never began", a.Rank))
		s := done[a.Rank][next[a.Rank]]
		next[a.Rank]++
		must.Eq(t, s.op.Kind, a.Op.Kind)
		must.Eq(t, string(s.op.Value), string(a.Op.Value))
		want, wantErr := model.Do(t.Context(), s.op)
		got := <-s.answer
		must.Eq(t, wantErr, got.err)
		must.Eq(t, want, got.Result)
	}
	for rank, n := range next {
		must.Eq(t, len(done[rank]), n, must.Sprintf("operations of rank %d in the log", rank))
	}
	for _, h := range w.hosts {
		r := w.replicas[h]
		slot := slices.IndexFunc(w.ring.Members, func(m elastic.Member) bool { return string(m.Proc.Slot.Host) == h })
		must.Eq(t, contents(t, model), contents(t, r.Client(slot)), must.Sprintf("store of %s", h))
	}
}

// contents returns all values of a store.
func contents(t *testing.T, c *store.Client) map[string]string {
	t.Helper()
	keys, err := c.Do(t.Context(), store.Op{Kind: store.ListKeys})
	must.NoError(t, err)
	all := map[string]string{}
	for _, k := range keys.Keys {
		v, err := c.Do(t.Context(), store.Op{Kind: store.Get, Key: k})
		must.NoError(t, err)
		all[k] = string(v.Value)
	}
	n, err := c.Do(t.Context(), store.Op{Kind: store.QueueLen, Key: "queue"})
	must.NoError(t, err)
	all["queue"] = strconv.FormatInt(n.Number, 10)
	return all
}
