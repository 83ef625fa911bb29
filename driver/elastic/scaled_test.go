// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package elastic

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// scaledOptions are those of a job whose spares the autoscaler decides.
var scaledOptions = Options{NP: 2, MinNP: 1, SlotRestarts: 2, Framework: torch}

func sized(train, spare int) Scaled {
	return Scaled{Groups: map[string]GroupSize{"g": {Train: train, Spare: spare}}}
}

// withScaledSpare returns hosts a and b that train and c, which the autoscaler has added as a
// spare.
func withScaledSpare(t *testing.T) *script {
	t.Helper()
	s := newScript(t, scaledOptions)
	s.event(sized(2, 1))
	for i, host := range []string{"a", "b", "c"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.expect("start a:0 0/2", "start b:0 1/2")
	s.arrive("a:0", "b:0")
	s.expect("form 1: a:0 b:0")
	s.up("a:0", "b:0")
	s.expect("start c:0 2/3")
	s.arrive("c:0")
	s.wait(time.Hour)
	s.expect()
	must.Eq(t, 1, s.m.SparesReady())
	return s
}

func TestScaledSpareReplacesALostHost(t *testing.T) {
	s := withScaledSpare(t)
	s.replaceB()
	s.joinAs("d", 1)
	s.wait(time.Second)
	s.expect("start d:0 2/3") // the replacement is the next spare
}

// Nomad stops the host with the highest index. If that is the spare, the ring does not change.
func TestScaledSpareIsGivenBack(t *testing.T) {
	s := withScaledSpare(t)
	s.event(sized(2, 0))
	s.event(HostLeaving{Host: "c"})
	s.expect("stop c:0")
	s.event(HostLost{"c"})
	s.wait(time.Hour)
	s.expect()
	must.Len(t, 2, s.m.Ring().Members)
}

// If Nomad stops a member of the ring, the spare replaces it in the next ring, which has the
// same size.
func TestMemberIsStoppedInPlaceOfTheSpare(t *testing.T) {
	s := withScaledSpare(t)
	s.event(HostLeaving{Host: "b", Within: time.Minute})
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0 c:0", "retire b:0")
	s.up("a:0", "c:0")
	s.event(HostLost{"b"})
	s.event(sized(2, 0))
	s.wait(time.Hour)
	s.expect()
	must.Len(t, 2, s.m.Ring().Members)
}

func TestScaledCountGrows(t *testing.T) {
	s := withScaledSpare(t)
	s.event(sized(3, 1))
	s.expect("notify a:0") // by the spare, at once
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0 b:0 c:0")
	s.up("a:0", "b:0", "c:0")
	s.joinAs("d", 3)
	s.wait(time.Second)
	s.expect("start d:0 3/4")
}

// The size and the number of spares are independent: the count falls by a member of the ring,
// and the spare stays a spare.
func TestScaledCountShrinks(t *testing.T) {
	s := withScaledSpare(t)
	s.event(sized(1, 1))
	s.expect() // the ring waits for the host that leaves
	s.event(HostLeaving{Host: "b", Within: time.Minute})
	s.expect("notify a:0")
	s.waiting("a:0", "b:0")
	s.expect("form 2: a:0", "retire b:0")
	s.up("a:0")
	s.event(HostLost{"b"})
	s.wait(time.Hour)
	s.expect()
	must.Eq(t, 1, s.m.SparesReady())
}

// A count that the autoscaler did not write has no spares, and one that it wrote for another
// group does not concern this one.
func TestNotScaled(t *testing.T) {
	for name, ev := range map[string]Scaled{"by hand": {}, "another group": {Groups: map[string]GroupSize{"other": {}}}} {
		t.Run(name, func(t *testing.T) {
			s := withScaledSpare(t)
			s.event(ev)
			s.expect("notify a:0")
			s.waiting("a:0", "b:0")
			s.expect("form 2: a:0 b:0 c:0")
		})
	}
}

// A process that can't change its ring replaces no other, so all hosts train.
func TestScaledWithoutSpares(t *testing.T) {
	o := scaledOptions
	o.Restarts = true
	s := newScript(t, o)
	s.event(sized(2, 1))
	must.False(t, s.m.CanKeepSpares())
	for i, host := range []string{"a", "b", "c"} {
		s.joinAs(host, i)
	}
	s.wait(time.Second)
	s.expect("start a:0 0/3", "start b:0 1/3", "start c:0 2/3")
}
