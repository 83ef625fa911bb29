// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"
)

const ms = time.Millisecond

// sim runs agents, their network and the registry in virtual time.
type sim struct {
	rnd     *rand.Rand
	now     time.Duration
	queue   events
	seq     int
	process uint64
	index   uint64
	reg     map[string]Peer // what Nomad has registered
	agents  map[string]*agent
	cut     map[[2]string]bool // links that lose everything
	away    map[string]bool    // agents that cannot reach the registry
	formed  []formed
	gone    map[registration]uint64   // the index at which it was dropped
	died    map[Process]time.Duration // when
	bad     string                    // the first broken promise
	loss    float64
	first   int // Config.First
	probes  int
	log     []string
}

// agent is one process, and simulates the driver's agent around a Machine.
type agent struct {
	id      string
	process uint64
	m       *Machine
	alive   bool
	tick    time.Duration
	leads   Leadership
}

// formed is a ring that was allowed, with the rings that it was built on. It counts
// as formed at the moment of the registry's last confirmation, which had the given
// index and came at the given time at the latest.
type formed struct {
	ring  Ring
	bases []Ring
	index uint64
	at    time.Duration
}

// registration is an allocation's instance of the service, with its create index.
type registration struct {
	allocID string
	index   uint64
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || (e[i].at == e[j].at && e[i].seq < e[j].seq)
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newSim(seed uint64) *sim {
	return &sim{
		rnd: rand.New(rand.NewPCG(seed, 1)), reg: make(map[string]Peer), agents: make(map[string]*agent),
		cut: make(map[[2]string]bool), away: make(map[string]bool),
		gone: make(map[registration]uint64), died: make(map[Process]time.Duration),
	}
}

func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, event{s.now + d, s.seq, do})
}

func (s *sim) random(upTo time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(upTo) + 1))
}

// run lets time pass.
func (s *sim) run(d time.Duration) {
	end := s.now + d
	for len(s.queue) > 0 && s.queue[0].at <= end {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		e.do()
	}
	s.now = end
}

func (s *sim) logf(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%8s ", s.now.Round(ms/10))+fmt.Sprintf(format, args...))
}

func link(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

// register is what Nomad does when it starts an allocation.
func (s *sim) register(id string) {
	s.index++
	s.reg[id] = Peer{AllocID: id, Group: "g", Index: -1, Addr: id, Registered: s.index}
	s.logf("register %s as %d", id, s.index)
}

func (s *sim) deregister(id string) {
	if p, ok := s.reg[id]; ok {
		s.index++
		s.gone[registration{id, p.Registered}] = s.index
		delete(s.reg, id)
		s.logf("deregister %s", id)
	}
}

// start runs a new process of the allocation, in place of the old one.
func (s *sim) start(id string) {
	s.process++
	a := &agent{id: id, process: s.process, alive: true}
	s.kill(id)
	a.m = New(Config{
		Self:    Peer{AllocID: id, Group: "g", Index: int(id[0] - 'a'), Addr: id},
		Process: a.process, Retry: 300 * ms, Fresh: 2 * time.Second, Advice: 15 * time.Second, First: s.first,
	})
	s.agents[id] = a
	s.logf("start %s", id)
	s.poll(a)
}

func (s *sim) kill(id string) {
	if a := s.agents[id]; a != nil && a.alive {
		a.alive = false
		s.died[Process{id, a.process}] = s.now
		s.logf("kill %s", id)
	}
}

// poll reads the registry repeatedly, as a blocking query does.
func (s *sim) poll(a *agent) {
	if !a.alive {
		return
	}
	s.read(a)
	s.after(20*ms+s.random(600*ms), func() { s.poll(a) })
}

// read reads the registry once. The content is from some time between the request
// and the answer.
func (s *sim) read(a *agent) {
	asked := s.now
	s.after(s.random(20*ms), func() {
		if s.away[a.id] {
			return
		}
		v := View{At: asked, Index: s.index}
		for _, id := range sortedKeys(s.reg) {
			v.Peers = append(v.Peers, s.reg[id])
		}
		late := s.random(20 * ms)
		if s.rnd.IntN(20) == 0 {
			late = s.random(3 * time.Second)
		}
		s.after(late, func() {
			if a.alive {
				s.do(a, a.m.View(s.now, v))
			}
		})
	})
}

// do executes a machine's actions.
func (s *sim) do(a *agent, acts []Action) {
	for _, act := range acts {
		switch act := act.(type) {
		case Call:
			s.call(a, act)
		case Refresh:
			s.read(a)
		case Follow:
			a.leads = act.Leadership
			s.logf("%s follows %q at %d", a.id, act.Leadership.Leader.AllocID, act.Leadership.Term)
			if l := act.Leadership; l.Leader.AllocID != "" && !l.Self {
				s.session(a, l)
			}
		case Formed:
			s.logf("%s formed %v: %v", a.id, act.Ring, act.Err)
			if act.Err == nil {
				s.check(a, act)
			}
		}
	}
	s.arm(a)
}

func (s *sim) arm(a *agent) {
	next, ok := a.m.Next()
	if !ok || next == a.tick {
		return
	}
	a.tick = next
	s.after(max(0, next-s.now), func() {
		if a.alive && a.tick == next {
			a.tick = 0
			s.do(a, a.m.Tick(s.now))
		}
	})
}

// session watches the leader as an agent's stream does. It breaks some time after
// the leader has died, was cut off, or no longer leads.
func (s *sim) session(a *agent, l Leadership) {
	s.after(s.random(400*ms), func() {
		if !a.alive || a.leads != l {
			return
		}
		leader := s.agents[l.Leader.AllocID]
		if leader.alive && !s.cut[link(a.id, leader.id)] && leader.m.Leadership().Self {
			s.session(a, l)
			return
		}
		s.do(a, a.m.LeaderLost(s.now, l.Term))
	})
}

// call carries a request there and the reply back, or neither.
func (s *sim) call(a *agent, c Call) {
	if c.Request.Kind == Probe {
		s.probes++
	}
	end := func(o Outcome, r Reply) {
		if a.alive {
			s.do(a, a.m.Answer(s.now, c.ID, o, r))
		}
	}
	lost := func() bool { return s.cut[link(a.id, c.To.AllocID)] || s.rnd.Float64() < s.loss }
	delay := func() time.Duration {
		if s.rnd.IntN(30) == 0 {
			return s.random(900 * ms)
		}
		return s.random(5 * ms)
	}
	limit := s.now + time.Second
	timeout := func() { s.after(max(0, limit-s.now), func() { end(Unknown, Reply{}) }) }
	if lost() {
		timeout()
		return
	}
	s.after(delay(), func() {
		b := s.agents[c.To.AllocID]
		if b == nil || !b.alive {
			s.after(delay(), func() { end(Refused, Reply{}) })
			return
		}
		reply, acts := b.m.Receive(s.now, c.Request)
		s.do(b, acts)
		back := delay()
		if lost() || s.now+back > limit {
			timeout()
			return
		}
		s.after(back, func() { end(Answered, reply) })
	})
}

// tryForm lets the agent, if it leads, ask for a ring of all its followers, or
// of some that it takes for followers.
func (s *sim) tryForm(id string, all bool) {
	a := s.agents[id]
	if a == nil || !a.alive || !a.m.Leadership().Self {
		return
	}
	var hosts []string
	for _, other := range sortedKeys(s.agents) {
		b := s.agents[other]
		_, acked := a.m.acked[other]
		follows := b.alive && b.m.Leadership().Leader.AllocID == id
		if (all && follows) || (!all && (acked || other == id) && s.rnd.IntN(3) > 0) {
			hosts = append(hosts, other)
		}
	}
	if !all {
		s.rnd.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	}
	s.logf("%s asks for %v", id, hosts)
	s.do(a, a.m.Propose(s.now, a.m.Rings().Latest().Generation+1, hosts))
}
