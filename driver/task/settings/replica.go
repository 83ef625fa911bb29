// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import "fmt"

// BindReplica sets Replica to its default and returns the setting that fills it. It is
// for frameworks whose models can be sharded among some processes and replicated.
func (t *Training) BindReplica() Setting {
	return Count(&t.Replica, "replica", 1, 1, "processes that share one copy of a sharded model")
}

// Uneven is a setting whose number of processes is not a multiple of Replica.
type Uneven struct {
	Name   string // of the setting
	Value  int
	Remedy string
}

// Uneven returns the numbers that are no multiples of Replica. The slots of a host may
// be a part of a replica as well: then a replica has whole hosts.
func (t *Training) Uneven() []Uneven {
	var list []Uneven
	for _, c := range []Uneven{{Name: "min_np", Value: t.MinNP}, {Name: "np", Value: t.NP}, {Name: "max_np", Value: t.MaxNP}} {
		if above := c.Value % t.replica(); above > 0 {
			c.Remedy = fmt.Sprintf("set it to %d", c.Value-above+t.replica())
			if c.Value > t.replica() {
				c.Remedy = fmt.Sprintf("set it to %d or %d", c.Value-above, c.Value-above+t.replica())
			}
			list = append(list, c)
		}
	}
	if t.Slots > 0 && t.Slots%t.replica() > 0 && t.replica()%t.Slots > 0 {
		list = append(list, Uneven{"slots", t.Slots, "set it (or the device count) to a multiple or a divisor of replica, so that no two replicas share a host in part"})
	}
	return list
}

// replica is Replica, 1 where it is not bound.
func (t *Training) replica() int { return max(t.Replica, 1) }
