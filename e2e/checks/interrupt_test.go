// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// standIn takes the place of `make e2e` and `make test-python`. It runs until it is
// interrupted, there is a file named end, or its directory is gone. It takes a moment to clean
// up.
const standIn = `#!/bin/bash
log() { echo "$1 $target" >>"$(dirname "$0")/log"; }
target=$1
trap 'sleep 0.5; log cleaned; exit 1' INT TERM
log started
while [ -e "$0" ] && [ ! -e "$(dirname "$0")/end" ]; do sleep 0.05; done
[ ! -e "$(dirname "$0")/fail-$target" ]
`

// makeTest is a running `make test`, with stand-ins for what it makes.
type makeTest struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out bytes.Buffer
}

func startMakeTest(t *testing.T) *makeTest {
	t.Helper()
	m := &makeTest{t: t, dir: t.TempDir()}
	script := filepath.Join(m.dir, "make")
	must.NoError(t, os.WriteFile(script, []byte(standIn), 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	m.cmd = exec.CommandContext(ctx, "make", "-C", "../..", "-o", "test-go", "-o", "test-setup", "test", "MAKE="+script, "BIN="+m.dir)
	m.cmd.Stdout, m.cmd.Stderr = &m.out, &m.out
	m.cmd.WaitDelay = time.Second // processes that are left may have the output open
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.NoError(t, m.cmd.Start())
	for m.log("started") < 2 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return m
}

// log returns how many stand-ins have logged a word.
func (m *makeTest) log(word string) int {
	text, _ := os.ReadFile(filepath.Join(m.dir, "log"))
	return strings.Count(string(text), word)
}

func (m *makeTest) touch(name string) {
	must.NoError(m.t, os.WriteFile(filepath.Join(m.dir, name), nil, 0o600))
}

// What `make test` runs has ended when `make test` ends, whether a terminal interrupts it or
// another program ends make alone.
func TestInterruptedTestsEnd(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	for name, interrupt := range map[string]func(pid int) error{
		"Ctrl-C":         func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) },
		"SIGTERM":        func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) },
		"closed session": func(pid int) error { return syscall.Kill(-pid, syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			m := startMakeTest(t)
			must.NoError(t, interrupt(m.cmd.Process.Pid))
			must.Error(t, m.cmd.Wait())
			must.Eq(t, 2, m.log("cleaned"), must.Sprint(m.out.String()))
		})
	}
}

func TestFailedTestsAreNamed(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	for _, failed := range []string{"", "e2e", "test-python"} {
		m := startMakeTest(t)
		if failed != "" {
			m.touch("fail-" + failed)
		}
		m.touch("end")
		err := m.cmd.Wait()
		must.Eq(t, failed == "", err == nil, must.Sprint(m.out.String()))
		for _, target := range []string{"e2e", "test-python"} {
			must.Eq(t, target == failed, strings.Contains(m.out.String(), "FAILED: make "+target), must.Sprint(m.out.String()))
		}
	}
}
