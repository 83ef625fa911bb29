// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// A peer is a launcher without host discovery. The bench runs one node with one process for
// each slot.
type peer interface {
	// begin starts what all nodes share, if anything. The command is Python with a script
	// and its arguments.
	begin(root string, command []string, least, most int) (*exec.Cmd, error)
	// node returns the command of one node.
	node(command []string, number int) *exec.Cmd
}

// peers are the launchers that this program wraps.
var peers = map[string]peer{torchrun.Name: &torchrunPeer{}, torchrunDefaults: &torchrunPeer{defaults: true}, torchft.Name: &torchftPeer{}, byHand.Name: &byHandPeer{}}

// peerCommand returns the command that starts this program as the launcher.
func peerCommand(name string) func(*options) []string {
	return func(o *options) []string {
		self, err := os.Executable()
		if err != nil {
			self = os.Args[0]
		}
		return []string{self, name, "--root", o.root}
	}
}

// runPeer takes horovodrun's flags and keeps one node for each slot of the host list,
// because that is how a job of the peer changes its size. The command begins with Python.
func runPeer(ctx context.Context, p peer, args []string) error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	script := flags.String("host-discovery-script", "", "prints the hosts")
	root := flags.String("root", "", "the project's")
	flags.Int("np", 1, "not used: the hosts decide")
	least := flags.Int("min-np", 1, "least nodes")
	most := flags.Int("max-np", 1, "most nodes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	shared, err := p.begin(*root, flags.Args(), *least, *most)
	if err != nil {
		return err
	}
	var nodes []*exec.Cmd
	defer func() {
		end(nodes)
		if shared != nil {
			end([]*exec.Cmd{shared})
		}
	}()
	for ctx.Err() == nil {
		want, err := discovered(ctx, *script)
		if err != nil {
			return err
		}
		if nodes, err = resize(p, flags.Args(), nodes, want); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// resize starts or removes nodes until there are want nodes.
func resize(p peer, command []string, nodes []*exec.Cmd, want int) ([]*exec.Cmd, error) {
	for len(nodes) < want {
		node := p.node(command, len(nodes))
		if err := startHere(node); err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
	for len(nodes) > want {
		remove(nodes[len(nodes)-1])
		nodes = nodes[:len(nodes)-1]
	}
	return nodes, nil
}

// startHere starts a command with this program's output.
func startHere(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

// end ends all nodes.
func end(nodes []*exec.Cmd) {
	for _, node := range nodes {
		_ = node.Process.Signal(syscall.SIGTERM)
	}
	for _, node := range nodes {
		_ = node.Wait()
	}
}

// remove ends a node at once. On SIGTERM, a node of PyTorch 2.6 would close the rendezvous
// of all nodes, which ends the job.
func remove(node *exec.Cmd) {
	pid := node.Process.Pid
	workers := cluster.Processes(func(p cluster.Process) bool { return p.Parent == pid })
	_ = node.Process.Kill()
	for _, worker := range workers {
		_ = worker.Kill()
	}
	_ = node.Wait()
}

// discovered returns how many slots the script lists.
func discovered(ctx context.Context, script string) (int, error) {
	out, err := exec.CommandContext(ctx, script).Output()
	return slotsOf(strings.Fields(string(out))), err
}

// slotsOf returns the number of slots in lines such as "name:slots".
func slotsOf(hosts []string) int {
	slots := 0
	for _, h := range hosts {
		n, _ := strconv.Atoi(h[strings.LastIndexByte(h, ':')+1:])
		slots += n
	}
	return slots
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // does not block
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
