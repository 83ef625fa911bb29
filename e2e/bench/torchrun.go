// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// torchrunPeer runs torchruns. The first one hosts the rendezvous.
type torchrunPeer struct {
	// defaults keeps PyTorch's own settings. Otherwise the fastest ones are used.
	defaults bool
	flags    []string
}

func (p *torchrunPeer) begin(root string, _ []string, least, most int) (*exec.Cmd, error) {
	port, err := freePort()
	p.flags = []string{filepath.Join(root, "e2e/bench/torchrun.py"), fmt.Sprintf("--nnodes=%d:%d", least, most), "--nproc-per-node=1", "--max-restarts=1000000",
		"--rdzv-backend=c10d", fmt.Sprintf("--rdzv-endpoint=localhost:%d", port), "--rdzv-id=bench"}
	if !p.defaults {
		p.flags = append(p.flags, "--monitor-interval=0.1")
	}
	return nil, err
}

func (p *torchrunPeer) node(command []string, number int) *exec.Cmd {
	conf := fmt.Sprintf("--rdzv-conf=is_host=%t", number == 0)
	if !p.defaults {
		conf += ",last_call_timeout=1"
	}
	args := slices.Concat(p.flags[:1], []string{conf}, p.flags[1:], command[1:])
	cmd := exec.Command(command[0], args...) //nolint:noctx // ended by a signal of its own
	// A torch built without libuv cannot share the rendezvous's store.
	cmd.Env = append(os.Environ(), "USE_LIBUV=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", "OMP_NUM_THREADS=1")
	return cmd
}
