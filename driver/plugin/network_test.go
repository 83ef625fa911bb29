// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
)

// ownNetwork is a group's own network in which rings form.
var ownNetwork = hostnet.Network{Interfaces: []string{"lo", "eth0", "ib0"}, Loopback: true, Address: "10.1.0.2"}

// namespace makes a network as a CNI plugin would, and returns its path.
func namespace(t *testing.T, loopback bool) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	name := fmt.Sprintf("kolo-test-%d", os.Getpid())
	ip := func(args ...string) {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Skipf("no network namespaces here: ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "peer0")
	ip("-n", name, "link", "set", "peer0", "up")
	ip("-n", name, "link", "set", "eth0", "up")
	ip("-n", name, "address", "add", "10.99.7.2/24", "dev", "eth0")
	if loopback {
		ip("-n", name, "link", "set", "lo", "up")
	}
	return "/var/run/netns/" + name
}

// TestTaskInANetworkOfItsGroup covers mode "cni/…".
func TestTaskInANetworkOfItsGroup(t *testing.T) {
	path := namespace(t, true)
	for _, isolation := range isolations(t) {
		t.Run(isolation, func(t *testing.T) {
			h := newHarness(t, noIsolation())
			c := newTaskConfig(t, isolation, `tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort; grep '^  "own_network"' $CONFIG; getent hosts $(hostname) | cut -d' ' -f1; grep -c nameserver.127 /etc/resolv.conf`)
			c.NetworkIsolation = &drivers.NetworkIsolationSpec{Mode: drivers.NetIsolationModeGroup, Path: path}
			c.Env["NOMAD_HOST_PORT_kolo"], c.Env["NOMAD_ADDR_kolo"] = "31000", "192.0.2.1:31000" // mapped
			h.start(t, c)
			h.end(t, c.ID)
			lines := strings.Split(output(t, c), "\n")
			must.Eq(t, []string{"eth0", "lo", "peer0", `  "own_network": true,`}, lines[:4])
			if isolation == isolationExec { // otherwise the agent gives the machine another name
				must.Eq(t, "10.99.7.2", lines[4], must.Sprint("the machine's name leads to the allocation's address"))
			}
			r, err := h.driver.InspectTask(c.ID)
			must.NoError(t, err)
			must.Eq(t, drivers.TaskStateExited, r.State)
		})
	}
}

func TestNetworkWithoutLoopback(t *testing.T) {
	path := namespace(t, false)
	h := newHarness(t, noIsolation())
	c := newTaskConfig(t, isolationNone, `true`)
	c.NetworkIsolation = &drivers.NetworkIsolationSpec{Path: path}
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, `add { "type": "loopback" }`)
}

func TestBridgeIsKnownByItsName(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]bool{"nomad-a1-eth0": true, "fabric-a2-eth0": false, "nomad-a33-eth0": false} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
		must.Eq(t, want, ofBridge(dir, strings.Split(file, "-")[1][:2]), must.Sprint(file))
	}
}
