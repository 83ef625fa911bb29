// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"io/fs"
	"path"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
)

// tokenOf maps the name of an identity to its file in the task's secrets directory, and
// to the variable that holds it.
var tokenOf = map[string]struct{ file, variable string }{
	defaultIdentity: {"nomad_token", "NOMAD_TOKEN"},
	peerIdentity:    {"nomad_kolo.jwt", "NOMAD_TOKEN_kolo"},
}

// Names of the identities that agents use: towards Nomad, and towards each other.
const (
	defaultIdentity = "default"
	peerIdentity    = "kolo"
)

// identities returns a task's identities by name.
func identities(t *api.Task) map[string]*api.WorkloadIdentity {
	all := map[string]*api.WorkloadIdentity{}
	for _, id := range t.Identities {
		all[id.Name] = id
	}
	if t.Identity != nil {
		all[defaultIdentity] = t.Identity
	}
	return all
}

// surroundings returns the environment of a task on an ideal client that has every
// program and file. Only the real client knows which exist.
func (c *checker) surroundings(w *worker) *taskconfig.Surroundings {
	env := map[string]string{
		"PATH": "/usr/bin", "NOMAD_NAMESPACE": deref(c.job.Namespace, api.DefaultNamespace), "NOMAD_JOB_ID": c.jobName(), "NOMAD_JOB_NAME": c.jobName(),
		"NOMAD_GROUP_NAME": deref(w.group.Name, "-"), "NOMAD_TASK_NAME": w.task.Name, "NOMAD_ALLOC_ID": "-", "NOMAD_ALLOC_INDEX": "0",
	}
	for _, label := range ports(w.group) {
		env["NOMAD_PORT_"+variableName(label)] = "25000"
	}
	tokens := map[string]bool{}
	ids := identities(w.task)
	for name, token := range tokenOf {
		id := ids[name]
		if id == nil {
			continue
		}
		tokens[token.file] = id.File && id.Filepath == ""
		if id.Env {
			env[token.variable] = "-"
		}
	}
	network, _ := w.given["interface"].(string)
	here := func(string) error { return nil }
	return &taskconfig.Surroundings{
		Env: env, Devices: reservation(w.gpus()), Dir: "/", User: w.task.User,
		Locate: func(p string) string { return path.Join("/", p) },
		Readable: func(p string) error {
			if path.Dir(p) == secrets && !tokens[path.Base(p)] {
				return fs.ErrNotExist
			}
			return nil
		},
		Executable: here, Enterable: here,
		Secrets: secrets, SecretsOnClient: secrets,
		Exists:     func(string) bool { return true },
		Interfaces: func() ([]string, error) { return []string{network}, nil },
	}
}

const secrets = "/secrets"

// ports returns the labels of a group's ports.
func ports(g *api.TaskGroup) (labels []string) {
	for _, n := range g.Networks {
		for _, p := range append(n.DynamicPorts, n.ReservedPorts...) {
			labels = append(labels, p.Label)
		}
	}
	return labels
}

// variableName returns a label in the form used in the names of Nomad's variables.
func variableName(label string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r == '.', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, label)
}
