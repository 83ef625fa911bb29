// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"os"
	"testing"

	"github.com/shoenig/test/must"
)

func TestPidsDir(t *testing.T) {
	for text, want := range map[string]string{
		"0::/nomad.slice/share.slice/a.train.scope\n":                              "/nomad.slice/share.slice/a.train.scope",
		"12:cpu,cpuacct:/x\n5:pids:/nomad/a.train.scope\n1:name=systemd:/\n0::/\n": "pids/nomad/a.train.scope",
		"7:pids,misc:/nomad/with:colon\n":                                          "pids/nomad/with:colon",
		"4:cpu:/x\n":                                                               "",
		"":                                                                         "",
	} {
		must.Eq(t, want, pidsDir(text), must.Sprint(text))
	}
}

// A limit for a process without a cgroup of its own would apply to everybody.
func TestLimitPidsSparesItsOwnCgroup(t *testing.T) {
	must.ErrorIs(t, LimitPids(os.Getpid(), 1), ErrShared)
}
