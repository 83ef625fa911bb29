// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package election

import (
	"fmt"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Many agents find one leader, after they start and after it dies, with less than a half of the
// requests of agents that always ask all others. A newcomer asks a few.
func TestManyAgentsAskFewOthers(t *testing.T) {
	const agents, first = 64, 8
	for seed := range uint64(2) {
		s := newSim(seed)
		s.first = first
		for i := range agents {
			id := fmt.Sprintf("%c%03d", 'a'+i%20, i)
			s.register(id)
			s.after(s.random(2*time.Second), func() { s.start(id) })
		}
		asked := func(limit int, what string) string {
			t.Helper()
			s.probes = 0
			s.run(15 * time.Second)
			leader := ""
			for id, a := range s.agents {
				if !a.alive {
					continue
				}
				now := a.m.Leadership()
				must.NotEq(t, "", now.Leader.AllocID, must.Sprint(what, ": ", id, " follows no one"))
				if leader == "" {
					leader = now.Leader.AllocID
				}
				must.EqOp(t, leader, now.Leader.AllocID, must.Sprint(what))
			}
			t.Logf("%s: %d requests", what, s.probes)
			must.LessEq(t, limit, s.probes, must.Sprint(what))
			return leader
		}
		leader := asked(agents*agents, "start")
		s.kill(leader)
		s.deregister(leader)
		must.NotEq(t, leader, asked(2*agents*agents, "leader lost"))
		s.register("t999")
		s.start("t999")
		asked(4*first, "newcomer")
	}
}
