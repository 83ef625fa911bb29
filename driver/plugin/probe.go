// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

//go:embed probe.py
var probeScript string

// horovod is what the host's Python says of its Horovod.
type horovod struct {
	Installed bool `json:"installed"`
	// Why says what was in the way, of finding or of asking it.
	Why     string `json:"why"`
	Version string `json:"version"`
	// Gloo, NCCL and MPI are nil when Horovod could not be asked.
	Gloo *bool `json:"gloo"`
	NCCL *bool `json:"nccl"`
	MPI  *bool `json:"mpi"`
	// Frameworks holds versions by name: pytorch, tensorflow, mxnet.
	Frameworks map[string]string `json:"frameworks"`

	Python        string `json:"python"`
	PythonVersion string `json:"python_version"`
}

// prober runs the script that asks Python.
type prober struct{ logger hclog.Logger }

// look asks python which Horovod it has. That imports frameworks, which takes
// seconds, and may hang or crash: the script runs in a process of its own, which
// gets no longer than timeout.
func (p *prober) look(ctx context.Context, python string, timeout time.Duration) *horovod {
	started := time.Now()
	found, err := p.run(ctx, python, timeout)
	if err != nil {
		p.logger.Info("no Horovod found on this host", "python", python, "reason", err)
		return &horovod{Why: err.Error()}
	}
	p.logger.Debug("looked for Horovod", "python", found.Python, "installed", found.Installed, "version", found.Version,
		"why", found.Why, "took", time.Since(started).Round(time.Millisecond).String())
	return found
}

func (p *prober) run(ctx context.Context, python string, timeout time.Duration) (*horovod, error) {
	path, err := exec.LookPath(python)
	if err != nil {
		return nil, fmt.Errorf("python = %q: %w", python, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-c", probeScript)
	// A group of its own, because frameworks start processes that would
	// otherwise stay behind and hold the pipe.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=", "TF_CPP_MIN_LOG_LEVEL=3")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not answer within %s", path, timeout)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %s", path, err, lastLine(stderr.String()))
	}
	var found horovod
	// Frameworks print to stdout as they like: the answer is the last line.
	if err := json.Unmarshal([]byte(lastLine(stdout.String())), &found); err != nil {
		return nil, fmt.Errorf("%s gave no answer: %w", path, err)
	}
	return &found, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return oneLine(lines[len(lines)-1], maxMessage)
}
