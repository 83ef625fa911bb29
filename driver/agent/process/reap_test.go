// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

// reaperMode makes this test binary the parent of orphans, like the first process of a
// container.
const reaperMode = "KOLO_TEST_REAPER"

func TestMain(m *testing.M) {
	if os.Getenv(reaperMode) != "" {
		os.Exit(reaper()) //nolint:forbidigo // this is another process
	}
	m.Run()
}

// reaper starts scripts that leave orphans behind. It ends with 0 if all orphans are reaped
// and the scripts' exit codes are correct.
func reaper() int {
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != nil {
		return 10
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }() // the test has ended
	go ReapOrphans(ctx)
	s, err := NewSpawner("")
	if err != nil {
		return 11
	}
	defer s.Close()
	for code := range 5 {
		p, err := s.Start(Spec{Command: "sh", Env: []string{"PATH=" + os.Getenv("PATH")},
			Args: []string{"-c", fmt.Sprintf("for i in 1 2 3; do setsid sleep 0.0$i >/dev/null 2>&1 & done; sleep 0.02; exit %d", code)}})
		if err != nil {
			return 12
		}
		<-p.Done()
		if p.Exit().ExitStatus() != code {
			return 13
		}
	}
	fmt.Println("started")
	for ctx.Err() == nil {
		if zombies() == 0 {
			return 0
		}
	}
	return 14
}

// zombies returns how many children the first thread has, running or not. Orphans become
// its children.
func zombies() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return len(strings.Fields(string(text)))
}

func TestReapOrphans(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), reaperMode+"=yes")
	stdin, err := cmd.StdinPipe()
	must.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, cmd.Start())
	defer func() { _ = stdin.Close() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must.NoError(t, err)
	must.Eq(t, "started\n", line)
	_, _ = io.Copy(io.Discard, stdout)
	must.NoError(t, cmd.Wait())
}
