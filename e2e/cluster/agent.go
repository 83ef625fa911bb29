// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// An agent is a Nomad agent process, with everything needed to start it again.
type agent struct {
	nomad  string
	dir    string
	env    map[string]string
	prefix []string
	conf   agentConfig

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

// start writes the configuration (nil keeps the existing one) and runs the agent.
// It appends the agent's output to agent.log.
func (a *agent) start(config []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(a.dir, "agent.hcl")
	if config != nil {
		if err := os.WriteFile(path, config, 0o644); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(a.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := slices.Concat(a.prefix, []string{a.nomad, "agent", "-config", path})
	// Not bound to a context: agents live until the reaper or a test ends them.
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // see above
	cmd.Dir = a.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = a.environment()
	// Ctrl-C should reach only the process that started the cluster.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := unlessInterrupted(cmd.Start); err != nil {
		return fmt.Errorf("nomad agent %s: %w", filepath.Base(a.dir), err)
	}
	done := make(chan struct{})
	a.cmd, a.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	return nil
}

// environment returns this process's environment without variables that would
// mislead Nomad.
func (a *agent) environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := a.env[name]
		// With AWS_CA_BUNDLE set, the AWS fingerprint ends the agent even if it is
		// turned off.
		if !ours && name != "AWS_CA_BUNDLE" && !strings.HasPrefix(name, "NOMAD_") {
			env = append(env, kv)
		}
	}
	for name, value := range a.env {
		env = append(env, name+"="+value)
	}
	return env
}

// alive returns nil while the agent runs, then an error that quotes its log.
func (a *agent) alive() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.done:
		text, _ := os.ReadFile(filepath.Join(a.dir, "agent.log"))
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return &FatalError{Reason: fmt.Sprintf("the agent %s ended with %s: %s",
			filepath.Base(a.dir), a.cmd.ProcessState, strings.Join(lines[max(0, len(lines)-5):], " | "))}
	default:
		return nil
	}
}

// signal sends sig and, if it ends the agent, waits for that.
func (a *agent) signal(sig syscall.Signal) error {
	a.mu.Lock()
	cmd, done := a.cmd, a.done
	a.mu.Unlock()
	if err := cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		<-done
	}
	return nil
}
