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

// makeDirs makes the directories that the agent writes to, at the places that they
// have under the task driver.
func makeDirs(c *config.Config, local string) error {
	c.LogDir, c.ProgressDir = filepath.Join(local, "kolo/logs"), filepath.Join(local, "kolo/progress")
	for _, dir := range []string{c.LogDir, c.ProgressDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("%w; the task's user must be able to write to NOMAD_TASK_DIR", err)
		}
	}
	return nil
}

// temporaryVariables are those that name a directory for temporary files, to Python and
// to most others.
var temporaryVariables = []string{"TMPDIR", "TEMP", "TMP"}

// giveTemporary gives the script a directory for temporary files where it would find
// none, as in a container whose root is read-only: importing PyTorch fails without. It
// is in the task's directory, because PyTorch's data loaders make Unix sockets there,
// whose names are short.
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

// giveHome gives the script a home where the one in its environment, of the job, the image
// or the client, is not there or not writable: importing DeepSpeed or Triton fails without.
// A job may name one that is yet to be made.
func giveHome(c *config.Config, env map[string]string) error {
	if home := env["HOME"]; filepath.IsAbs(home) && os.MkdirAll(home, 0o700) == nil && writable(home) {
		return nil
	}
	return give(c, env, "HOME", "kolo/home")
}

// give makes a directory of the task's own and names it to the script by a variable.
func give(c *config.Config, env map[string]string, variable, path string) error {
	dir := filepath.Join(env["NOMAD_TASK_DIR"], path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w; the task's user must be able to write to NOMAD_TASK_DIR", err)
	}
	c.RunEnv[variable] = dir
	return nil
}

// writable reports whether this process can make files in a directory.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
