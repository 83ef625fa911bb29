// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package procid identifies a process by its ID and start time, and ends the process that
// they identify. The ID alone is not enough, because the kernel reuses it.
package procid

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Start returns the time at which a process was started: the ID of the machine's boot, and
// the clock ticks since that boot. This time and the process's ID identify a process
// uniquely.
func Start(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name, which may contain anything.
	const starttime = 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < starttime-2 {
		return "", fmt.Errorf("/proc/%d/stat: has %d fields", pid, len(fields)+2)
	}
	return string(bytes.TrimSpace(boot)) + "/" + string(fields[starttime-3]), nil
}

// Kill ends the process with the given ID and start time (see Start), and no later process
// with the same ID. If started is empty, it ends none.
func Kill(pid int, started string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// Even if the ID is reused by now, fd still refers to the original process.
	switch now, err := Start(pid); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case started == "" || now != started:
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
