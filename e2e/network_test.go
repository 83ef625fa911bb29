// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// cniPlugins is where Debian's package containernetworking-plugins has its programs.
const cniPlugins = "/usr/lib/cni"

// fabric is a CNI network of node i, whose allocations have addresses of the node's own
// subnet.
const fabric = `{
  "cniVersion": "0.4.0",
  "name": "fabric",
  "plugins": [
    { "type": "loopback" },
    { "type": "bridge", "bridge": "fabric0", "isGateway": true,
      "ipam": { "type": "host-local", "dataDir": %q, "ranges": [[{ "subnet": %q }]], "routes": [{ "dst": "0.0.0.0/0" }] } }
  ]
}`

func subnet(n *cluster.Node) string {
	return fmt.Sprintf("10.77.%s.0/24", strings.TrimPrefix(n.Name, "c"))
}

// startFabric starts a cluster of two clients with a routed CNI network.
func startFabric(ctx context.Context, t *testing.T) *cluster.Cluster {
	t.Helper()
	for _, program := range []string{"bridge", "host-local", "loopback"} {
		if _, err := os.Stat(filepath.Join(cniPlugins, program)); err != nil {
			t.Skipf("needs the CNI plugins of Debian's package containernetworking-plugins: %v", err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("networks of allocations need root")
	}
	c := startCluster(t, cluster.Options{
		Clients:   2,
		ClientHCL: fmt.Sprintf("cni_path = %q\ncni_config_dir = \"@NODE@/cni\"", cniPlugins),
		Prepare: func(_ context.Context, n *cluster.Node) error {
			dir := filepath.Join(n.Dir(), "cni")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "fabric.conflist"), fmt.Appendf(nil, fabric, filepath.Join(n.Dir(), "leases"), subnet(n)), 0o644)
		},
	})
	for _, n := range c.Nodes {
		for _, other := range c.Nodes {
			script := "echo 1 > /proc/sys/net/ipv4/ip_forward"
			if other != n {
				script = fmt.Sprintf("ip route add %s via %s", subnet(other), other.IP)
			}
			if out, err := n.Command(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
				t.Skipf("the clients have no network of their own here: %v: %s", err, out)
			}
		}
	}
	return c
}

// startInFabric starts a training in that network, and leaves no network behind.
func startInFabric(ctx context.Context, t *testing.T, c *cluster.Cluster, o trainingOptions) *training {
	t.Helper()
	var allocs []*api.AllocationListStub
	t.Cleanup(func() { // once the job is purged
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		must.NoError(t, cluster.Until(ctx, "the networks to be removed", func(context.Context) error {
			for _, a := range allocs {
				if _, err := os.Stat("/var/run/netns/" + a.ID); err == nil {
					return fmt.Errorf("that of %s is left", a.ID)
				}
			}
			return nil
		}))
	})
	tr := startTraining(ctx, t, c, o)
	t.Cleanup(func() {
		var err error
		allocs, err = c.Allocs(context.WithoutCancel(ctx), tr.id)
		must.NoError(t, err)
	})
	return tr
}

// inFabric puts a training into that network.
func inFabric(job *api.Job) {
	group := job.TaskGroups[0]
	group.Networks[0].Mode = "cni/fabric"
	group.Services[0].AddressMode = "alloc"
	job.Spreads = []*api.Spread{api.NewSpread("${node.unique.id}", 100, nil)}
}

// TestNetworkOfTheGroup trains over networks of the allocations' own, across two clients.
func TestNetworkOfTheGroup(t *testing.T) {
	ctx := testContext(t, 8*time.Minute)
	c := startFabric(ctx, t)
	t.Run("a ring across clients", func(t *testing.T) {
		tr := startInFabric(ctx, t, c, trainingOptions{count: 2, edit: inFabric})
		tr.waitSize(ctx, 2)
		nodes := map[string]bool{}
		for rank := range 2 {
			p := tr.slotOf(rank)
			must.NoError(t, hostnet.Inside(fmt.Sprintf("/proc/%d/ns/net", p.PID), func() error {
				n, err := hostnet.Look()
				if err == nil {
					must.StrHasPrefix(t, "10.77.", n.Address)
					nodes[n.Address[:len("10.77.1")]] = true
				}
				return err
			}))
		}
		must.MapLen(t, 2, nodes, must.Sprint("both clients train"))
		tr.scale(ctx, 1)
		tr.waitSize(ctx, 1)
		tr.scale(ctx, 2)
		tr.waitSize(ctx, 2)
		tr.finish(ctx)
		must.NoError(t, tr.record().CheckConsecutive())
	})
	t.Run("registered at the client's address", func(t *testing.T) {
		tr := startInFabric(ctx, t, c, trainingOptions{edit: func(job *api.Job) {
			inFabric(job)
			job.TaskGroups[0].Services[0].AddressMode = "host"
		}})
		tr.waitEvent(ctx, `address_mode = "alloc"`)
	})
}
