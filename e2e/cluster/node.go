// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/nomad/api"
)

// A Node is one client of the cluster.
type Node struct {
	// Name is c1, c2 …; ID is Nomad's node ID.
	Name, ID string
	// IP is the address of its agent and of its tasks.
	IP string

	index   int
	agent   *agent
	cluster *Cluster
}

// Cut unplugs the node from the network. It returns ErrShared if all nodes use the network
// of the machine.
func (n *Node) Cut(ctx context.Context) error {
	n.cluster.log("cluster: cutting %s off", n.Name)
	return n.cluster.network.setLink(ctx, n.index, "down")
}

// Restore reconnects the node to the network.
func (n *Node) Restore(ctx context.Context) error {
	n.cluster.log("cluster: connecting %s again", n.Name)
	return n.cluster.network.setLink(ctx, n.index, "up")
}

// PutInRack moves nodes to a rack of their own: a network that one link connects to the
// network of the server and the other nodes. rate is the link's capacity in each direction,
// in tc's format ("200mbit"); Nomad's own traffic is not limited. PutInRack can be called
// once. It returns ErrShared if the nodes have no networks of their own, and ErrNoRate if
// traffic can't be limited.
func (c *Cluster) PutInRack(ctx context.Context, rate string, nodes ...*Node) error {
	c.log("cluster: a rack of %d nodes, %s to the others", len(nodes), rate)
	if err := c.network.addRack(ctx, rate); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := ip(ctx, "link", "set", c.network.veth(n.index), "master", c.network.rack()); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends the client agent with SIGKILL. Its tasks continue.
func (n *Node) Kill() error {
	n.cluster.log("cluster: killing the Nomad client of %s", n.Name)
	return n.agent.signal(syscall.SIGKILL)
}

// Start starts the client agent again after Kill.
func (n *Node) Start(ctx context.Context) error {
	n.cluster.log("cluster: starting the Nomad client of %s", n.Name)
	if err := n.agent.start(nil); err != nil {
		return err
	}
	return n.waitReady(ctx)
}

// Command returns a command that runs in the node's network namespace: it shares the
// loopback interface of the node's tasks.
func (n *Node) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	all := append(slices.Clone(n.agent.prefix), append([]string{name}, args...)...)
	return exec.CommandContext(ctx, all[0], all[1:]...)
}

// Dir returns the directory that the node's agent and services write to.
func (n *Node) Dir() string { return n.agent.dir }

// Service starts a program in the node's network namespace. The program runs until the
// cluster stops. The reaper recognizes it by its arguments, so one of them must be below
// Dir. Its output is in name.log.
func (n *Node) Service(name string, env []string, program string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(n.Dir(), name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := n.Command(context.Background(), program, args...) // the reaper ends it
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.Dir(), log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := unlessInterrupted(cmd.Start); err != nil {
		return fmt.Errorf("%s of %s: %w", name, n.Name, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// PID returns the process ID of the client agent.
func (n *Node) PID() int {
	n.agent.mu.Lock()
	defer n.agent.mu.Unlock()
	return n.agent.cmd.Process.Pid
}

// API returns a client of this node's agent.
func (n *Node) API() (*api.Client, error) {
	return api.NewClient(&api.Config{
		Address:  fmt.Sprintf("http://%s:%d", n.IP, n.agent.conf.HTTP),
		SecretID: n.cluster.Token,
	})
}

// Info asks the server about the node.
func (n *Node) Info(ctx context.Context) (*api.Node, error) {
	info, _, err := n.cluster.API.Nodes().Info(n.ID, new(api.QueryOptions).WithContext(ctx))
	return info, err
}

func (n *Node) waitReady(ctx context.Context) error {
	return Until(ctx, n.Name+" to be ready", func(ctx context.Context) error {
		if err := n.agent.alive(); err != nil {
			return err
		}
		info, err := n.Info(ctx)
		if err != nil {
			return err
		}
		if info.Status != api.NodeStatusReady {
			return fmt.Errorf("%s is %s", n.Name, info.Status)
		}
		for name, driver := range info.Drivers {
			// Nomad's exec needs cgroups, but few tests use it; those that do will find
			// out.
			if driver.Detected && !driver.Healthy && name != "exec" {
				return fmt.Errorf("driver %s on %s: %s", name, n.Name, driver.HealthDescription)
			}
		}
		return nil
	})
}

// waitForNodes learns the nodes' IDs and waits until all are ready.
func (c *Cluster) waitForNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := Until(ctx, "the clients to register", func(ctx context.Context) error {
		var dead []error
		for _, n := range c.Nodes {
			dead = append(dead, n.agent.alive())
		}
		if err := errors.Join(dead...); err != nil {
			return err
		}
		stubs, _, err := c.API.Nodes().List(new(api.QueryOptions).WithContext(ctx))
		if err != nil {
			return err
		}
		for _, n := range c.Nodes {
			for _, stub := range stubs {
				if stub.Name == n.Name {
					n.ID = stub.ID
				}
			}
			if n.ID == "" {
				return fmt.Errorf("%s is not there yet", n.Name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}
