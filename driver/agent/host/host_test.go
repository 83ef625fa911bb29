// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// A failure of an hour ago no longer counts on the host, as on the leader.
func TestAHostForgivesFailures(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 2}}, ID: "h", Logger: hclog.NewNullLogger()})
	spawner, err := process.NewSpawner("")
	must.NoError(t, err)
	defer spawner.Close()
	s := h.slots[0]
	fail := func() {
		p, err := spawner.Start(process.Spec{Command: "false"})
		must.NoError(t, err)
		<-p.Done()
		s.State, s.Incarnation = elastic.InRing, s.Incarnation+1
		s.proc = p
		h.exited(s, s.proc, h.proc(0))
	}
	for range 3 {
		fail()
	}
	report := h.register().Info.Slots[0]
	must.Eq(t, 3, report.Failures)
	must.Between(t, 0, report.FailedAgo, 60)

	s.failed = s.failed.Add(-time.Hour)
	report = h.register().Info.Slots[0]
	must.Eq(t, 0, elastic.Forgive(report.Failures, time.Duration(report.FailedAgo*float64(time.Second))))
	fail()
	report = h.register().Info.Slots[0]
	must.Eq(t, 1, report.Failures)
	must.Between(t, 0, report.FailedAgo, 60)

	must.Eq(t, elastic.SlotReport{}, h.register().Info.Slots[1], must.Sprint("it never failed"))
}

func TestTheEarlierEndCounts(t *testing.T) {
	up, down := wire.Pipe()
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "h", Logger: hclog.NewNullLogger()})
	h.session = up
	leave := func(in time.Duration) { h.Leave(in); (<-h.todo)() }
	reported := func() { m, err := down.Recv(); must.NoError(t, err); must.NotNil(t, m.Leaving) }
	leave(time.Hour) // leave_timeout, and then Nomad stops the task
	must.Between(t, 30*time.Minute, time.Until(h.deadline), time.Hour)
	reported()
	leave(time.Minute)
	must.Between(t, 0, time.Until(h.deadline), time.Minute)
	reported()
	leave(time.Hour)
	must.Less(t, 30*time.Minute, time.Until(h.deadline), must.Sprint("a stop is never put off"))
}

// A host remembers the last notice for the next leader.
func TestAHostReportsItsLastNotice(t *testing.T) {
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}}, ID: "b", Logger: hclog.NewNullLogger()})
	h.handle(&wire.ToAgent{Notify: &wire.Notify{Notify: elastic.Notify{Generation: 1}, Timestamp: 4711}})
	must.Eq(t, 4711, h.register().Noticed)
}

// The host changes its ring when a process is replaced while the ring forms. Messages on
// their way must have their own copies.
func TestRingsAreNotShared(t *testing.T) {
	t.Parallel()
	h := New(Options{Framework: framework{}, Config: config.Config{AllocID: "a", Training: settings.Training{Slots: 1}}, ID: "a", Logger: hclog.NewNullLogger()})
	defer h.quit()
	sent := &elastic.Ring{Generation: 1, Members: []elastic.Member{{Proc: elastic.Proc{Slot: elastic.SlotID{Host: "a"}, Incarnation: 1},
		Assignment: elastic.Assignment{Size: 1, LocalSize: 1, CrossSize: 1}}}}
	h.form(sent)
	defer h.exchange.Close()
	reported := h.register().Info.Ring
	h.ring.Members[0].Proc.Incarnation = 3
	must.Eq(t, 1, sent.Members[0].Proc.Incarnation)
	must.Eq(t, 1, reported.Members[0].Proc.Incarnation)
}

// keeper is an endpoint that records what its process is told about its batch.
type keeper struct {
	endpoint
	told *[]bool
}

func (k keeper) KeepBatch(keep bool) { *k.told = append(*k.told, keep) }

// A host passes on what the leader's status states about the batch, once, also to processes
// that start later.
func TestAHostPassesOnToKeepTheBatch(t *testing.T) {
	var told []bool
	h := New(Options{Framework: keepers{told: &told}, Config: config.Config{Training: settings.Training{Slots: 2}}, ID: "h", Logger: hclog.NewNullLogger()})
	h.slots[0].endpoint = keeper{told: &told}
	hear := func(keeps bool) { h.handle(&wire.ToAgent{Status: &wire.Status{KeepsBatch: keeps}}) }
	hear(false)
	hear(true)
	hear(true)
	must.Eq(t, []bool{true}, told)
	h.newEndpoint(elastic.Start{})
	must.Eq(t, []bool{true, true}, told)
	hear(false)
	must.Eq(t, []bool{true, true, false}, told)
}

// keepers is a framework whose endpoints are keepers.
type keepers struct {
	framework
	told *[]bool
}

func (k keepers) NewEndpoint(bool, Events) Endpoint { return keeper{told: k.told} }
