// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// Four hosts are in two racks, c1 and c3, c2 and c4, so that indices alternate between the
// racks, with 200 Mbit/s from rack to rack. Ranks follow the racks if the job has a
// topology. The test reports how much faster an allreduce of 10 MB is then.
func TestTopology(t *testing.T) {
	ctx := testContext(t, 8*time.Minute)
	c := startCluster(t, cluster.Options{Clients: 4})
	racks := map[string]string{"c1": "r1", "c2": "r2", "c3": "r1", "c4": "r2"}
	err := c.PutInRack(ctx, "200mbit", c.Nodes[1], c.Nodes[3])
	if errors.Is(err, cluster.ErrShared) || errors.Is(err, cluster.ErrNoRate) {
		t.Skip(err)
	}
	must.NoError(t, err)
	for _, n := range c.Nodes {
		_, err := c.API.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: n.ID, Meta: map[string]*string{"block": ptr("b1"), "rack": ptr(racks[n.Name])}}, nil)
		must.NoError(t, err)
	}
	index := testRankOrder(ctx, t, c, "index", nil, "c1", "c2", "c3", "c4")
	topology := testRankOrder(ctx, t, c, "topology", map[string]any{"topology": "${meta.block}/${meta.rack}"}, "c1", "c3", "c2", "c4")
	t.Logf("a step with an allreduce of 10 MB: %d ms in the order of indices, %d ms in that of the racks: %.2f times as fast",
		index.Milliseconds(), topology.Milliseconds(), float64(index)/float64(topology))
}

// testRankOrder trains on a host of each node, group w1 on c1 and so on, checks on which
// nodes ranks are, and returns the median time of a step.
func testRankOrder(ctx context.Context, t *testing.T, c *cluster.Cluster, name string, config map[string]any, want ...string) (step time.Duration) {
	const steps = 10
	t.Run(name, func(t *testing.T) {
		config := maps.Clone(config)
		if config == nil {
			config = map[string]any{}
		}
		config["np"], config["min_np"] = len(want), len(want)
		tr := startTraining(ctx, t, c, trainingOptions{
			args: []string{"--ballast=10", "--step-time=0"}, config: config, edit: onEachNode(c),
		})
		tr.waitSize(ctx, len(want))
		tr.waitProgress(ctx, steps)
		var got []string
		for rank := range want {
			got = append(got, tr.allocOf(ctx, rank).NodeName)
		}
		must.Eq(t, want, got, must.Sprint("the nodes of the ranks"))
		step = medianStep(tr.record().Leading(), steps)
	})
	return step
}

// onEachNode puts the job's only group on each node, under a name of its own.
func onEachNode(c *cluster.Cluster) func(*api.Job) {
	return func(job *api.Job) {
		group := job.TaskGroups[0]
		job.TaskGroups = nil
		for i, n := range c.Nodes {
			own := *group
			own.Name, own.Count, own.Scaling = ptr(fmt.Sprintf("w%d", i+1)), ptr(1), nil
			own.Constraints = append(slices.Clone(group.Constraints), api.NewConstraint("${node.unique.id}", "=", n.ID))
			job.TaskGroups = append(job.TaskGroups, &own)
		}
	}
}

// medianStep returns the median time between the last n steps of rank 0.
func medianStep(leading train.Record, n int) time.Duration {
	var times []time.Duration
	for i := len(leading) - n; i < len(leading); i++ {
		times = append(times, leading[i].Time().Sub(leading[i-1].Time()))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
