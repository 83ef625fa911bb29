// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// imports is how long a training process of the tests with spares takes to start.
const imports = 10 * time.Second

// A node is lost with its Nomad client and all its tasks. A spare host replaces it long before
// a new process could have started, and the next spare starts.
func TestSpareHostReplacesANode(t *testing.T) {
	const size = 3
	ctx := testContext(t, 20*time.Minute)
	c := startTorchClusterOf(t, size+1)
	for name, lost := range map[string]struct{ rank, spares int }{
		"without a spare":    {1, 0},
		"the host of rank 1": {1, 1},
		"the host of rank 0": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tr := startTorch(ctx, t, c, trainingOptions{count: size + lost.spares, args: []string{"--commit-every=1"},
				config: map[string]any{"np": size, "spare_hosts": lost.spares}})
			tr.waitSize(ctx, size)
			tr.waitSpares(ctx, lost.spares)
			node := c.NodeOf(tr.allocOf(ctx, lost.rank))
			took := tr.loseNode(ctx, t, node, lost.rank)
			t.Logf("%d spares, %s: %.2f s from the last step to the next of %d ranks", lost.spares, name, took.Seconds(), size)
			must.NoError(t, node.Start(ctx))
			if lost.spares == 0 {
				must.Greater(t, imports, took)
				return
			}
			must.Less(t, imports, took)
			must.Eq(t, []int{size}, tr.record().Sizes(), must.Sprint("the spare was in no ring before, and no smaller ring trained after"))
			must.NoError(t, tr.record().CheckRollbacks(1))
			tr.waitSpares(ctx, lost.spares) // Nomad places another allocation, which is the next spare
		})
	}
}

// waitSpares waits until n spares are ready.
func (tr *training) waitSpares(ctx context.Context, n int) {
	tr.t.Helper()
	must.NoError(tr.t, cluster.Until(ctx, fmt.Sprintf("%d spares", n), func(ctx context.Context) error {
		ready, err := tr.sparesReady(ctx)
		if err == nil && ready != n {
			return errors.New(tr.status(ctx))
		}
		return err
	}))
}

// sparesReady returns the number of spares that are ready, as the job's agents report it.
func (tr *training) sparesReady(ctx context.Context) (int, error) {
	s, err := tr.reported(ctx)
	return s.SparesReady, err
}

// reported returns the status of the job that one of its agents reports.
func (tr *training) reported(ctx context.Context) (s wire.Status, err error) {
	agents, _, err := tr.c.API.Services().Get("torch", query(ctx))
	for _, a := range agents {
		if a.JobID != tr.id {
			continue
		}
		url := "http://" + net.JoinHostPort(a.Address, strconv.Itoa(a.Port)) + "/v1/status"
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		must.NoError(tr.t, err)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			continue // the agent of a lost node
		}
		err = json.NewDecoder(answer.Body).Decode(&s)
		_ = answer.Body.Close()
		return s, err
	}
	return s, cmp.Or(err, errNotYet)
}

// loseNode kills a client, its plugins and all its tasks with SIGKILL. It returns the time from
// the last step before the loss to the first step of a ring of the same size after it.
func (tr *training) loseNode(ctx context.Context, t *testing.T, node *cluster.Node, rank int) time.Duration {
	t.Helper()
	tr.write("import-time", fmt.Sprint(imports.Seconds()))
	alloc, size := tr.allocOf(ctx, rank).ID, tr.record().Last().Size
	plugins := node.Plugins()
	killed := time.Now()
	must.NoError(t, node.Kill())
	killAlloc(t, alloc)
	for _, p := range plugins {
		_ = p.Kill() // it may have ended with the client
	}
	var before, after train.Event
	tr.wait(ctx, "a ring of the same size", func(r train.Record) error {
		for _, e := range r.Leading() {
			switch {
			case e.Time().Before(killed):
				before = e
			case e.Size == size && e.Generation > before.Generation:
				after = e
				return nil
			}
		}
		return errors.New(tr.status(ctx))
	})
	return after.Time().Sub(before.Time())
}
