// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build packages

package debian

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
)

// inside marks the process that runs the tests.
const inside = "KOLO_PACKAGES_INSIDE"

// The tests run in namespaces of their own: the ports are theirs, and no process and no
// mount outlives them.
func TestMain(m *testing.M) {
	os.Exit(confined(m)) //nolint:forbidigo // the main function of the tests
}

// confined runs the tests, in a process that it starts if this one has the machine's namespaces.
func confined(m *testing.M) int {
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root, for chroot")
		return 1
	}
	if os.Getenv(inside) == "" {
		return again()
	}
	for _, args := range [][]string{{"ip", "link", "set", "lo", "up"}, {"mount", "-t", "proc", "proc", "/proc"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n%s", args, err, out)
			return 1
		}
	}
	return m.Run()
}

// again runs this program in new namespaces and returns its exit status.
func again() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "--net", "--pid", "--fork", "--kill-child", self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startNomad starts a Nomad server and returns its address.
func startNomad(t *testing.T) string {
	t.Helper()
	binary, err := filepath.Abs("../../bin/nomad")
	must.NoError(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "server.hcl")
	must.NoError(t, os.WriteFile(config, []byte(`
data_dir = "`+dir+`/data"
bind_addr = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
disable_update_check = true
server {
  enabled = true
  bootstrap_expect = 1
}
`), 0o644))
	log, err := os.Create(filepath.Join(dir, "log"))
	must.NoError(t, err)
	cmd := exec.Command(binary, "agent", "-config", config)
	cmd.Stdout, cmd.Stderr = log, log
	must.NoError(t, cmd.Start(), must.Sprint("make nomad puts one there"))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Nomad's log:\n%s", text)
		}
	})
	const address = "http://127.0.0.1:4646"
	must.Wait(t, wait.InitialSuccess(wait.Timeout(2*time.Minute), wait.Gap(200*time.Millisecond), wait.ErrorFunc(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/v1/operator/scheduler/configuration", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("Nomad has no leader yet: %s", answer.Status)
		}
		return nil
	})))
	return address
}
