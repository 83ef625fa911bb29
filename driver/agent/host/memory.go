// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
	"github.com/kolo-nomad/kolo/driver/sandbox/localpeer"
)

// lackOfMemory returns why a second process as large as a running one does not fit into
// memory, or "" if it does. Mapped files, such as libraries, count once.
func (h *Host) lackOfMemory(running *slot) string {
	size, mapped := treeMemory(running.proc.PID())
	promised := h.promisedMemory()
	if limit := h.o.Config.Memory; limit > 0 {
		// The cgroup of an isolated task is not visible in it.
		all, _ := treeMemory(os.Getpid())
		if used := all + mapped + promised; used+size > limit {
			return fmt.Sprintf("a second process of %s does not fit into the task's memory of %s, of which %s are taken", mebibytes(size), mebibytes(limit), mebibytes(used))
		}
	}
	if free := fieldsOf("/proc/meminfo")["MemAvailable"]; free > 0 && promised+size > free {
		return fmt.Sprintf("a second process of %s does not fit into the memory of this machine, of which %s are available", mebibytes(size), mebibytes(free))
	}
	return ""
}

// oomKilled reports whether the kernel has killed a process of this cgroup for lack of
// memory since the last call. Under Kolo's task driver it returns false, because the driver
// reports that itself.
func (h *Host) oomKilled() bool {
	if h.o.Config.EventFile != "" {
		return false
	}
	before := h.oomKills
	h.oomKills = cgroup.OOMKills(h.oomFile)
	return h.oomKills > before
}

// promisedMemory returns how much more memory processes in the second place of a slot are
// expected to take.
func (h *Host) promisedMemory() int64 {
	var bytes int64
	for local, s := range h.slots {
		other := h.sibling(local)
		if s.proc == nil || other.proc == nil || s.State != elastic.Starting && s.State != elastic.Arrived {
			continue
		}
		size, _ := treeMemory(other.proc.PID())
		has, _ := treeMemory(s.proc.PID())
		bytes += max(0, size-has)
	}
	return bytes
}

// treeMemory returns the memory that a process and its descendants have to themselves or
// share with each other, and the largest amount of mapped files in one of them.
func treeMemory(pid int) (own, mapped int64) {
	pids, _ := localpeer.Descendants(pid) // none if the process is gone
	for _, p := range pids {
		size := fieldsOf(filepath.Join("/proc", strconv.Itoa(p), "status"))
		own += size["RssAnon"] + size["RssShmem"]
		mapped = max(mapped, size["RssFile"])
	}
	return own, mapped
}

// fieldsOf returns the sizes in a file of /proc, by name and in bytes. The file has them in
// KiB.
func fieldsOf(path string) map[string]int64 {
	text, _ := os.ReadFile(path) // empty if the process is gone
	sizes := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if size, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok {
			n, _ := strconv.ParseInt(size, 10, 64)
			sizes[name] = n << 10
		}
	}
	return sizes
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
