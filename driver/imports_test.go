// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package driver_test asserts the directions of imports between the packages
// below.
package driver_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const (
	module = "github.com/kolo-nomad/kolo/"
	nomad  = "github.com/hashicorp/nomad"
)

// Each package imports, directly or not, only those of this module that are
// listed. Host, leader and what they build on know neither Nomad nor a training
// framework; horovod is one, and only the two programs that train pick it.
func TestImports(t *testing.T) {
	base := []string{"elastic", "settings", "hostnet", "localpeer", "agent/config", "agent/events", "plaintext", "agent/process", "agent/wire"}
	finding := []string{"discovery", "discovery/discoverypb", "discovery/election", "discovery/internal/latest", "discovery/possession",
		"discovery/registry", "nomadapi"}
	framework := []string{"gate", "horovod", "horovod/options", "horovod/rendezvous"}
	for name, tc := range map[string]struct {
		uses  []string
		nomad bool
	}{
		"elastic":   {},
		"settings":  {},
		"hostnet":   {},
		"localpeer": {},
		"discovery": {uses: finding, nomad: true},

		"discovery/election":   {},
		"discovery/possession": {},
		"discovery/registry":   {uses: []string{"discovery/election", "discovery/internal/latest", "nomadapi"}, nomad: true},
		"nomadapi":             {nomad: true},

		"plaintext":   {},
		"cgroup":      {},
		"procid":      {},
		"privatedirs": {},
		"account":     {uses: []string{"confine"}},
		"gate":        {},
		"eventtail":   {uses: []string{"plaintext"}},
		"gpu":         {nomad: true},
		"isolation":   {uses: []string{"account", "confine", "privatedirs"}, nomad: true},
		"plugin": {uses: []string{"account", "agent/config", "cgroup", "confine", "eventtail", "gpu", "hostnet", "isolation", "plaintext",
			"privatedirs", "procid", "settings"}, nomad: true},

		"agent/config":     {uses: []string{"settings"}},
		"agent/events":     {},
		"agent/process":    {uses: []string{"hostnet", "plaintext"}},
		"agent/wire":       {uses: []string{"elastic"}},
		"agent/host":       {uses: base},
		"agent/leader":     {uses: []string{"elastic", "settings", "agent/config", "plaintext", "agent/wire"}},
		"agent/port":       {},
		"agent/statusapi":  {uses: []string{"elastic", "agent/port", "agent/wire"}},
		"agent/session":    {uses: slices.Concat(finding, []string{"elastic", "agent/port", "agent/wire"}), nomad: true},
		"agent/completion": {uses: slices.Concat(finding, []string{"settings", "agent/config"}), nomad: true},

		"horovod/options":    {uses: []string{"settings"}},
		"horovod/probe":      {uses: []string{"account", "confine", "plaintext"}},
		"horovod/taskdriver": {uses: []string{"account", "confine", "horovod/options", "horovod/probe", "plaintext", "settings"}},
		"horovod/rendezvous": {uses: []string{"elastic", "gate", "agent/wire"}},
		"horovod":            {uses: slices.Concat(base, []string{"agent/host", "agent/leader", "gate", "horovod/rendezvous"})},

		"torch/store":    {uses: []string{"elastic", "agent/wire"}},
		"torch/tcpstore": {uses: []string{"elastic", "agent/wire", "gate", "torch/store"}},

		"launcher": {uses: slices.Concat(base, framework, []string{"agent/host", "agent/leader", "agent/port", "agent/statusapi"})},
		"agent": {
			uses: slices.Concat(base, framework, finding, []string{"agent/host", "agent/leader", "agent/port", "agent/statusapi",
				"agent/session", "agent/completion"}),
			nomad: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			allowed := map[string]bool{module + "driver/" + name: true}
			for _, used := range tc.uses {
				allowed[module+"driver/"+used] = true
			}
			out, err := exec.Command("go", "list", "-deps", "./"+name).Output()
			must.NoError(t, err)
			for pkg := range strings.Lines(string(out)) {
				pkg = strings.TrimSpace(pkg)
				must.True(t, !strings.HasPrefix(pkg, module) || allowed[pkg], must.Sprint(pkg))
				must.True(t, !strings.HasPrefix(pkg, nomad) || tc.nomad, must.Sprint(pkg))
			}
		})
	}
}

// What the driver plugin gives the agent is a contract, not the agent: the plugin
// imports none of what runs in an allocation.
func TestPluginDoesNotImportTheAgent(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./plugin").Output()
	must.NoError(t, err)
	for _, part := range []string{"agent", "agent/host", "agent/leader", "agent/session", "agent/wire", "horovod", "horovod/rendezvous", "launcher"} {
		must.StrNotContains(t, string(out), module+"driver/"+part+"\n")
	}
}
