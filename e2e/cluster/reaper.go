// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

//go:embed reaper.sh
var reaperScript string

// reaperName is the script's name in the list of processes.
const reaperName = "kolo-reaper"

// A reaper cleans up on demand, or when this process is gone.
type reaper struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startReaper starts the reaper of the cluster in dir. network is the name of the
// cluster's own network, or empty.
func startReaper(dir, network string) (*reaper, error) {
	// Not exec.CommandContext, because it must outlive every context of this
	// process.
	cmd := exec.Command("/bin/bash", "-c", reaperScript, reaperName, dir, network) //nolint:noctx // see above
	// A Ctrl-C reaches the whole foreground process group, and must not reach the
	// reaper.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = "/"
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	return &reaper{cmd: cmd, stdin: stdin}, nil
}

// reap cleans up, and returns when everything is gone.
func (r *reaper) reap() error {
	_ = r.stdin.Close()
	return r.cmd.Wait()
}
