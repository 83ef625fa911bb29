// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// drop sets the calling thread's identity and permanently drops all its other
// privileges. The order matters: each step needs a privilege that a later one
// drops.
func drop(id Identity) error {
	// The kernel clears the signal when the identity changes.
	deathSignal, err := parentDeathSignal()
	if err != nil {
		return fmt.Errorf("read the parent death signal: %w", err)
	}
	steps := []struct {
		what string
		// contained marks steps for containers only.
		contained bool
		do        func() error
	}{
		{"set the supplementary groups", false, func() error { return SetThreadGroups(id.Groups) }},
		{"set the group", false, func() error { return setIDs(unix.SYS_SETRESGID, id.GID) }},
		{"empty the bounding set", true, emptyBoundingSet},
		{"clear the ambient capabilities", false, func() error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
		}},
		{"set the user", false, func() error { return setIDs(unix.SYS_SETRESUID, id.UID) }},
		{"clear the capabilities", false, clearCapabilities},
		{"set no_new_privs", true, func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"restore the parent death signal", false, func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, deathSignal, 0, 0, 0) }},
	}
	for _, step := range steps {
		if step.contained && id.Setuid {
			continue
		}
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// The wrappers of packages syscall and unix set IDs on all threads of the process,
// or on some; these functions set them on the calling thread only.

// SetThreadGroups sets the supplementary groups of the calling thread only.
func SetThreadGroups(groups []int) error {
	ids := make([]uint32, max(len(groups), 1))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&ids[0])), 0)
	return errnoErr(errno)
}

func setIDs(call uintptr, id int) error {
	_, _, errno := unix.RawSyscall(call, uintptr(id), uintptr(id), uintptr(id))
	return errnoErr(errno)
}

func errnoErr(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func parentDeathSignal() (uintptr, error) {
	var signal int32
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	return uintptr(signal), err
}

// emptyBoundingSet drops every capability that the kernel knows, which may be more
// than this program knows.
func emptyBoundingSet() error {
	for capability := uintptr(0); ; capability++ {
		switch in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0); {
		case errors.Is(err, unix.EINVAL):
			return nil // above the highest capability
		case err != nil:
			return err
		case in == 0:
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return err
		}
	}
}

func clearCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// setAlarm starts the process's timer for SIGALRM, which survives exec. It repeats
// every second, because Go's runtime ignores a first signal that comes before exec.
func setAlarm(after time.Duration) error {
	if after == 0 {
		return nil
	}
	_, err := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{
		Value:    unix.NsecToTimeval(after.Nanoseconds()),
		Interval: unix.Timeval{Sec: 1},
	})
	return err
}
