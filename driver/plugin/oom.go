// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
)

// memoryWatch looks whether the kernel kills processes of a task for lack of memory. The
// agent of an isolated task does not see its cgroup.
type memoryWatch struct {
	cgroup cgroup.Cgroup
	seen   int
}

func watchMemory(c cgroup.Cgroup) *memoryWatch { return &memoryWatch{c, c.OOMKills()} }

// news is what the task's user has to know since the last call, empty where nothing.
func (w *memoryWatch) news() string {
	n := w.cgroup.OOMKills() - w.seen
	if n <= 0 {
		return ""
	}
	w.seen += n
	return fmt.Sprintf("the kernel killed %d process(es) of this task for lack of memory: raise resources { memory }", n)
}
