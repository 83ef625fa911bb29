// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// measureRendezvous runs the rendezvous package's own benchmark, which prints a
// table.
func measureRendezvous(ctx context.Context, o *options) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./driver/horovod/internal/bench", "-python", filepath.Join(o.root, ".venv/bin/python"))
	cmd.Dir = o.root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
