// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// runMode makes this test binary the `run` subcommand.
const runMode = "KOLO_TEST_RUN"

// Nomad's log collector reads from a named pipe. It may crash and start again.
func TestOutputOutlivesItsReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must.NoError(t, unix.Mkfifo(pipe, 0o600))
	read := func() (*os.File, *bufio.Scanner) {
		f, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0) // does not wait for a writer
		must.NoError(t, err)
		must.NoError(t, f.SetReadDeadline(time.Now().Add(time.Minute)))
		return f, bufio.NewScanner(f)
	}
	first, lines := read()
	out, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	must.NoError(t, err)
	// The slot can't know when its line is written, so it writes for a while.
	cmd := exec.Command(os.Args[0], "-np", "1", "--", "sh", "-c", `echo ready
		until [ -e gone ]; do sleep 0.01; done
		for i in 1 2 3 4 5 6 7 8 9 10; do echo lost; sleep 0.02; done
		touch written
		until [ -e back ]; do sleep 0.01; done
		echo heard`)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), runMode+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	must.NoError(t, cmd.Start())
	must.NoError(t, out.Close())
	touch := func(name string) { must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600)) }

	must.True(t, lines.Scan())
	must.StrHasSuffix(t, "ready", lines.Text())
	must.NoError(t, first.Close())
	touch("gone")
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "written")); err == nil {
			break
		}
		if time.Now().After(end) {
			break // the slot died with the agent, which Wait shows
		}
	}
	second, lines := read()
	defer func() { _ = second.Close() }()
	touch("back")
	heard := false
	for lines.Scan() {
		heard = heard || strings.HasSuffix(lines.Text(), "heard")
	}
	must.NoError(t, cmd.Wait())
	must.True(t, heard)
}
