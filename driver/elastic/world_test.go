// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// world simulates agents and training processes. Messages between a host and the leader
// keep their order, but may be arbitrarily late. Any process, host or leader may die at
// any moment.
type world struct {
	pick func(n int) int // the source of all chance
	opt  Options
	wkind
	now   time.Time
	m     *Machine
	term  uint64
	hosts []*whost
	next  int
	// widths has the width of every host there ever was.
	widths map[HostID]int

	meshes []*wmesh
	newest *Ring
	best   int // last committed step
	gone   []wgone
	slow   map[uint64]bool      // rings that were taken for stalled
	failed map[uint64]bool      // rings that lost a member that was not to leave
	left   map[uint64]time.Time // when the first member left a ring

	allowed  bool // last Quorum
	electing bool
	ended    *End
	trace    []string
	steps    int
}

// wkind has the properties that all processes of a world share.
type wkind struct {
	framework Framework
	restarts  bool // they can't change their ring
	standbys  bool // hosts have standby slots
	replica   int  // processes of a replica; 0: 1
	racks     bool // hosts tell their place in the network, most of them
	spares    bool // some hosts wait outside the ring
	reassigns bool // processes of most hosts can take another place than they were started for
}

type whost struct {
	info    HostInfo
	slots   []wslot
	cut     bool                 // the leader thinks it is lost
	told    map[uint64]time.Time // when it heard of a notice, by the ring's generation
	up, dn  []any
	leaving bool
	keep    int // slots that are still wanted, 0: all
}

type wslot struct {
	SlotReport
	step     int
	place    int // in its replica when it got the state
	training bool
	stopped  bool
	enter    bool // admitted, but has yet to start: replaces one that died while forming
	fails    int
	hung     bool // idle until it is killed
	lingers  bool // in a ring that broke: it hangs, or takes its time
	given    bool // up, by a leader
	noticed  bool // asked to end
	busy     bool // healthy, and takes long to its next commit
}

// wgone is a dead host that the leader has not missed yet.
type wgone struct {
	id   HostID
	died time.Time
}

func newWorld(k wkind, pick func(int) int) *world {
	w := &world{pick: pick, wkind: k, now: time.Unix(1e9, 0), widths: map[HostID]int{}, slow: map[uint64]bool{}, failed: map[uint64]bool{}, left: map[uint64]time.Time{}}
	w.opt = patient(Options{Framework: k.framework, MinNP: 1 + pick(3), SlotRestarts: 2 + pick(3), OnRingLost: OnRingLost(pick(2))})
	w.opt.NP = w.opt.MinNP + pick(2)
	if pick(2) == 0 {
		w.opt.MaxNP = w.opt.NP + pick(4)
	}
	if k.replica > 1 {
		w.opt.Replica = k.replica
		w.opt.MinNP, w.opt.NP, w.opt.MaxNP = w.opt.MinNP*k.replica, w.opt.NP*k.replica, w.opt.MaxNP*k.replica
		if pick(2) == 0 {
			w.opt.MinNP, w.opt.NP = k.replica, k.replica
		}
	}
	if k.spares {
		w.opt.SpareHosts = 1 + pick(2)
	}
	if k.restarts {
		w.opt.Restarts, w.opt.Spares = pick(2) == 0, pick(2) == 0
	}
	w.m, w.term, w.allowed = New(w.opt, 1), 1, true
	return w
}

func (w *world) fail(format string, args ...any) {
	panic(fmt.Sprintf(format, args...) + "\n" + fmt.Sprint(w.trace[max(0, len(w.trace)-80):]))
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, "\n"+fmt.Sprintf(format, args...))
	if len(w.trace) > 2000 {
		w.trace = slices.Clone(w.trace[1000:])
	}
}

func (w *world) host(id HostID) *whost {
	for _, h := range w.hosts {
		if h.info.ID == id {
			return h
		}
	}
	return nil
}

// step gives the machine an event and checks the actions that it returns.
func (w *world) step(ev Event) {
	w.steps++
	actions := w.m.Step(w.now, ev)
	if _, trained := ev.(Trained); !trained && (!isTick(ev) || len(actions) > 0) {
		w.logf("%v %T%+v", w.now.Unix(), ev, ev)
	}
	for _, a := range actions {
		w.logf("    -> %T%+v", a, a)
		switch a := a.(type) {
		case Start:
			w.send(a.Proc.Slot.Host, a)
		case Stop:
			w.checkStop(a)
			w.checkRetire(a)
			w.checkHang(a)
			if h := w.host(a.Proc.Slot.Host); h != nil && h.slots[a.Proc.Slot.Local].Incarnation == a.Proc.Incarnation {
				h.slots[a.Proc.Slot.Local].given = true
			}
			w.send(a.Proc.Slot.Host, a)
		case Notify:
			for _, h := range w.hosts { // of which one has rank 0
				if !w.restarts || h.info.ID == a.Proc.Slot.Host {
					h.send(a)
				}
			}
		case Failed:
			w.send(a.Slot.Host, a)
		case ReleaseHost:
			w.send(a.Host, a)
		case Form:
			w.checkRing(&a.Ring)
			for _, h := range w.hosts {
				if a.Hosts == nil || slices.Contains(a.Hosts, h.info.ID) {
					h.send(a)
				}
			}
		case Break, Synced:
			for _, h := range w.hosts {
				h.send(a)
			}
		case End:
			w.ended = &a
			w.checkEnd(a)
		}
	}
}

// stall does what a leader does when the newest ring seems to have stalled. The leader may
// know which processes are the cause, and may be mistaken.
func (w *world) stall() {
	ev := Stalled{Generation: w.newest.Generation, Why: "stopped", Doubtful: w.pick(2) == 0}
	known, mistaken := w.pick(2) == 0, w.pick(8) == 0
	for _, m := range w.newest.Members {
		if h := w.host(m.Proc.Slot.Host); known && h != nil && (h.slots[m.Proc.Slot.Local].hung || mistaken && w.pick(2) == 0) {
			ev.Causes = append(ev.Causes, m.Proc)
		}
	}
	if w.m.Up() && w.m.last.Generation == w.newest.Generation {
		w.slow[w.newest.Generation] = true
		for _, h := range w.hosts {
			h.send(Break{w.newest.Generation})
		}
	}
	w.step(ev)
}

func isTick(ev Event) bool { _, ok := ev.(Tick); return ok }

func (w *world) send(id HostID, a any) {
	if h := w.host(id); h != nil {
		h.send(a)
	}
}

func (h *whost) send(a any) {
	if !h.cut {
		h.dn = append(h.dn, a)
	}
}

func (h *whost) report(ev Event) {
	if !h.cut {
		h.up = append(h.up, ev)
	}
}

// progress advances a random process, and delivers some messages. It also runs when no
// faults are injected.
func (w *world) progress() {
	if len(w.hosts) > 0 {
		h := w.hosts[w.pick(len(w.hosts))]
		if len(h.slots) > 0 {
			w.run(h, w.pick(len(h.slots)))
		}
		for n := w.pick(3); n > 0 && len(h.dn) > 0; n-- {
			a := h.dn[0]
			h.dn = h.dn[1:]
			w.receive(h, a)
		}
		for n := w.pick(3); n > 0 && len(h.up) > 0; n-- {
			ev := h.up[0]
			h.up = h.up[1:]
			w.step(ev.(Event))
		}
	}
	for _, mesh := range w.meshes {
		w.mesh(mesh)
	}
	if len(w.gone) > 0 && (w.pick(20) == 0 || w.now.Sub(w.gone[0].died) > 8*time.Second) {
		id := w.gone[0].id
		w.gone = w.gone[1:]
		w.quorum()
		w.step(HostLost{id})
	}
	if w.newest != nil && w.hangs(w.newest.Generation) && w.pick(40) == 0 {
		w.stall()
	}
	if w.newest != nil && w.pick(3) == 0 && !w.busy(w.newest.Generation) {
		if members := w.training(w.newest.Generation); len(members) > 0 {
			w.best++
			for _, p := range members {
				w.host(p.Host).slots[p.Local].step = w.best
			}
			if w.pick(2) == 0 {
				w.step(Trained{w.newest.Generation})
			}
		}
	}
	if d := w.m.Deadline(); w.pick(4) == 0 && !d.IsZero() {
		if d.After(w.now) {
			w.now = w.now.Add(min(d.Sub(w.now), time.Duration(1+w.pick(2000))*time.Millisecond))
		}
		w.step(Tick{})
	}
}

func explore(k wkind, pick func(int) int, steps int) *world {
	w := newWorld(k, pick)
	for range steps {
		if w.ended != nil {
			break
		}
		if pick(8) == 0 {
			w.disturb()
		} else {
			w.progress()
		}
	}
	if w.ended == nil {
		w.settle()
	}
	return w
}

// TestMachineInvariants explores random orders of events. Ranks are dense and contiguous by
// host, racks are contiguous, and rings stay within bounds and follow one another. A ring
// never goes back to an older state than that of a live process. Once faults stop, every
// slot that can train does. A retiring process is in no ring, keeps the state for no one,
// and completes no job. Hosts outside a ring that trains are spares, not more than asked
// for, with all their processes ready. If processes can't change their ring, each is only in the ring that
// it was started for. No ring then forms while a process of another is alive, no ring has
// two processes of one slot, and an exit after a notice does not complete the job.
func TestMachineInvariants(t *testing.T) {
	for name, c := range map[string]struct {
		kind  wkind
		seeds uint64
	}{
		"a member that dies is replaced":        {wkind{}, 2500},
		"a ring that forms is given up":         {wkind{framework: Framework{AbandonsForming: true}}, 400},
		"and local ranks have gaps":             {wkind{framework: torch}, 600},
		"and processes ask for their place":     {wkind{framework: torch, reassigns: true}, 400},
		"and hosts have standbys":               {wkind{framework: torch, standbys: true, reassigns: true}, 200},
		"processes can't change their ring":     {wkind{framework: torch, standbys: true, restarts: true, reassigns: true}, 600},
		"processes can't, and have no standbys": {wkind{framework: torch, restarts: true}, 150},
		"pairs share the state":                 {wkind{framework: torch, replica: 2, reassigns: true}, 300},
		"replicas share it on several hosts":    {wkind{framework: torch, standbys: true, replica: 3}, 150},
		"and processes can't change their ring": {wkind{framework: torch, standbys: true, restarts: true, replica: 2}, 100},
		"hosts are in racks":                    {wkind{racks: true}, 150},
		"and local ranks may have gaps":         {wkind{framework: torch, racks: true}, 60},
		"and processes can't, in racks":         {wkind{framework: torch, standbys: true, restarts: true, racks: true}, 40},
		"hosts wait as spares":                  {wkind{framework: torch, spares: true, reassigns: true}, 600},
		"and have standbys":                     {wkind{framework: torch, spares: true, standbys: true, reassigns: true}, 100},
		"and replace parts of replicas":         {wkind{framework: torch, spares: true, replica: 2, reassigns: true}, 150},
		"and are in racks":                      {wkind{framework: torch, spares: true, racks: true, reassigns: true}, 100},
		"and processes can't change the ring":   {wkind{framework: torch, spares: true, standbys: true, restarts: true}, 60},
		"and replicas span them":                {wkind{framework: torch, replica: 2, racks: true, reassigns: true}, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testInvariants(t, c.kind, c.seeds)
		})
	}
}

func testInvariants(t *testing.T, k wkind, seeds uint64) {
	t.Helper()
	seeds = explored(seeds)
	steps, rings := 0, uint64(0)
	for seed := range seeds {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("seed %d: %v\n%s", seed, r, debug.Stack())
				}
			}()
			rng := rand.New(rand.NewPCG(seed, 1))
			w := explore(k, rng.IntN, 600)
			steps += w.steps
			if w.newest != nil {
				rings += w.newest.Generation
			}
		}()
	}
	t.Logf("%d events, %d rings", steps, rings)
	if rings < seeds {
		t.Fatalf("only %d rings formed: the test does not test", rings)
	}
}

// explored returns how many of a case's seeds to run: 40, so that the test takes seconds,
// 10 with -short, and all with KOLO_SEEDS=all, which make check sets.
func explored(seeds uint64) uint64 {
	switch {
	case testing.Short():
		return min(seeds, 10)
	case os.Getenv("KOLO_SEEDS") == "all":
		return seeds
	}
	return min(seeds, 40)
}

// FuzzMachine lets the fuzzer choose the order of events.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("kolo"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		rng := rand.New(rand.NewPCG(1, 2))
		i := 0
		n := len(data)
		k := wkind{framework: Framework{AbandonsForming: n%2 == 1, LocalGaps: n%4 == 3}, standbys: n%4 == 3, restarts: n%8 == 7, racks: n%3 == 0, reassigns: n%5 < 2, spares: n%7 < 3}
		if n%4 == 3 {
			k.replica = 1 + n/8%3
		}
		explore(k, func(n int) int {
			if i < len(data) {
				i++
				return int(data[i-1]) % n
			}
			return rng.IntN(n)
		}, min(len(data), 2000))
	})
}
