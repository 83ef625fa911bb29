// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A host is an entry of the host list, with its slots.
type host struct {
	name  string
	slots int
}

func (h host) String() string { return fmt.Sprintf("%s:%d", h.name, h.slots) }

// A kind is a kind of disturbance.
type kind int

const (
	rehost kind = iota // the host list changes
	kill               // processes get SIGKILL
	freeze             // a process is stopped for a while
	slow               // processes that start from now on take longer
)

// An action is one event in a job, after a pause.
type action struct {
	pause time.Duration
	kind  kind
	hosts []host // rehost: the new list
	// victims selects among the running processes, by numbers in [0, 1) (kill,
	// freeze).
	victims []float64
	spare   bool          // not the first slot of the first host (rehost, kill)
	length  time.Duration // freeze and slow
}

func (a action) String() string {
	switch a.kind {
	case rehost:
		return "hosts " + strings.Trim(fmt.Sprint(a.hosts), "[]")
	case kill:
		return fmt.Sprintf("kill %d", len(a.victims))
	case freeze:
		return fmt.Sprintf("freeze 1 for %s", a.length)
	default:
		return fmt.Sprintf("newcomers start %s later", a.length)
	}
}

// names are the hosts that may be listed.
var names = []string{"a", "b", "c"}

// A plan draws actions; the same seed gives the same actions.
type plan struct {
	rnd      *rand.Rand
	maxRanks int
	hosts    []host // as listed last
	// spares excludes the first slot of the first host, except in one of six
	// bursts. Its process gets old enough to show what it retains of each ring.
	spares bool
	burst  int           // actions before training runs undisturbed
	pause  time.Duration // longest between two actions
	drawn  int           // number of actions
}

func newPlan(seed uint64, maxRanks int, spares bool) *plan {
	p := &plan{rnd: rand.New(rand.NewPCG(seed, 0)), maxRanks: maxRanks, spares: spares, burst: 8, pause: 5 * time.Second, hosts: []host{{names[0], min(2, maxRanks)}}}
	if spares {
		p.burst, p.pause = 32, 2500*time.Millisecond // many changes in a short time
	}
	return p
}

// next draws an action. Half of the pauses are so short that it interferes with the
// effects of the previous action.
func (p *plan) next() action {
	a := action{pause: time.Duration(p.rnd.IntN(500)) * time.Millisecond, spare: p.spares && p.drawn/p.burst%6 < 5}
	p.drawn++
	if p.rnd.IntN(2) == 0 {
		a.pause = 500*time.Millisecond + time.Duration(p.rnd.IntN(int(p.pause.Milliseconds())-500))*time.Millisecond
	}
	switch n := p.rnd.IntN(20); {
	case n < 9:
		a.kind, a.hosts = rehost, p.list(a.spare)
		p.hosts = a.hosts
	case n < 17:
		a.kind = kill
		for range 1 + p.rnd.IntN(3) {
			a.victims = append(a.victims, p.rnd.Float64())
		}
	case n < 19:
		a.kind, a.victims = freeze, []float64{p.rnd.Float64()}
		a.length = time.Duration(100+p.rnd.IntN(2900)) * time.Millisecond
	default:
		a.kind, a.length = slow, time.Duration(p.rnd.IntN(3000))*time.Millisecond
	}
	return a
}

// list draws a host list of at most maxRanks slots and at least one, which is the
// first host's if that one is spared.
func (p *plan) list(spare bool) []host {
	var hosts []host
	left := p.maxRanks
	for _, name := range names {
		slots := p.rnd.IntN(4)
		if spare && name == names[0] {
			slots = max(slots, 1)
		}
		if slots > 0 && left > 0 {
			hosts = append(hosts, host{name, min(slots, left)})
			left -= min(slots, left)
		}
	}
	if len(hosts) == 0 {
		hosts = []host{{names[p.rnd.IntN(len(names))], 1}}
	}
	return hosts
}

// slots returns the number of slots of all hosts.
func slots(hosts []host) int {
	n := 0
	for _, h := range hosts {
		n += h.slots
	}
	return n
}
