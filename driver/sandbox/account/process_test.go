// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"os"
	"testing"

	"github.com/shoenig/test/must"
)

func TestProcess(t *testing.T) {
	pid, err := Account{UID: os.Getuid()}.Process()
	must.NoError(t, err)
	must.Positive(t, pid)
	pid, err = Account{UID: 1<<31 - 7}.Process()
	must.NoError(t, err)
	must.Zero(t, pid)
}

// Checking an account's rights leaves no process running as that account; otherwise its
// tasks could not be started again.
func TestAskingLeavesNoProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	who := Account{UID: 1<<31 - 8, GID: 1<<31 - 8}
	for range 200 {
		must.NoError(t, who.try(func() error { return nil }))
	}
	pid, err := who.Process()
	must.NoError(t, err)
	must.Zero(t, pid)
}

func TestRunsAs(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   bool
	}{
		"all ids":         {"Name:\tsh\nState:\tS (sleeping)\nUid:\t80123\t80123\t80123\t80123\n", true},
		"the saved one":   {"State:\tR (running)\nUid:\t0\t0\t80123\t0\n", true},
		"another's":       {"State:\tR (running)\nUid:\t801\t801\t801\t801\nGid:\t80123\t80123\t80123\t80123\n", false},
		"one that ended":  {"State:\tZ (zombie)\nUid:\t80123\t80123\t80123\t80123\n", false},
		"without any ids": {"", false},
	} {
		must.Eq(t, c.want, runsAs(c.status, 80123), must.Sprint(name))
	}
}
