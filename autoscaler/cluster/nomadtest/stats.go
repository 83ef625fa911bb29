// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nomadtest

import (
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"
)

// SetUtilization sets the utilization of all GPUs of a job's workers. A negative one is
// unknown, like that of GPUs for which it was never set.
func (c *Cluster) SetUtilization(job string, percent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.workers(job) {
		for _, id := range a.devices {
			c.nodes[a.Node].busy[id] = percent
		}
	}
}

// SetGPU sets the utilization of one GPU of a node, like SetUtilization.
func (c *Cluster) SetGPU(node, gpu, percent int) {
	c.ChangeNode(node, func(n *Node) { n.busy[n.ids[gpu]] = percent })
}

// clientStats answers for the client of a node. Nomad answers 404 if it has no connection
// to it.
func (c *Cluster) clientStats(w http.ResponseWriter, r *http.Request) {
	if !c.may(r) {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[r.URL.Query().Get("node_id")]
	if n == nil || n.State != api.NodeStatusReady {
		http.Error(w, "No path to node", http.StatusNotFound)
		return
	}
	c.json(w, n.stats(time.Now()))
}

// stats returns what the node's client measured.
func (n *Node) stats(now time.Time) map[string]any {
	instances := map[string]any{}
	for _, id := range n.ids {
		value := map[string]any{"Unit": "%", "Desc": "Time in which a kernel was executing", "StringVal": "N/A"}
		if percent, known := n.busy[id]; known && percent >= 0 {
			delete(value, "StringVal")
			value["IntNumeratorVal"] = percent
		}
		instances[id] = map[string]any{"Timestamp": now, "Stats": map[string]any{"Attributes": map[string]any{"GPU utilization": value}}}
	}
	return map[string]any{"DeviceStats": []any{map[string]any{"Vendor": "nvidia", "Type": "gpu", "Name": n.Model, "InstanceStats": instances}}}
}
