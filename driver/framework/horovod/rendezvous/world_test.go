// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/internal/ringsim"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// A world is a ring whose processes, messages and failures happen in an order
// that a random generator picks, one step at a time.
//
//	process ── Store ──(to leader)──> Collector
//	             ^                       │
//	             └────(from leader)──────┘
//
// Messages of one host keep their order; everything else is random. When the leader
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

// userMeshes returns the three meshes of a process set, for a rank that is in it.
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

// run continues until nothing more can happen. Failures occur in between.
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

// things returns all possible events.
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
