// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package device_test asserts the directions of imports between the packages
// below.
package device_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const (
	module = "github.com/kolo-nomad/kolo/"
	nomad  = "github.com/hashicorp/nomad"
)

// Each package imports, directly or not, only those of this module that are
// listed, and only plugin and the command know Nomad.
func TestImports(t *testing.T) {
	for name, tc := range map[string]struct {
		uses  []string
		nomad bool
	}{
		"topology":  {},
		"nvml":      {uses: []string{"topology"}},
		"inventory": {uses: []string{"topology", "nvml"}},
		"hostdev":   {uses: []string{"topology", "nvml", "inventory"}},
		"monitor":   {uses: []string{"topology", "nvml", "inventory"}},
		"metrics":   {uses: []string{"topology", "nvml", "inventory", "monitor"}},
		"inspect":   {uses: []string{"topology", "nvml", "inventory", "hostdev"}},
		"plugin":    {uses: []string{"topology", "nvml", "inventory", "hostdev", "monitor", "metrics"}, nomad: true},
		"cmd/nomad-device-nvtopo": {
			uses:  []string{"topology", "nvml", "inventory", "hostdev", "monitor", "metrics", "inspect", "plugin"},
			nomad: true,
		},
		"nvml/nvmltest":                {},
		"nvml/nvmltest/cmd/nvidia-smi": {uses: []string{"nvml/nvmltest"}},
	} {
		t.Run(name, func(t *testing.T) {
			allowed := map[string]bool{module + "device/" + name: true}
			for _, used := range tc.uses {
				allowed[module+"device/"+used] = true
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
