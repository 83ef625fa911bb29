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

// reaperName is what the script is called in the list of processes.
const reaperName = "kolo-reaper"

// A reaper cleans up on demand, or when this process is gone.
type reaper struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startReaper starts the reaper of the cluster in dir, whose network has the
// given name (empty: it has none of its own).
func startReaper(dir, network string) (*reaper, error) {
	// Not exec.CommandContext: it must outlive any context of ours.
	cmd := exec.Command("/bin/bash", "-c", reaperScript, reaperName, dir, network) //nolint:noctx // see above
	// A Ctrl-C goes to the whole foreground process group. Not to this one.
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

// reap cleans up, and returns once all is gone.
func (r *reaper) reap() error {
	_ = r.stdin.Close()
	return r.cmd.Wait()
}
