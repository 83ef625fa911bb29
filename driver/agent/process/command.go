// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// LookCommand returns an error if a slot could not find the command.
func LookCommand(command, dir string) error {
	path := command
	if strings.Contains(command, "/") && !filepath.IsAbs(command) && dir != "" {
		path = dir + "/" + command
	}
	if _, err := exec.LookPath(path); err != nil {
		return fmt.Errorf("command %q: %w", command, err)
	}
	return nil
}

// CheckDir returns an error if slots can't start in a directory. The agent calls it,
// because the agent sees the same links and has the same rights as a slot. Without this
// check, the error of a failed start would name the program instead of the directory.
func CheckDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		err = unix.ENOTDIR
	case err == nil:
		err = unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return fmt.Errorf("work_dir %q: training processes cannot start in it: %w", dir, err)
	}
	return nil
}
