// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package python finds out which packages are installed for a Python interpreter of the
// client. Importing a training framework takes seconds, and may hang or crash. So a script
// imports the framework in a process of its own, with no more rights than a task has.
package python

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/task/plaintext"
)

// unprivileged is the user that Python runs as, which is also the default user of tasks.
const unprivileged = "nobody"

// Ask runs a script with a Python interpreter, within timeout, and decodes the last line of
// the script's output, a JSON object, into answer.
func Ask(ctx context.Context, python, script string, timeout time.Duration, answer any) error {
	path, err := exec.LookPath(python)
	if err != nil {
		return fmt.Errorf("python = %q: %w", python, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// Isolated mode: neither PYTHON* variables nor packages in the user's or the working
	// directory affect what is imported. A virtual environment does.
	cmd := exec.CommandContext(ctx, path, "-I", "-B", "-c", script)
	cmd.Dir = "/"
	// A group of its own, because frameworks start processes that would otherwise remain
	// and hold the pipe open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cmd.SysProcAttr.Credential, err = credentialFor(path); err != nil {
		return fmt.Errorf("python = %q: %w", python, err)
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Env = environment(os.Environ())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %s", path, timeout)
	case err != nil:
		return fmt.Errorf("%s: %w: %s", path, err, lastLine(stderr.String()))
	}
	// Frameworks may print anything to stdout; the answer is the last line.
	if err := json.Unmarshal([]byte(lastLine(stdout.String())), answer); err != nil {
		return fmt.Errorf("%s gave no answer: %w", path, err)
	}
	return nil
}

// environment returns the part of the client's environment that Python needs to find itself
// and its libraries. It excludes the client's tokens.
func environment(client []string) []string {
	env := []string{"CUDA_VISIBLE_DEVICES=", "TF_CPP_MIN_LOG_LEVEL=3", "HOME=/"}
	for _, v := range client {
		switch key, _, _ := strings.Cut(v, "="); {
		case key == "PATH", key == "LD_LIBRARY_PATH", key == "CUDA_HOME", key == "LANG", strings.HasPrefix(key, "LC_"):
			env = append(env, v)
		}
	}
	return env
}

// credentialFor returns the user that Python runs as if the client is root. That is nobody,
// the default user of tasks, or the program's owner if nobody may not run it. So a user's
// own virtual environment never runs as root.
func credentialFor(path string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if who, err := account.Lookup(unprivileged); err == nil && who.Executable(account.Path{Base: "/", Rel: path[1:]}) == nil {
		return credential(who), nil
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	owner, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("its owner is unknown")
	}
	return credential(account.Account{UID: int(owner.Uid), GID: int(owner.Gid)}), nil
}

func credential(who account.Account) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(who.UID), Gid: uint32(who.GID)}
	for _, g := range who.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return plaintext.Line(lines[len(lines)-1], plaintext.Limit)
}
