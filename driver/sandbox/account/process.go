// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Process returns the ID of a process of this machine that runs as the account, 0 if there
// is none.
func (a Account) Process() (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The directory's owner is not enough: a process can hide its user there.
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, err
		}
		if runsAs(string(status), a.UID) {
			return pid, nil
		}
	}
	return 0, nil
}

// runsAs reports whether a running process has uid among its user IDs (real, effective,
// saved, of files).
func runsAs(status string, uid int) bool {
	for line := range strings.Lines(status) {
		name, values, _ := strings.Cut(line, ":")
		fields := strings.Fields(values)
		switch {
		case name == "State" && len(fields) > 0 && (fields[0] == "Z" || fields[0] == "X"):
			return false // it has ended, and its parent has not reaped it yet
		case name == "Uid":
			return slices.Contains(fields, strconv.Itoa(uid))
		}
	}
	return false
}
