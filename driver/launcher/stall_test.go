// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"syscall"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/stall"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// A process that is stopped makes the others wait in a collective. It is replaced alone, also
// if it has rank 0. Processes that can't change their ring are all replaced.
func TestAProcessThatIsStoppedIsReplaced(t *testing.T) {
	t.Parallel()
	flags := []string{"-np", "3", "-stall-timeout", "auto"}
	for name, c := range map[string]struct {
		start func() (*job, func(int) int)
		rank  int
		alone bool
	}{
		"kolo.torch": {func() (*job, func(int) int) {
			j := startJobOf(t, torchrun, nil, 0, "a:2 b:1", flags...)
			return j, j.torchPID
		}, 1, true},
		"rank 0": {func() (*job, func(int) int) {
			j := startJobOf(t, torchrun, nil, 0, "a:2 b:1", flags...)
			return j, j.torchPID
		}, 0, true},
		"restart": {func() (*job, func(int) int) { j := startScript(t, 0, "a:2 b:1", flags...); return j, j.torchPID }, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, pid := c.start()
			j.size(3)
			s := j.until("enough steps", func(now *wire.Status) bool { return now.Step != nil && *now.Step > 2*stall.Enough })
			before := map[int]bool{pid(0): true, pid(1): true, pid(2): true}
			must.NoError(t, syscall.Kill(pid(c.rank), syscall.SIGSTOP))
			stopped := *j.status().Step
			// A resize is listed with the first step of its ring, after the ring's generation.
			after := j.until("steps of three ranks", func(now *wire.Status) bool {
				return now.Phase == "training" && now.Size == 3 && len(now.Resizes) > len(s.Resizes) && now.Step != nil && *now.Step > stopped+1
			})
			must.Eq(t, "failure", after.Resizes[len(s.Resizes)].Cause)
			kept := 0
			for rank := range 3 {
				if before[pid(rank)] {
					kept++
				}
			}
			must.Eq(t, map[bool]int{true: 2, false: 0}[c.alone], kept)
			must.True(t, j.log.has(`(stall_timeout = "auto"); the cause is rank `), must.Sprint(j.log))
			must.True(t, j.log.has("stopped by a signal"))
		})
	}
}
