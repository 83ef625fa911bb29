// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig_test

import (
	"io/fs"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// The users' settings and their messages are tested in package plugin; this test covers a
// problem that occurs only in an image.
func TestRead_UnreadableIdentity(t *testing.T) {
	s := &taskconfig.Surroundings{
		Env: map[string]string{
			"PATH": "/usr/bin", "NOMAD_NAMESPACE": "default", "NOMAD_JOB_ID": "resnet", "NOMAD_GROUP_NAME": "workers", "NOMAD_TASK_NAME": "train",
			"NOMAD_ALLOC_ID": "a1", "NOMAD_ALLOC_INDEX": "3", "NOMAD_PORT_kolo_port": "25000", "NOMAD_ADDR_kolo_port": "10.0.0.5:25000",
		},
		Dir: "/workspace", Locate: func(path string) string { return path }, User: "1000",
		Executable: func(string) error { return nil },
		Readable: func(path string) error {
			if path == "/secrets/nomad_token" {
				return fs.ErrPermission
			}
			return nil
		},
		Unreadable: "set its number",
		Secrets:    "/secrets", SecretsOnClient: "/secrets", Exists: func(string) bool { return true },
		Interfaces: func() ([]string, error) { return []string{"lo"}, nil },
	}
	given := map[string]any{"command": "python3", "args": []any{"train.py"}, "service": "resnet", "port": "kolo-port"}
	task, problems := taskconfig.Read(taskdriver.PyTorch{}, given, s)
	must.Eq(t, []string{`identity: nomad_token cannot be read by the task's user "1000" (permission denied); set its number`}, problems.Strings())
	must.Eq(t, "/usr/bin/python3", task.Agent.Command)
	must.Eq(t, "/workspace", task.Agent.Dir)
	must.Eq(t, ":25000", task.Agent.Listen)
	label, address, err := taskconfig.ServiceAddress(s.Env, task.Agent.Listen)
	must.NoError(t, err)
	must.Eq(t, "kolo_port", label)
	must.Eq(t, "10.0.0.5:25000", address)
}

// NOMAD_PORT is the port that a task sees, NOMAD_ADDR has the client's.
func TestServiceAddress(t *testing.T) {
	for name, c := range map[string]struct{ env, want map[string]string }{
		"one port":       {map[string]string{"NOMAD_PORT_kolo": "25000", "NOMAD_ADDR_kolo": "10.0.0.5:25000"}, map[string]string{"kolo": "10.0.0.5:25000"}},
		"a mapped port":  {map[string]string{"NOMAD_PORT_kolo": "25000", "NOMAD_ADDR_kolo": "10.0.0.5:31000"}, map[string]string{"kolo": "10.0.0.5:31000"}},
		"another's port": {map[string]string{"NOMAD_PORT_web": "80", "NOMAD_ADDR_web": "10.0.0.5:25000"}, map[string]string{"": ""}},
	} {
		label, address, err := taskconfig.ServiceAddress(c.env, ":25000")
		must.NoError(t, err)
		must.Eq(t, c.want, map[string]string{label: address}, must.Sprint(name))
	}
}
