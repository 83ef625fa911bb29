// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// BindReplica sets Replica to its default and returns the setting that fills it. It is for
// frameworks that can shard a model among some processes and replicate it.
func (t *Training) BindReplica() Setting {
	return Count(&t.Replica, "replica", 1, 1, "processes that share one copy of a sharded model")
}

// Uneven returns a problem for each of MinNP, NP and MaxNP that is not a multiple of
// Replica. It also returns one if Slots, which is for one host, is neither a multiple nor a
// divisor of Replica. If it is a divisor, a replica consists of whole hosts.
func (t *Training) Uneven() (problems problem.List) {
	text := fmt.Sprintf("is no multiple of replica = %d", t.Replica)
	for _, c := range []struct {
		name  string
		value int
	}{{"min_np", t.MinNP}, {"np", t.NP}, {"max_np", t.MaxNP}} {
		if above := c.value % t.replica(); above > 0 {
			remedy := fmt.Sprintf("set it to %d", c.value-above+t.replica())
			if c.value > t.replica() {
				remedy = fmt.Sprintf("set it to %d or %d", c.value-above, c.value-above+t.replica())
			}
			problems.Add("config."+c.name, c.value, text, remedy)
		}
	}
	if t.Slots > 0 && t.Slots%t.replica() > 0 && t.replica()%t.Slots > 0 {
		problems.Add("config.slots", t.Slots, text, "set it (or the device count) to a multiple or a divisor of replica, so that no two replicas share a host in part")
	}
	return problems
}

// replica returns Replica, or 1 if it is not bound.
func (t *Training) replica() int { return max(t.Replica, 1) }
