// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"net/url"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

// gpuUtilization is the statistic that Kolo's and NVIDIA's device plugins call so.
const gpuUtilization = "GPU utilization"

// Utilization is a reading of a GPU.
type Utilization struct {
	Percent float64   // of the time in which a kernel was executing
	At      time.Time // by the clock of the GPU's node
}

// wireStats holds the needed part of a node's statistics.
type wireStats struct {
	DeviceStats []struct {
		InstanceStats map[string]struct {
			Timestamp time.Time
			Stats     struct{ Attributes map[string]wireStat }
		}
	}
}

type wireStat struct {
	IntNumeratorVal   *int64
	FloatNumeratorVal *float64
	Unit              string
}

// percent returns the value of a statistic that is stated in percent.
func (s *wireStat) percent() (p float64, ok bool) {
	switch {
	case s.Unit != "%":
		return 0, false
	case s.IntNumeratorVal != nil:
		p = float64(*s.IntNumeratorVal)
	case s.FloatNumeratorVal != nil:
		p = *s.FloatNumeratorVal
	default:
		return 0, false
	}
	return p, p >= 0
}

// Utilization returns the last reading of each GPU of a node by device ID, without GPUs
// whose utilization is unknown. A server forwards the request to the node's client.
func (c *Client) Utilization(ctx context.Context, node string) (map[string]Utilization, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var stats wireStats
	q := (&api.QueryOptions{}).WithContext(ctx)
	if _, err := c.Raw().Query("/v1/client/stats?node_id="+url.QueryEscape(node), &stats, q); err != nil {
		return nil, err
	}
	out := map[string]Utilization{}
	for _, group := range stats.DeviceStats {
		for id, d := range group.InstanceStats {
			stat := d.Stats.Attributes[gpuUtilization]
			if p, ok := stat.percent(); ok && !d.Timestamp.IsZero() {
				out[id] = Utilization{Percent: p, At: d.Timestamp}
			}
		}
	}
	return out, nil
}

// JobGPUs are the GPUs that a job's allocations hold, without those that Nomad is stopping.
type JobGPUs struct {
	GPUs   []GPU
	Newest uint64 // CreateIndex of the newest of these allocations
}

// GPUsOf returns the GPUs of each of these jobs. It omits a job without GPUs, and a job one
// of whose allocations does not run, has unknown resources, or is on a node that is not
// ready.
func (w *Watcher) GPUsOf(jobs map[identity.JobKey]bool) map[identity.JobKey]JobGPUs {
	out, unknown := map[identity.JobKey]JobGPUs{}, map[identity.JobKey]bool{}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, a := range w.store.allocs {
		if !jobs[a.job] || a.over || a.ending {
			continue
		}
		n := w.store.nodes[a.node]
		if !a.running || a.bare || n == nil || n.Status != api.NodeStatusReady {
			unknown[a.job] = true
		}
		held := out[a.job]
		held.GPUs, held.Newest = append(held.GPUs, a.gpus()...), max(held.Newest, a.made)
		out[a.job] = held
	}
	for key, held := range out {
		if unknown[key] || len(held.GPUs) == 0 {
			delete(out, key)
		}
	}
	return out
}
