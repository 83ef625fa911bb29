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

// ownerFile in a cluster's directory names the process that started the cluster.
const ownerFile = "owner.json"

// owner is a process, distinguished from later ones with the same id.
type owner struct {
	PID int `json:"pid"`
	// Started is when, in ticks since the machine's start, and Namespace where: in
	// a container, other containers' processes are not to be seen.
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
	// pid (name) state parent …: the name may hold spaces and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return owner{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	return owner{PID: pid, Started: fields[19], Namespace: namespace}, nil
}

// claim notes in dir that this process owns it. Where there is no /proc, nothing
// can be found out about owners, and nothing is noted.
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

// sweep removes, once for each process, what runs have left that were killed
// together with their reapers. It takes only what an owner file of this user
// shows to be of a process that is gone, and logs what it does.
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

// removeLeftover removes the cluster that an owner file is of, if its owner and
// its reaper are gone.
func removeLeftover(ctx context.Context, file string, log func(format string, args ...any)) error {
	dir := filepath.Dir(file)
	// Anyone may make directories here.
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || st.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return ignoreGone(err)
	}
	f, err := os.Open(file)
	if err != nil {
		return ignoreGone(err)
	}
	defer f.Close()
	// Of several processes that start now, one removes it: a second would find
	// the network's name with its next owner.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil // the other does it
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return ignoreGone(err)
	}
	var o owner
	if err := json.Unmarshal(text, &o); err != nil {
		return nil // its owner writes it just now
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

// gone reports whether the process has ended, as far as can be seen from here.
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

// reaped reports whether a reaper cleans up in dir, or waits for its owner's end.
func reaped(dir string) bool {
	return len(Processes(func(p Process) bool { return len(p.Args) > 4 && p.Args[3] == reaperName && p.Args[4] == dir })) > 0
}

// networkOf is the name of the bridge that was made for the cluster in dir, empty
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
