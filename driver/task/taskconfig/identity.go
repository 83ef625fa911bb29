// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package taskconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// checkIdentity finds the workload identity and the address of Nomad's API.
func checkIdentity(p *problem.List, t *Task, s *Surroundings) {
	// token returns the path, in the task, of an identity's file. An identity that
	// is only in the environment goes into a file, too: the slots share the agent's
	// environment, and a file can be renewed.
	token := func(file, key string) string {
		path := filepath.Join(s.Secrets, file)
		switch err := s.Readable(path); {
		case err == nil:
			return path
		case s.Env[key] != "":
			t.Tokens["kolo_"+file] = s.Env[key]
			return filepath.Join(s.Secrets, "kolo_"+file)
		case !errors.Is(err, fs.ErrNotExist):
			p.Add("identity", nil, fmt.Sprintf("%s cannot be read by the task's user %q (%v)", file, s.User, err), s.Unreadable)
		}
		return ""
	}
	before := len(*p)
	t.Agent.TokenFile = token("nomad_token", "NOMAD_TOKEN")
	t.Agent.PeerTokenFile = token("nomad_kolo.jwt", "NOMAD_TOKEN_kolo")
	if t.Agent.TokenFile == "" && len(*p) == before {
		p.Add("identity", nil, "the task has no workload identity", "add identity { file = true } to the task: with it the agent reads Nomad's services and proves itself to the others")
	}

	socket := filepath.Join(s.SecretsOnClient, "api.sock")
	switch {
	case s.Exists(socket):
		t.Agent.NomadAddr = "unix://" + filepath.Join(s.Secrets, "api.sock")
	case s.Env["NOMAD_UNIX_ADDR"] != "":
		t.Agent.NomadAddr = s.Env["NOMAD_UNIX_ADDR"]
	default:
		p.Add("identity", nil, fmt.Sprintf("Nomad's Task API socket %s is missing", socket), "the client must run Nomad 1.5 or newer on Linux")
	}
}
