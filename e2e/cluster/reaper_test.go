// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// A user's shell in the cluster's directory does not belong to the cluster.
func TestTheReaperSparesShells(t *testing.T) {
	terminal := openTerminal(t)
	for name, c := range map[string]struct {
		attributes syscall.SysProcAttr
		spared     bool
	}{
		"a shell at a terminal":     {syscall.SysProcAttr{Setsid: true, Setctty: true}, true},
		"a process without one":     {syscall.SysProcAttr{Setsid: true}, false},
		"an agent in its own group": {syscall.SysProcAttr{Setpgid: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(t.TempDir(), "kolo-")
			must.NoError(t, err)
			cmd := exec.Command("sleep", "1000")
			cmd.Dir, cmd.Stdin, cmd.SysProcAttr = dir, terminal, &c.attributes
			must.NoError(t, cmd.Start())
			ended := make(chan struct{})
			go func() { _ = cmd.Wait(); close(ended) }()
			t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
			r, err := startReaper(dir, "")
			must.NoError(t, err)
			must.NoError(t, r.reap())
			if !c.spared {
				<-ended
				return
			}
			select {
			case <-ended:
				t.Fatal("it was killed")
			default:
			}
		})
	}
}

// openTerminal returns a terminal that no session has.
func openTerminal(t *testing.T) *os.File {
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs pseudo-terminals: ", err)
	}
	t.Cleanup(func() { _ = control.Close() })
	must.NoError(t, unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	must.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return terminal
}
