// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// parseMemlock parses a limit of locked memory: "unlimited", or a whole number of KiB, MiB
// or GiB. 0 means that the client's limit applies.
func parseMemlock(text string) (uint64, error) {
	switch text {
	case "":
		return 0, nil
	case "unlimited":
		return unix.RLIM_INFINITY, nil
	}
	for unit, size := range map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		number, found := strings.CutSuffix(text, unit)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		if err != nil || n == 0 || n > math.MaxInt64/size {
			break
		}
		return n * size, nil
	}
	return 0, errors.New(`must be "unlimited" or a whole number with its unit, such as "64GiB" or "512MiB"`)
}

// limitLockedMemory sets how much memory a process, and its later child processes, may
// lock. The kernel charges locked memory to the task's cgroup like any other memory.
func limitLockedMemory(pid int, limit uint64) error {
	if limit == 0 {
		return nil
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		return fmt.Errorf("memlock: %w; the Nomad client must be root, with CAP_SYS_RESOURCE", err)
	}
	return nil
}
