// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

// torchftPeer runs replica groups of one rank each, and their lighthouse.
type torchftPeer struct{ lighthouse string }

func (p *torchftPeer) begin(_ string, command []string, _, _ int) (*exec.Cmd, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p.lighthouse = fmt.Sprintf("http://127.0.0.1:%d", port)
	cmd := exec.Command(command[0], command[1], "lighthouse", strconv.Itoa(port)) //nolint:noctx // ended by a signal of its own
	return cmd, startHere(cmd)
}

func (p *torchftPeer) node(command []string, number int) *exec.Cmd {
	args := append(slices.Clone(command[1:]), fmt.Sprintf("--slot=%d", number))
	cmd := exec.Command(command[0], args...) //nolint:noctx // ended by a signal of its own
	cmd.Env = append(os.Environ(), "TORCHFT_LIGHTHOUSE="+p.lighthouse, "OMP_NUM_THREADS=1")
	return cmd
}
