// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// runTorchrun takes horovodrun's flags and keeps one torchrun for each slot of the
// host list, as nodes with one process each: that is how a torchrun job changes its
// size. The command begins with Python.
func runTorchrun(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("torchrun", flag.ContinueOnError)
	script := flags.String("host-discovery-script", "", "prints the hosts")
	flags.Int("np", 1, "not used: the hosts decide")
	least := flags.Int("min-np", 1, "least nodes")
	most := flags.Int("max-np", 1, "most nodes")
	wrapper := flags.String("torchrun", "", "the script that is torchrun")
	if err := flags.Parse(args); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	// PyTorch's own settings are the fastest there are.
	command := append([]string{flags.Arg(0), *wrapper, fmt.Sprintf("--nnodes=%d:%d", *least, *most), "--nproc-per-node=1", "--max-restarts=1000000",
		"--monitor-interval=0.1", "--rdzv-backend=c10d", fmt.Sprintf("--rdzv-endpoint=localhost:%d", port), "--rdzv-id=bench"}, flags.Args()[1:]...)
	var nodes []*exec.Cmd
	defer func() { end(nodes) }()
	for ctx.Err() == nil {
		want, err := discovered(ctx, *script)
		if err != nil {
			return err
		}
		for len(nodes) < want {
			node, err := startNode(command, len(nodes))
			if err != nil {
				return err
			}
			nodes = append(nodes, node)
		}
		for len(nodes) > want {
			remove(nodes[len(nodes)-1])
			nodes = nodes[:len(nodes)-1]
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// startNode starts a node. The first one hosts the rendezvous.
func startNode(command []string, node int) (*exec.Cmd, error) {
	conf := fmt.Sprintf("--rdzv-conf=last_call_timeout=1,is_host=%t", node == 0)
	cmd := exec.Command(command[0], slices.Insert(slices.Clone(command[1:]), 1, conf)...) //nolint:noctx // ended by a signal of its own
	// A torch that was built without libuv cannot share the rendezvous's store.
	cmd.Env = append(os.Environ(), "USE_LIBUV=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", "OMP_NUM_THREADS=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd, cmd.Start()
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

// remove ends a node at once. With SIGTERM, a node of PyTorch 2.6 closes the
// rendezvous of all, which ends the job.
func remove(node *exec.Cmd) {
	pid := node.Process.Pid
	workers := cluster.Processes(func(p cluster.Process) bool { return p.Parent == pid })
	_ = node.Process.Kill()
	for _, worker := range workers {
		_ = worker.Kill()
	}
	_ = node.Wait()
}

// discovered is how many slots the script lists.
func discovered(ctx context.Context, script string) (int, error) {
	out, err := exec.CommandContext(ctx, script).Output()
	return slotsOf(strings.Fields(string(out))), err
}

// slotsOf counts the slots of lines such as "name:slots".
func slotsOf(hosts []string) int {
	slots := 0
	for _, h := range hosts {
		n, _ := strconv.Atoi(h[strings.LastIndexByte(h, ':')+1:])
		slots += n
	}
	return slots
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// torchrunCommand starts this program as the launcher above.
func torchrunCommand(o *options) []string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return []string{self, "torchrun", "--torchrun", filepath.Join(o.root, "e2e/bench/torchrun.py")}
}
