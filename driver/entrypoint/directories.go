// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/agent/config"
)

// makeDirs makes the directories that the agent writes to, at the same places as under the
// task driver.
func makeDirs(c *config.Config, local string) error {
	c.LogDir, c.ProgressDir = filepath.Join(local, "kolo/logs"), filepath.Join(local, "kolo/progress")
	for _, dir := range []string{c.LogDir, c.ProgressDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("%w; the task's user must be able to write to NOMAD_TASK_DIR", err)
		}
	}
	return nil
}

// temporaryVariables name the directory for temporary files to Python and to most other
// programs.
var temporaryVariables = []string{"TMPDIR", "TEMP", "TMP"}

// giveTemporary gives the script a directory for temporary files if there is none, as in a
// container with a read-only root: without one, importing PyTorch fails. It lies in the
// task's directory to keep its path short, because PyTorch's data loaders make Unix sockets
// there.
func giveTemporary(c *config.Config, env map[string]string, usual ...string) error {
	for _, name := range temporaryVariables {
		if env[name] != "" {
			return nil
		}
	}
	if slices.ContainsFunc(usual, writable) {
		return nil
	}
	return give(c, env, "TMPDIR", "kolo/tmp")
}

// giveHome gives the script a home directory if the one in its environment does not exist
// or is not writable: importing DeepSpeed or Triton would fail. The variable may come from
// the job, the image or the client. A job may name a directory that does not exist yet.
func giveHome(c *config.Config, env map[string]string) error {
	if home := env["HOME"]; filepath.IsAbs(home) && os.MkdirAll(home, 0o700) == nil && writable(home) {
		return nil
	}
	return give(c, env, "HOME", "kolo/home")
}

// give makes a directory of the task's own and sets a variable to its path for the script.
func give(c *config.Config, env map[string]string, variable, path string) error {
	dir := filepath.Join(env["NOMAD_TASK_DIR"], path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w; the task's user must be able to write to NOMAD_TASK_DIR", err)
	}
	c.RunEnv[variable] = dir
	return nil
}

// writable reports whether this process can create files in a directory.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
