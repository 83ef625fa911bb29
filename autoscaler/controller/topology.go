// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/controller/report"
)

// Topology returns the topology of each pool in the last round, with its free and used
// slots, and how far apart the workers of jobs are.
func (c *Controller) Topology() ([]api.PoolTopology, error) {
	c.mu.Lock()
	v := c.view
	c.mu.Unlock()
	if v == nil {
		return nil, cluster.ErrNotReady
	}
	return report.Topology(v), nil
}
