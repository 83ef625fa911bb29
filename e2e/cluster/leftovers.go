// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// ownerFile in a cluster's directory identifies the process that started the
// cluster.
const ownerFile = "owner.json"

// owner is a process, distinguished from later ones with the same ID.
type owner struct {
	PID int `json:"pid"`
	// Started is the process's start, in ticks since the machine's start. Namespace
	// is its PID namespace, because a container cannot see the processes of other
	// containers.
	Started   string `json:"started"`
	Namespace string `json:"pid_namespace"`
}

func ownerOf(pid int) (owner, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return owner{}, err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return owner{}, err
	}
	// The format is: pid (name) state parent …; the name may contain spaces and
	// parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return owner{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	return owner{PID: pid, Started: fields[19], Namespace: namespace}, nil
}

// claim records in dir that this process owns it. Without /proc nothing can be
// found out about owners, and claim records nothing.
func claim(dir string) error {
	self, err := ownerOf(os.Getpid())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(self)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ownerFile), text, 0o600)
}

var sweepOnce sync.Once

// sweep removes, once per process, the remains of runs that were killed together
// with their reapers. It removes only what an owner file of this user shows to
// belong to an ended process, and logs what it does.
func sweep(ctx context.Context, log func(format string, args ...any)) {
	sweepOnce.Do(func() {
		if err := removeLeftovers(ctx, os.TempDir(), log); err != nil {
			log("cluster: removing what earlier runs have left: %v", err)
		}
	})
}

func removeLeftovers(ctx context.Context, temp string, log func(format string, args ...any)) error {
	files, err := filepath.Glob(filepath.Join(temp, "kolo-*", ownerFile))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if err := removeLeftover(ctx, file, log); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Dir(file), err))
		}
	}
	return errors.Join(errs...)
}

// removeLeftover removes the cluster of an owner file, if its owner and its reaper
// are gone.
func removeLeftover(ctx context.Context, file string, log func(format string, args ...any)) error {
	dir := filepath.Dir(file)
	// Anyone may create directories here.
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || st.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return ignoreGone(err)
	}
	f, err := os.Open(file)
	if err != nil {
		return ignoreGone(err)
	}
	defer f.Close()
	// Of several processes that start now, only one may remove it: a second one
	// would remove a network whose name the next owner has taken already.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil // the other process removes it
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return ignoreGone(err)
	}
	var o owner
	if err := json.Unmarshal(text, &o); err != nil {
		return nil // its owner is just writing it
	}
	if gone, err := o.gone(); err != nil || !gone || reaped(dir) {
		return err
	}
	network, err := networkOf(ctx, dir)
	if err != nil {
		return err
	}
	log("cluster: removing %s %s, which process %d has left", dir, network, o.PID)
	r, err := startReaper(dir, network)
	if err != nil {
		return err
	}
	return r.reap()
}

// gone reports whether the process has ended, as far as this process can see.
func (o owner) gone() (bool, error) {
	self, err := ownerOf(os.Getpid())
	if err != nil || o.Namespace != self.Namespace {
		return false, err
	}
	now, err := ownerOf(o.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true, nil
	}
	return err == nil && now != o, err
}

// reaped reports whether a reaper is cleaning up in dir, or waits for its owner's
// end.
func reaped(dir string) bool {
	return len(Processes(func(p Process) bool { return len(p.Args) > 4 && p.Args[3] == reaperName && p.Args[4] == dir })) > 0
}

// networkOf returns the name of the bridge that was made for the cluster in dir, ""
// if there is none.
func networkOf(ctx context.Context, dir string) (string, error) {
	if !commandExists("ip") {
		return "", nil
	}
	out, err := exec.CommandContext(ctx, "ip", "-json", "link", "show", "type", "bridge").Output()
	if err != nil {
		return "", fmt.Errorf("ip link show: %w", err)
	}
	var links []struct{ Ifname, Ifalias string }
	if len(bytes.TrimSpace(out)) > 0 {
		if err := json.Unmarshal(out, &links); err != nil {
			return "", fmt.Errorf("ip link show: %w", err)
		}
	}
	for _, l := range links {
		if l.Ifalias == dir && strings.HasPrefix(l.Ifname, networkName) {
			return l.Ifname, nil
		}
	}
	return "", nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
