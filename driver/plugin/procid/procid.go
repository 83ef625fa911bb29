// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package procid names a process so that no later one has the same name, and ends
// it by that name. A process id alone is used again.
package procid

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Start names the moment in which a process was started: the boot of the
// machine and the clock ticks since then. Together with its id it names one
// process for all time.
func Start(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the program's name, which may hold anything.
	const starttime = 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < starttime-2 {
		return "", fmt.Errorf("/proc/%d/stat: has %d fields", pid, len(fields)+2)
	}
	return string(bytes.TrimSpace(boot)) + "/" + string(fields[starttime-3]), nil
}

// Kill ends the process that was started as started has it (see Start), and no other
// that has its id by now. Where started is empty it ends none.
func Kill(pid int, started string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// Whatever the id means by now, fd stays the process it meant before.
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
