// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// A host of another version may report anything as its place in the network. An invalid place
// is ignored, and the host joins.
func TestJoin_TopologyOfAnyHost(t *testing.T) {
	l := New(Options{Exchange: noExchange, Config: oneSlot, Term: 1, Logger: hclog.NewNullLogger()})
	for path, want := range map[string]string{
		"": "", "b1/r 2": "b1/r 2", "r1\x1b[2J": "", strings.Repeat("x", 5000): "", strings.Repeat("/", 100): "",
	} {
		r := &wire.Register{Info: elastic.HostInfo{ID: "a", Topology: path, Slots: make([]elastic.SlotReport, 1)}}
		l.join(t.Context(), r, &hostEnd{})
		must.Eq(t, want, r.Info.Topology)
		must.MapContainsKey(t, l.hosts, elastic.HostID("a"))
	}
}
