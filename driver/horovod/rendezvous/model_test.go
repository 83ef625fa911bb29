// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/horovod/rendezvous"
)

// A world is a ring whose processes, messages and failures happen in an order
// that a random generator picks, one step at a time.
//
//	process ── Store ──(to leader)──> Collector
//	             ^                       │
//	             └────(from leader)──────┘
//
// Messages of one host keep their order; all else is free. When the leader
// moves, messages on their way are lost.
type world struct {
	rng       *rand.Rand
	slots     []rendezvous.Slot
	hosts     []string
	stores    map[string]*rendezvous.Store
	toLeader  map[string][]message
	toHost    map[string][]wire.Fill
	collector *rendezvous.Collector
	processes []*process

	written map[string]map[int]string // mesh -> member -> blob of a living process
	reads   map[string]bool           // blobs that somebody has read
	waiting map[string]int            // mesh -> members at the barrier
	set     string
	users   []string // process sets of the user's, in order
	members map[string][]int
}

// message is what an agent sends the leader.
type message struct {
	puts     []wire.Put
	snapshot *wire.Snapshot
	withdraw *withdrawal
}

type withdrawal struct {
	rank int
	puts []wire.Put
}

// process is a training process on its way through its meshes.
type process struct {
	rank   int
	life   int // incarnations before this one
	meshes []ringsim.Mesh
	ids    []string // meshes[i]'s, unique also when a name is used again
	at     int      // index into meshes
	step   int      // within the mesh
	dead   bool     // waits for the leader's word
}

func newWorld(seed uint64, perHost []int, set string, users [][]int) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		rng:       rng,
		slots:     ringsim.Led(rng.IntN(slices.Min(perHost)), perHost...),
		stores:    map[string]*rendezvous.Store{},
		toLeader:  map[string][]message{},
		toHost:    map[string][]wire.Fill{},
		collector: rendezvous.NewCollector(),
		written:   map[string]map[int]string{},
		reads:     map[string]bool{},
		waiting:   map[string]int{},
		set:       set,
		members:   map[string][]int{},
	}
	for i, ranks := range users {
		name := fmt.Sprintf("user%d", i%2) // names are used again and again
		w.users = append(w.users, name)
		w.members[name+strconv.Itoa(i)] = ranks
	}
	for h := range perHost {
		host := "h" + strconv.Itoa(h)
		w.hosts = append(w.hosts, host)
		var local []int
		for _, s := range w.slots {
			if s.Host == host {
				local = append(local, s.Rank)
			}
		}
		store, err := rendezvous.NewStore(rendezvous.Members{Slots: w.slots, Local: local})
		if err != nil {
			panic(err)
		}
		w.stores[host] = store
	}
	for _, s := range w.slots {
		w.processes = append(w.processes, w.process(s.Rank))
	}
	return w
}

// process starts a rank from the beginning.
func (w *world) process(rank int) *process {
	p := &process{rank: rank, meshes: ringsim.Meshes(w.slots, rank, w.set)}
	uses := map[string]int{}
	for i, name := range w.users {
		p.meshes = append(p.meshes, w.userMeshes(rank, name, w.members[name+strconv.Itoa(i)])...)
	}
	for _, m := range p.meshes {
		// Members of a name that is used again may differ. What distinguishes the
		// uses apart here is who takes part and how often they did before.
		p.ids = append(p.ids, fmt.Sprintf("%s#%d", m.Scope, uses[m.Scope]))
		uses[m.Scope]++
	}
	return p
}

// userMeshes are the three of a process set, for a rank that is in it.
func (w *world) userMeshes(rank int, name string, ranks []int) []ringsim.Mesh {
	if !slices.Contains(ranks, rank) {
		return nil
	}
	var local, cross []int
	for _, r := range ranks {
		if w.slots[r].Host == w.slots[rank].Host {
			local = append(local, r)
		}
	}
	index := slices.Index(local, rank)
	for _, r := range ranks {
		position := 0
		for _, q := range ranks {
			if q < r && w.slots[q].Host == w.slots[r].Host {
				position++
			}
		}
		if position == index {
			cross = append(cross, r)
		}
	}
	suffix := "_process_set_hash_" + name
	return []ringsim.Mesh{
		{Scope: "global" + suffix, Index: slices.Index(ranks, rank), Size: len(ranks)},
		{Scope: "local_" + w.slots[rank].Host + suffix, Index: index, Size: len(local)},
		{Scope: "cross_" + strconv.Itoa(index) + suffix, Index: slices.Index(cross, rank), Size: len(cross)},
	}
}

// errBroken ends a run: a blob of a dead process may have been read.
var errBroken = errors.New("the ring is broken")

// run goes on until nothing can happen any more. Failures strike while things
// happen.
func (w *world) run(deaths, moves int) error {
	things := w.things()
	for idle := false; !idle; {
		idle = true
		// Each round tries a random few, and all of them once.
		order := w.rng.Perm(len(things))
		for range w.rng.IntN(4 * len(things)) {
			order = append(order, w.rng.IntN(len(things)))
		}
		for _, n := range w.shuffled(order) {
			moved, err := things[n]()
			if err != nil {
				return err
			}
			idle = idle && !moved
			if deaths > 0 && w.rng.IntN(40) == 0 {
				deaths--
				idle = false
				if err := w.kill(w.processes[w.rng.IntN(len(w.processes))]); err != nil {
					return err
				}
			}
			if moves > 0 && w.rng.IntN(60) == 0 {
				moves--
				idle = false
				w.moveLeader()
			}
		}
	}
	return w.finished()
}

// things are all that can happen.
func (w *world) things() []func() (bool, error) {
	var things []func() (bool, error)
	for i := range w.processes {
		things = append(things, func() (bool, error) { return w.stepProcess(w.processes[i]) })
	}
	for _, h := range w.hosts {
		things = append(things,
			func() (bool, error) { return w.stepAgent(h) },
			func() (bool, error) { return w.stepToLeader(h) },
			func() (bool, error) { return w.stepToHost(h) })
	}
	return things
}

func (w *world) shuffled(order []int) []int {
	w.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// finished: everybody has built everything.
func (w *world) finished() error {
	for _, p := range w.processes {
		if p.at < len(p.meshes) {
			return fmt.Errorf("rank %d hangs in %s at step %d", p.rank, p.ids[p.at], p.step)
		}
		if w.set != "" && !w.storeOf(p.rank).Up(p.rank) {
			return fmt.Errorf("rank %d is not up", p.rank)
		}
	}
	return nil
}

func (w *world) storeOf(rank int) *rendezvous.Store { return w.stores[w.slots[rank].Host] }

func (w *world) blob(p *process) string {
	return fmt.Sprintf("%s of %d, life %d", p.ids[p.at], p.rank, p.life)
}

// stepProcess does the next thing a process does, if it can be done.
func (w *world) stepProcess(p *process) (moved bool, err error) {
	if p.dead || p.at == len(p.meshes) {
		return false, nil
	}
	m, id, store := p.meshes[p.at], p.ids[p.at], w.storeOf(p.rank)
	own := strconv.Itoa(m.Index)
	switch {
	case p.step == 0:
		err = store.Put(p.rank, m.Scope, "rank_"+own, []byte("vm"))
	case p.step == 1:
		if w.written[id] == nil {
			w.written[id] = map[int]string{}
		}
		w.written[id][m.Index] = w.blob(p)
		err = store.Put(p.rank, m.Scope, own, []byte(w.blob(p)))
	case p.step < 2+m.Size:
		if peer := p.step - 2; peer != m.Index {
			moved, err := w.read(p, m, id, peer)
			if !moved || err != nil {
				return moved, err
			}
		}
		if p.step == 1+m.Size {
			w.waiting[id]++
		}
	case w.waiting[id] < m.Size:
		return false, nil
	default:
		if err := store.Delete(p.rank, m.Scope, own); err != nil {
			return false, err
		}
		p.at, p.step = p.at+1, -1
	}
	p.step++
	return true, err
}

// read is a look at a peer's blob.
func (w *world) read(p *process, m ringsim.Mesh, id string, peer int) (bool, error) {
	value, found, err := w.storeOf(p.rank).Get(expired(), p.rank, m.Scope, strconv.Itoa(peer))
	switch {
	case errors.Is(err, context.Canceled):
		return false, nil
	case err != nil:
		return false, err
	case !found:
		return false, fmt.Errorf("rank %d: blob %d of %s was not held", p.rank, peer, id)
	}
	if string(value) != w.written[id][peer] {
		return false, fmt.Errorf("rank %d read %q as blob %d of %s, which is %q", p.rank, value, peer, id, w.written[id][peer])
	}
	if !strings.Contains(m.Scope, "user") && len(w.written[id]) < m.Size {
		return false, fmt.Errorf("rank %d read %s when only %d of %d had written", p.rank, id, len(w.written[id]), m.Size)
	}
	w.reads[string(value)] = true
	return true, nil
}

func (w *world) stepAgent(host string) (bool, error) {
	puts := w.stores[host].Outgoing()
	if len(puts) == 0 {
		return false, nil
	}
	for _, p := range puts {
		if strings.HasPrefix(p.Scope, "local_") || len(w.hosts) == 1 && p.Size > 0 {
			return false, fmt.Errorf("%s of %s goes to the leader", p.Scope, host)
		}
	}
	w.toLeader[host] = append(w.toLeader[host], message{puts: puts})
	return true, nil
}

func (w *world) stepToLeader(host string) (bool, error) {
	if len(w.toLeader[host]) == 0 {
		return false, nil
	}
	m := w.toLeader[host][0]
	if m.withdraw != nil && w.restoring() {
		// A new leader does not know yet what was read, and reports so.
		if len(m.withdraw.puts) > 0 && !w.collector.Withdraw(m.withdraw.puts) {
			return false, errors.New("a new leader judges too early")
		}
		return false, nil
	}
	w.toLeader[host] = w.toLeader[host][1:]
	var fills []wire.Fill
	var err error
	switch {
	case m.withdraw != nil:
		return true, w.withdrawn(m.withdraw)
	case m.snapshot != nil:
		fills, err = w.collector.Restore(host, *m.snapshot)
	default:
		fills, err = w.collector.Submit(host, m.puts)
	}
	for _, f := range fills {
		for _, h := range w.hosts {
			if f.Hosts == nil || slices.Contains(f.Hosts, h) {
				w.toHost[h] = append(w.toHost[h], f)
			}
		}
	}
	return true, err
}

// restoring reports that some agent has not sent the new leader what it has.
func (w *world) restoring() bool {
	for _, h := range w.hosts {
		if slices.ContainsFunc(w.toLeader[h], func(m message) bool { return m.snapshot != nil }) {
			return true
		}
	}
	return false
}

func (w *world) stepToHost(host string) (bool, error) {
	if len(w.toHost[host]) == 0 {
		return false, nil
	}
	f := w.toHost[host][0]
	w.toHost[host] = w.toHost[host][1:]
	return true, w.stores[host].Fill(f)
}

// moveLeader loses what is on its way. Each agent sends the new one what it
// has; a withdrawal without an answer is asked for again after that.
func (w *world) moveLeader() {
	w.collector = rendezvous.NewCollector()
	w.collector.Expect(w.hosts)
	for _, h := range w.hosts {
		snapshot := w.stores[h].Snapshot()
		queue := []message{{snapshot: &snapshot}}
		for _, m := range w.toLeader[h] {
			if m.withdraw != nil {
				queue = append(queue, m)
			}
		}
		w.toLeader[h], w.toHost[h] = queue, nil
	}
}

// kill ends a process, and starts it again in its place if no one can know.
func (w *world) kill(p *process) error {
	if p.dead || p.at == len(p.meshes) {
		return nil
	}
	puts, visible := w.storeOf(p.rank).Withdraw(p.rank)
	if visible {
		return w.broken(p)
	}
	p.dead = true
	host := w.slots[p.rank].Host
	// The agent's messages stay in order: what it has sent before is first.
	w.toLeader[host] = append(w.toLeader[host], message{withdraw: &withdrawal{p.rank, puts}})
	return nil
}

// withdrawn is the leader's word on a dead process.
func (w *world) withdrawn(d *withdrawal) error {
	p := w.processes[d.rank]
	if w.collector.Withdraw(d.puts) {
		return w.broken(p)
	}
	for at, m := range p.meshes[:min(p.at+1, len(p.meshes))] {
		if at == p.at && p.step < 2 {
			continue
		}
		if blob := fmt.Sprintf("%s of %d, life %d", p.ids[at], p.rank, p.life); w.reads[blob] {
			return fmt.Errorf("rank %d starts again after its blob of %s was read", p.rank, p.ids[at])
		}
		delete(w.written[p.ids[at]], m.Index)
		if m.Size == 1 {
			delete(w.waiting, p.ids[at])
		}
	}
	next := w.process(p.rank)
	next.life = p.life + 1
	w.processes[p.rank] = next
	return nil
}

// broken is right only if a mesh of the dead process was complete.
func (w *world) broken(p *process) error {
	for at, m := range p.meshes[:min(p.at+1, len(p.meshes))] {
		if m.Size > 1 && len(w.written[p.ids[at]]) == m.Size {
			return errBroken
		}
	}
	return fmt.Errorf("rank %d is reported visible, but no mesh of it was complete", p.rank)
}

// Rings of all shapes form, in any order of things, as long as no
// process dies; a leader that moves, again and again, is not noticed.
func TestModel_RingsForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "slots per host")
		w := newWorld(rapid.Uint64().Draw(t, "seed"), perHost,
			rapid.SampledFrom([]string{"", "zero"}).Draw(t, "process set 0"), nil)
		if err := w.run(0, rapid.IntRange(0, 5).Draw(t, "leader moves")); err != nil {
			t.Fatal(err)
		}
	})
}

// Process sets of the user's form too, also when their names are used again.
func TestModel_UserSetsForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "slots per host")
		size := 0
		for _, n := range perHost {
			size += n
		}
		// A name always stands for the same ranks, as its hash does.
		subset := rapid.Custom(func(t *rapid.T) []int {
			var ranks []int
			for r := range size {
				if rapid.Bool().Draw(t, "in") {
					ranks = append(ranks, r)
				}
			}
			return ranks
		})
		sets := [][]int{subset.Draw(t, "set 0"), subset.Draw(t, "set 1")}
		var users [][]int
		for i := range rapid.IntRange(1, 5).Draw(t, "uses") {
			users = append(users, sets[i%2])
		}
		w := newWorld(rapid.Uint64().Draw(t, "seed"), perHost, "zero", users)
		if err := w.run(0, rapid.IntRange(0, 3).Draw(t, "leader moves")); err != nil {
			t.Fatal(err)
		}
	})
}

// A process that dies is started again in its place if no one can have read
// its blobs, and then the ring forms; otherwise it is known to be broken.
func TestModel_Deaths(t *testing.T) {
	formed, broken := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		perHost := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(t, "slots per host")
		w := newWorld(rapid.Uint64().Draw(t, "seed"), perHost, "zero", nil)
		err := w.run(rapid.IntRange(1, 3).Draw(t, "deaths"), rapid.IntRange(0, 3).Draw(t, "leader moves"))
		switch {
		case err == nil:
			formed++
		case errors.Is(err, errBroken), errors.Is(err, rendezvous.ErrConflict):
			broken++
		default:
			t.Fatal(err)
		}
	})
	t.Logf("%d rings formed, %d were broken", formed, broken)
}
