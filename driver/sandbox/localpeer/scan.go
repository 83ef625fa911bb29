// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package localpeer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// scan holds the sockets that the task's processes had open at one time.
type scan struct {
	sockets map[uint64]descriptor // by inode
	// hidden are processes of the task whose descriptors the caller may not read.
	hidden []int
}

// scanTask scans all processes of the caller's task.
func scanTask() (scan, error) {
	me, err := self()
	if err != nil {
		return scan{}, err
	}
	all, err := processes()
	if err != nil {
		return scan{}, err
	}
	found := scan{sockets: map[uint64]descriptor{}}
	for _, pid := range members(all, me) {
		err := found.add(pid, all[pid])
		if errors.Is(err, fs.ErrPermission) {
			found.hidden = append(found.hidden, pid)
		}
	}
	slices.Sort(found.hidden)
	return found, nil
}

// add adds the sockets of a process, unless the process has ended.
func (s *scan) add(pid int, p process) error {
	files, err := openDescriptors(pid)
	if err != nil {
		return err
	}
	defer files.close()
	if now, ok := readProcess(pid); !ok || now.started != p.started {
		return fs.ErrNotExist
	}
	return files.sockets(func(number int, inode uint64) { s.sockets[inode] = descriptor{pid, number} })
}

// hold keeps a process's descriptors open. It returns nil if the process has ended
// meanwhile.
func hold(at descriptor, inode uint64) *held {
	files, err := openDescriptors(at.pid)
	if err != nil {
		return nil
	}
	if !files.has(at.number, inode) {
		files.close()
		return nil
	}
	return &held{files: files, number: at.number}
}

// Holder describes the process that has a socket open, for a log: its number and command.
// The result is empty if the caller may not see the process. Holder searches all processes,
// so it is slow.
func Holder(inode uint64) string {
	pid, command := holder(inode)
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("%d (%s)", pid, command)
}

// holder returns the number and the command of the process that has a socket open, 0 if the
// caller can see none.
func holder(inode uint64) (pid int, command string) {
	all, err := processes()
	if err != nil || inode == 0 {
		return 0, ""
	}
	for pid, p := range all {
		found := scan{sockets: map[uint64]descriptor{}}
		if found.add(pid, p) != nil {
			continue
		}
		if _, ok := found.sockets[inode]; ok {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			return pid, strings.TrimSpace(string(command))
		}
	}
	return 0, ""
}

// allocationID matches the allocation ID in the name of a Nomad cgroup.
var allocationID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// allocation returns the ID of the allocation whose cgroup a process is in. It is empty if
// there is none or the caller cannot see it.
func allocation(pid int) string {
	cgroups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return string(allocationID.Find(cgroups))
}
