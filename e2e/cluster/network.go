// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ErrShared is returned by Node.Cut and Node.Restore if the clients have no networks of their own.
var ErrShared = errors.New("the clients share the host's network: not root, or no network namespaces here")

// ErrNoRate is returned by Cluster.PutInRack if the traffic of a link can't be limited: tc is
// missing, or the kernel has no traffic classes.
var ErrNoRate = errors.New("the traffic of a link can't be limited")

// A network is a bridge of the host and a namespace per client. Its zero value is the loopback
// interface shared by all.
type network struct {
	// name is the bridge's name; the names of the namespaces begin with it.
	name string
	// prefix is the first three octets of every address, with a dot.
	prefix string
}

// networkName begins the names of bridges.
const networkName = "kolo-"

// newNetwork makes a bridge for the cluster in dir. It returns the shared network if this process
// may not make one.
func newNetwork(ctx context.Context, dir string) (network, error) {
	if os.Geteuid() != 0 || !commandExists("ip") || !commandExists("nsenter") {
		return network{}, nil
	}
	// The process that creates the bridge owns its number, because several clusters may start at
	// the same time.
	var last error
	for n := range 64 {
		net := network{name: fmt.Sprintf("%s%d", networkName, n), prefix: fmt.Sprintf("10.213.%d.", n)}
		if last = ip(ctx, "link", "add", net.name, "type", "bridge"); last != nil {
			if !strings.Contains(last.Error(), "File exists") {
				return network{}, nil // no bridges here, as in many containers
			}
			continue
		}
		if err := net.up(ctx, dir); err != nil {
			_ = ip(context.WithoutCancel(ctx), "link", "del", net.name)
			return network{}, err
		}
		return net, nil
	}
	return network{}, fmt.Errorf("no free network: %w", last)
}

// up brings the bridge up, with an alias that names its cluster.
func (n network) up(ctx context.Context, dir string) error {
	if err := ip(ctx, "link", "set", n.name, "alias", dir); err != nil {
		return err
	}
	if err := ip(ctx, "address", "add", n.prefix+"1/24", "dev", n.name); err != nil {
		return err
	}
	return ip(ctx, "link", "set", n.name, "up")
}

// shared reports whether clients have no namespaces.
func (n network) shared() bool { return n.name == "" }

// serverIP returns the address at which the server listens.
func (n network) serverIP() string {
	if n.shared() {
		return "127.0.0.1"
	}
	return n.prefix + "1"
}

// clientIP returns the address at which client i, counted from 1, listens.
func (n network) clientIP(i int) string {
	if n.shared() {
		return "127.0.0.1"
	}
	return fmt.Sprintf("%s%d", n.prefix, 10+i)
}

// clientInterface returns the interface that Nomad takes addresses from.
func (n network) clientInterface() string {
	if n.shared() {
		return "lo"
	}
	return "eth0"
}

func (n network) namespace(i int) string { return fmt.Sprintf("%s-c%d", n.name, i) }
func (n network) veth(i int) string      { return fmt.Sprintf("%s-v%d", n.name, i) }

// addClient makes the namespace of client i.
func (n network) addClient(ctx context.Context, i int) error {
	if n.shared() {
		return nil
	}
	ns, veth := n.namespace(i), n.veth(i)
	// A namespace that the kernel has not released yet keeps its end of an earlier cluster's cable.
	// The bridge, and so the name, now belongs to this cluster.
	_ = ip(ctx, "link", "del", veth)
	for _, args := range [][]string{
		{"netns", "add", ns},
		{"link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", ns},
		{"link", "set", veth, "master", n.name},
		{"link", "set", veth, "up"},
		{"-n", ns, "link", "set", "lo", "up"},
		{"-n", ns, "address", "add", n.clientIP(i) + "/24", "dev", "eth0"},
		{"-n", ns, "link", "set", "eth0", "up"},
		{"-n", ns, "route", "add", "default", "via", n.serverIP()},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// rack returns the name of the second bridge of a network that addRack has divided.
func (n network) rack() string { return n.name + "-r" }

// addRack makes the second bridge, and the cable to the first.
func (n network) addRack(ctx context.Context, rate string) error {
	if n.shared() {
		return ErrShared
	}
	if !commandExists("tc") {
		return fmt.Errorf("%w: tc is not installed (iproute2)", ErrNoRate)
	}
	up, down := n.name+"-u", n.name+"-d"
	for _, args := range [][]string{
		{"link", "add", n.rack(), "type", "bridge"},
		{"link", "add", up, "type", "veth", "peer", "name", down},
		{"link", "set", up, "master", n.name},
		{"link", "set", down, "master", n.rack()},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	for _, link := range []string{up, down} {
		if err := n.limit(ctx, link, rate); err != nil {
			return err
		}
	}
	for _, link := range []string{n.rack(), up, down} {
		if err := ip(ctx, "link", "set", link, "up"); err != nil {
			return err
		}
	}
	return nil
}

// limit limits the traffic sent on a link. The server's traffic has precedence and no limit,
// because a client with late heartbeats would be lost. The queue is short, because the agents'
// traffic waits in it, too.
func (n network) limit(ctx context.Context, link, rate string) error {
	for _, command := range []string{
		"qdisc add dev " + link + " root handle 1: htb default 10",
		"class add dev " + link + " parent 1: classid 1:1 htb rate 10gbit quantum 60000 prio 0",
		"class add dev " + link + " parent 1: classid 1:10 htb rate " + rate + " burst 128k quantum 60000 prio 1",
		"qdisc add dev " + link + " parent 1:10 bfifo limit 1mb",
		"filter add dev " + link + " parent 1: protocol ip prio 1 u32 match ip dst " + n.serverIP() + "/32 flowid 1:1",
		"filter add dev " + link + " parent 1: protocol ip prio 2 u32 match ip src " + n.serverIP() + "/32 flowid 1:1",
	} {
		out, err := exec.CommandContext(ctx, "tc", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: tc %s: %w: %s", ErrNoRate, command, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// setLink plugs or unplugs client i.
func (n network) setLink(ctx context.Context, i int, state string) error {
	if n.shared() {
		return ErrShared
	}
	return ip(ctx, "link", "set", n.veth(i), state)
}

// enter returns the command prefix to run a program in client i's namespace. It uses nsenter, which
// keeps the mounts; `ip netns exec` would hide the cgroups.
func (n network) enter(i int) []string {
	if n.shared() {
		return nil
	}
	return []string{"nsenter", "--net=/run/netns/" + n.namespace(i), "--"}
}

// ip runs iproute2's command.
func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func commandExists(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
