// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// Three machines in one cluster have a different problem each, at the same time.
func TestTrouble(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, "hgx-h100", "dgx-1v", "two-boards-a100")
	for i := range r.hw {
		r.waitHealthy(i, 8)
	}
	t.Run("NVML vanishes and returns, then an XID", func(t *testing.T) {
		t.Parallel()
		nvmlVanishes(t, r.in(t), 0, "NVIDIA H100 80GB HBM3")
		xid(t, r.in(t), 0, "NVIDIA H100 80GB HBM3")
	})
	t.Run("the driver is upgraded", func(t *testing.T) {
		t.Parallel()
		driverUpgraded(t, r.in(t), 1)
	})
	t.Run("the plugin is killed", func(t *testing.T) {
		t.Parallel()
		pluginKilled(t, r.in(t), 2, "NVIDIA A100-SXM4-40GB")
	})
}

func ask(product string, count int) string {
	return fmt.Sprintf("device \"nvidia/gpu/%s\" { count = %d }", product, count)
}

func nvmlVanishes(t *testing.T, r *rig, client int, product string) {
	agent, plugin := r.Nodes[client].PID(), r.plugins(client)[0].PID
	r.hw[client].Unload()
	devices := r.waitHealthy(client, 0)
	must.Len(t, 8, devices[0].Instances)
	must.StrContains(t, devices[0].Instances[0].HealthDescription, "the NVIDIA driver is not loaded")
	r.hw[client].Load()
	r.waitHealthy(client, 8)
	must.Eq(t, agent, r.Nodes[client].PID())
	must.Eq(t, plugin, r.plugins(client)[0].PID)
	as := r.run("after-nvml", 1, job("after-nvml", 1, ask(product, 8), "true"))
	must.Len(t, 8, gpus(as[0]))
	r.stop("after-nvml")
}

// driverUpgraded: the library that the plugin has loaded no longer fits, and only
// a new process can load the new one.
func driverUpgraded(t *testing.T, r *rig, client int) {
	const versionMismatch = 18
	agent, plugin := r.Nodes[client].PID(), r.plugins(client)[0].PID
	r.hw[client].Fail(versionMismatch)
	r.waitHealthy(client, 0)
	must.Eq(t, plugin, r.plugins(client)[0].PID, must.Sprint("a restart would change nothing yet"))
	r.hw[client].Install()
	must.NoError(t, cluster.Until(r.ctx, "another plugin process", func(context.Context) error {
		if now := r.plugins(client); len(now) != 1 || now[0].PID == plugin {
			return errors.New("not yet")
		}
		return nil
	}))
	r.hw[client].Fail(0)
	r.waitHealthy(client, 8)
	must.Eq(t, agent, r.Nodes[client].PID())
}

// xid: one that a program causes does not count, another keeps new tasks off the
// GPU.
func xid(t *testing.T, r *rig, client int, product string) {
	r.hw[client].XID(3, 31)
	r.hw[client].XID(4, 79)
	for _, d := range r.waitHealthy(client, 7)[0].Instances {
		if !d.Healthy {
			must.Eq(t, r.hw[client].UUIDs()[4], d.ID)
			must.Eq(t, "XID 79 (the GPU has fallen off the bus)", d.HealthDescription)
		}
	}
	as := r.run("not-that-one", 1, job("not-that-one", 1, ask(product, 7), "true"))
	must.SliceNotContains(t, gpus(as[0]), r.hw[client].UUIDs()[4])
	r.stop("not-that-one")
}

// pluginKilled: Nomad starts the plugin again. Until it has, the node must keep
// its devices, or tasks would be stopped. (The new process knows nothing of the
// XID before.)
func pluginKilled(t *testing.T, r *rig, client int, product string) {
	as := r.run("survives", 1, job("survives", 1, ask(product, 1), "exec sleep 600"))
	agent := r.Nodes[client].PID()
	for range 2 {
		before := r.plugins(client)
		must.Len(t, 1, before)
		must.NoError(t, before[0].Kill())
		must.NoError(t, cluster.Until(r.ctx, "another plugin process", func(context.Context) error {
			devices, err := r.devices(client)
			if err != nil {
				return err
			}
			if len(devices) != 1 || len(devices[0].Instances) != 8 {
				return &cluster.FatalError{Reason: "the node has lost its devices"}
			}
			if now := r.plugins(client); len(now) != 1 || now[0].PID == before[0].PID {
				return errors.New("not yet")
			}
			return nil
		}))
		// The new process fingerprints. Nomad gives up one that ends while it
		// connects to it, so it must have.
		r.hw[client].Lose(0)
		r.waitHealthy(client, 7)
		r.hw[client].Return(0)
		r.waitHealthy(client, 8)
	}
	must.Eq(t, agent, r.Nodes[client].PID())
	again := r.placed("survives", 1)
	must.Eq(t, as[0].ID, again[0].ID)
	must.Eq(t, "running", again[0].ClientStatus)
	next := r.run("after-kill", 1, job("after-kill", 1, ask(product, 7), "true"))
	must.Len(t, 7, gpus(next[0]))
	visible := strings.Split(r.environment(next[0])["NVIDIA_VISIBLE_DEVICES"], ",")
	slices.Sort(visible) // the order of the PCI addresses is another one here
	must.Eq(t, gpus(next[0]), visible)
	r.stop("after-kill")
	r.stop("survives")
}
