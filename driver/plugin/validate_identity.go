// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/kolo-nomad/kolo/driver/isolation"
)

// checkIdentity finds the workload identity and the way to Nomad's API.
func checkIdentity(p *problems, out *plan, s *hostEnvironment, v isolation.View) {
	// token returns the task's path of an identity's file. One that is only in
	// the environment goes into a file too: the agent's environment is also
	// its slots', and a file can be renewed.
	token := func(file, key string) string {
		path := inSecrets(s, v, file)
		at, _ := v.Locate(path)
		switch err := s.readable(at); {
		case err == nil:
			return path
		case s.env[key] != "":
			out.tokens["secrets/kolo_"+file] = s.env[key]
			return inSecrets(s, v, "kolo_"+file)
		case !errors.Is(err, fs.ErrNotExist):
			p.addf("identity: %s cannot be read by the task's user %q (%v)", file, s.user, err)
		}
		return ""
	}
	before := len(*p)
	out.agent.TokenFile = token("nomad_token", "NOMAD_TOKEN")
	out.agent.PeerTokenFile = token("nomad_kolo.jwt", "NOMAD_TOKEN_kolo")
	if out.agent.TokenFile == "" && len(*p) == before {
		p.addf("identity: the task has no workload identity; add identity { file = true } to the task: with it the agent reads Nomad's services and proves itself to the others")
	}

	socket := filepath.Join(s.secretsDir, "api.sock")
	switch {
	case s.exists(socket):
		out.agent.NomadAddr = "unix://" + inSecrets(s, v, "api.sock")
	case s.env["NOMAD_UNIX_ADDR"] != "":
		out.agent.NomadAddr = s.env["NOMAD_UNIX_ADDR"]
	default:
		p.addf("identity: Nomad's Task API socket %s is missing; the client must run Nomad 1.5 or newer on Linux", socket)
	}
}

// inSecrets is a file of the secrets directory as the task sees it. Isolated
// tasks get the short path: a socket's must stay below 108 bytes.
func inSecrets(s *hostEnvironment, v isolation.View, name string) string {
	if v.Isolated {
		return filepath.Join("/secrets", name)
	}
	return filepath.Join(s.secretsDir, name)
}
