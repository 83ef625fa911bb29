// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// LookCommand finds the command as the slots' environment would.
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
