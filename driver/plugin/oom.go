// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"

	"github.com/kolo-nomad/kolo/driver/sandbox/cgroup"
)

// memoryWatch checks whether the kernel kills processes of a task for lack of memory. The
// agent of an isolated task cannot see its own cgroup.
type memoryWatch struct {
	cgroup cgroup.Cgroup
	seen   int
}

func watchMemory(c cgroup.Cgroup) *memoryWatch { return &memoryWatch{c, c.OOMKills()} }

// news returns a message for the user about kills since the last call, "" if there were
// none.
func (w *memoryWatch) news() string {
	n := w.cgroup.OOMKills() - w.seen
	if n <= 0 {
		return ""
	}
	w.seen += n
	return fmt.Sprintf("the kernel killed %d process(es) of this task for lack of memory: raise resources { memory }", n)
}
