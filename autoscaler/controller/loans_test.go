// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
)

// lent is a pool of 16 slots with one elastic job that takes all slots that it may, and jobs
// of one namespace that are not elastic. Time passes in steps of a second.
type lent struct {
	loans
	o       planner.Options
	now     time.Time
	elastic int
	jobs    map[string]*rigid
	paused  int           // times
	vain    time.Duration // for which all slots were kept and free, and no job could use them
}

// rigid is a job that is not elastic, of one slot per worker.
type rigid struct {
	workers, placed int
	never           bool          // Nomad places none of it, for a reason that is not read
	lasts           time.Duration // since all were placed
	until           time.Time
}

func newLent() *lent {
	return &lent{o: planner.DefaultOptions(), now: time.Unix(1e9, 0), elastic: lentSlots, jobs: map[string]*rigid{}}
}

const lentSlots = 16

// view returns the autoscaler's view of the pool.
func (l *lent) view() *cluster.View {
	v := &cluster.View{Others: map[identity.JobKey]int{}}
	free := lentSlots
	for name, j := range l.jobs {
		key := identity.JobKey{Namespace: "team", ID: name}
		if n := j.workers - j.placed; n > 0 {
			v.Blocked = append(v.Blocked, cluster.Blocked{Key: key, Pool: "p", Priority: 50, Workers: n, Slots: n, Worker: 1})
		}
		if j.placed > 0 {
			v.Others[key] = j.placed
		}
		free -= j.placed
	}
	group := planner.Group{Count: l.elastic}
	group.Need.Slots = 1
	for range l.elastic {
		group.Live = append(group.Live, planner.Worker{})
	}
	v.Nodes = []planner.Node{{Pool: "p", Bins: []planner.Bin{{Slots: free}}}}
	v.Jobs = []planner.Job{{Pool: "p", Priority: 50, Groups: []planner.Group{group}}}
	v.Facts = []cluster.Facts{{Observation: history.Observation{Slots: 1}}}
	return v
}

// second lets a second pass. The elastic job releases slots that are kept free, or takes
// those that are not. Then Nomad places the workers that fit.
func (l *lent) second() {
	l.now = l.now.Add(time.Second)
	v := l.view()
	l.paused += len(l.observe(v, l.now, &l.o))
	l.keep(v, l.now, &l.o)
	free := ready(v, "p")
	l.elastic = free - v.Reserved["p"]
	free -= l.elastic
	for _, j := range l.jobs {
		if n := min(j.workers-j.placed, free); n > 0 && !j.never {
			j.placed += n
			free -= n
		}
		switch {
		case j.placed < j.workers:
		case j.until.IsZero():
			j.until = l.now.Add(j.lasts)
		case !l.now.Before(j.until):
			j.workers, j.placed = 0, 0
		}
	}
	l.vain += time.Second * time.Duration(free) / lentSlots
}

// The elastic job gets the room back, each time for longer.
func TestLoans_AJobThatIsNeverPlaced(t *testing.T) {
	l := newLent()
	l.jobs["never"] = &rigid{workers: 16, never: true}
	var lasted []time.Duration // without room
	for range 2 * 3600 {
		l.second()
		if l.isPaused(loanKey{"p", "team"}, l.now) {
			if len(lasted) < l.paused {
				lasted = append(lasted, 0)
			}
			lasted[len(lasted)-1] += time.Second
			must.Eq(t, lentSlots, l.elastic)
		}
	}
	must.Eq(t, []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 16 * time.Minute}, lasted[:5])
}

// For a day, a tenant registers jobs again and again, with other names and sizes. Some are
// never placed, others are placed and end.
func TestLoans_NoNameGivesTimeBack(t *testing.T) {
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLent()
		const day = 8 * time.Hour
		begin := l.now
		every := 1 + r.IntN(40) // seconds between its deeds
		for l.now.Sub(begin) < day {
			if r.IntN(every) == 0 {
				name := fmt.Sprint("job-", r.IntN(1000))
				switch r.IntN(6) {
				case 0: // all others go
					clear(l.jobs)
					l.jobs[name] = &rigid{workers: 16, never: true}
				case 1, 2:
					l.jobs[name] = &rigid{workers: 1 + r.IntN(16), never: true}
				case 3:
					l.jobs[name] = &rigid{workers: 1, lasts: time.Duration(r.IntN(20)) * time.Second}
				case 4: // a worker that ends and is placed again
					for _, j := range l.jobs {
						j.placed = max(0, j.placed-1)
					}
				default:
					for other := range l.jobs {
						delete(l.jobs, other)
						break
					}
				}
			}
			l.second()
		}
		most := day/20 + longestPause*l.o.PlacementTimeout
		must.LessEq(t, most, l.vain, must.Sprintf("seed %d", seed))
		must.Positive(t, l.paused)
	}
}

// Many times, Nomad places the jobs within seconds after there is room.
func TestLoans_HonestJobsAreNotPaused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l := newLent()
	for i := range 2 * 3600 {
		if r.IntN(120) == 0 {
			l.jobs[fmt.Sprint("job-", i)] = &rigid{workers: 1 + r.IntN(20), lasts: time.Duration(1+r.IntN(300)) * time.Second}
		}
		l.second()
		for name, j := range l.jobs {
			if j.workers == 0 {
				delete(l.jobs, name)
			}
		}
	}
	must.Zero(t, l.paused)
	must.MapLen(t, 1, l.of)
	clear(l.jobs)
	for range 2 {
		l.second()
	}
	must.MapEmpty(t, l.of, must.Sprint("nothing is kept of a namespace without waste"))
}

// A job has more workers than there are slots. Each worker that ends makes room for the next
// one, which Nomad places within a second.
func TestLoans_ManyShortWorkers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l := newLent()
	j := &rigid{workers: 10_000}
	l.jobs["array"] = j
	for range 2 * 3600 {
		for range j.placed {
			if r.IntN(60) == 0 {
				j.placed--
				j.workers--
			}
		}
		l.second()
		must.Zero(t, l.paused)
	}
}

// The job that waits has one worker, which needs eight slots of a pool of 16.
func TestLoans_WorkersOfSeveralSlots(t *testing.T) {
	big := identity.JobKey{Namespace: "team", ID: "big"}
	small := identity.JobKey{Namespace: "team", ID: "small"}
	o, now := planner.DefaultOptions(), time.Unix(1e9, 0)
	var l loans
	// view returns a pool whose elastic jobs hold a number of slots and need at least some.
	view := func(held, least int, blocked ...cluster.Blocked) *cluster.View {
		group := planner.Group{Count: held}
		group.Need.Slots = 1
		for range held {
			group.Live = append(group.Live, planner.Worker{})
		}
		v := &cluster.View{Blocked: blocked, Facts: []cluster.Facts{{Observation: history.Observation{Slots: 1}}}}
		v.Nodes = []planner.Node{{Pool: "p", Bins: []planner.Bin{{Slots: lentSlots}}}}
		v.Jobs = []planner.Job{{Pool: "p", Priority: 50, Min: least, Groups: []planner.Group{group}}}
		return v
	}
	look := func(held, least int, blocked ...cluster.Blocked) *cluster.View {
		now = now.Add(10 * time.Second)
		v := view(held, least, blocked...)
		must.SliceEmpty(t, l.observe(v, now, &o))
		l.keep(v, now, &o)
		return v
	}
	waits := cluster.Blocked{Key: big, Pool: "p", Priority: 50, Workers: 1, Slots: 8, Worker: 8}

	t.Log("elastic jobs leave seven slots at once, and take their time for the last one")
	for range 12 {
		must.Eq(t, 8, look(9, 4, waits).Reserved["p"])
	}
	l = loans{}

	t.Log("elastic jobs can do without seven slots only")
	for range 30 {
		must.MapNotContainsKey(t, look(9, 9, waits).Reserved, "p")
	}
	must.Eq(t, 2, look(9, 9, waits, cluster.Blocked{Key: small, Pool: "p", Priority: 50, Workers: 2, Slots: 2, Worker: 1}).Reserved["p"])

	t.Log("the last slot never becomes free")
	l = loans{}
	begin := now
	for !l.isPaused(loanKey{"p", "team"}, now) {
		now = now.Add(10 * time.Second)
		v := view(9, 4, waits)
		l.observe(v, now, &o)
		l.keep(v, now, &o)
		must.Less(t, 3*time.Minute, now.Sub(begin))
	}
}
