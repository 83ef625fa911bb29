// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// LookCommand finds the command as the slots' environment would.
func LookCommand(command, dir string) error {
	if strings.ContainsRune(command, os.PathSeparator) {
		path := command
		if !strings.HasPrefix(path, "/") && dir != "" {
			path = dir + "/" + path
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("command %q: %w", command, err)
		case info.IsDir() || info.Mode()&0o111 == 0:
			return fmt.Errorf("command %q is not executable", command)
		}
		return nil
	}
	if _, err := exec.LookPath(command); err != nil {
		return fmt.Errorf("command %q: %w", command, err)
	}
	return nil
}
