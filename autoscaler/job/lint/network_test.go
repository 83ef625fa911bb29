// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"os"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// A group of the task driver may have a CNI network of its own, with its service in it.
func TestNetworkOfTheGroup(t *testing.T) {
	text, err := os.ReadFile("../../../jobspecs/torch.nomad.hcl")
	must.NoError(t, err)
	for name, c := range map[string]struct{ mode, address, want string }{
		"host":                 {"host", "", ""},
		"bridge":               {"bridge", "", `network.mode = "bridge"`},
		"at the allocation":    {"cni/fabric", "address_mode = \"alloc\"", ""},
		"at the client":        {"cni/fabric", "", `write address_mode = "alloc"`},
		"at the client, named": {"cni/fabric", "address_mode = \"host\"", `write address_mode = "alloc"`},
	} {
		t.Run(name, func(t *testing.T) {
			job := strings.Replace(string(text), "network {", "network {\nmode = \""+c.mode+"\"", 1)
			job = strings.Replace(job, "service {", "service {\n"+c.address, 1)
			findings, err := Check(Options{Path: "job.hcl", Text: []byte(job), MaxKillTimeout: MaxKillTimeout})
			must.NoError(t, err)
			if c.want == "" {
				must.SliceEmpty(t, findings)
				return
			}
			must.Len(t, 1, findings)
			must.StrContains(t, findings[0].Message, c.want)
		})
	}
}
