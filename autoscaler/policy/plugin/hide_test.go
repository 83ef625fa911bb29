// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// agentEnv makes the test binary an autoscaler with the policies of a directory: it
// prints what the one named snoop found.
const agentEnv = "KOLO_TEST_AGENT"

func playAgent(dir string) error {
	h := NewHost(dir, 20*time.Second, hclog.NewNullLogger())
	defer h.Close()
	p, err := h.Policy("snoop")
	if err != nil {
		return err
	}
	d, err := p.(*Process).TryAllocate(snapshot())
	if err != nil {
		return err
	}
	fmt.Println(d.Allocations[0].Reason)
	return nil
}

// snoop reads what the kernel shows of the autoscaler.
func snoop() string {
	var found []string
	for _, name := range []string{"environ", "mem", "maps"} {
		text, err := readSome(fmt.Sprintf("/proc/%d/%s", os.Getppid(), name))
		switch {
		case err != nil:
			found = append(found, name+": "+err.Error())
		case strings.Contains(text, "NOMAD_TOKEN=the-token"):
			found = append(found, name+": the token")
		default:
			found = append(found, name+": it can be read")
		}
	}
	return strings.Join(found, "; ")
}

func readSome(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if strings.HasSuffix(path, "/mem") {
		err = nil // nothing is mapped at 0; that it opens is enough
	}
	return string(text), err
}

// TestHost_AProgramCannotReadTheAgent runs an autoscaler as a user other than root, with a
// token in its environment, and a policy that looks for the token.
func TestHost_AProgramCannotReadTheAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "kolo-hide")
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of the test alone
	must.NoError(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must.NoError(t, err)
	text, err := os.ReadFile(self)
	must.NoError(t, err)
	program := filepath.Join(dir, "agent")
	must.NoError(t, os.WriteFile(program, text, 0o755))
	script := fmt.Sprintf("#!/bin/sh\n%s=snoop exec %s\n", kindEnv, program)
	must.NoError(t, os.WriteFile(filepath.Join(dir, Prefix+"snoop"), []byte(script), 0o755))

	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{agentEnv + "=" + dir, "NOMAD_TOKEN=the-token", "PATH=" + os.Getenv("PATH")}
	if os.Geteuid() == 0 {
		const unprivileged = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	}
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	must.StrNotContains(t, string(out), "the token")
	must.StrNotContains(t, string(out), "can be read")
	must.Eq(t, 3, strings.Count(string(out), "permission denied"), must.Sprint(string(out)))
}
