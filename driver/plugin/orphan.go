// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// processStart names the moment in which a process was started: the boot of the
// machine and the clock ticks since then. Together with its id it names one
// process for all time.
func processStart(pid int) (string, error) {
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

// killOrphan ends an agent whose executor is gone, so that the one Nomad starts
// next does not find its port taken and its slots training. Its slots end with
// it: the kernel kills them. The process is only killed when it is the one that
// was started as started says; that of an earlier driver's task is not.
func killOrphan(pid int, started string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// Whatever the id means by now, fd stays the process it meant before.
	switch now, err := processStart(pid); {
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
