// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// The autoscaler must not add spares to those that the job keeps for good, or whose number the
// agent can't read.
func TestTakesSpares(t *testing.T) {
	for name, c := range map[string]struct {
		own  int
		may  bool
		want bool
	}{
		"it may":         {0, true, true},
		"it has its own": {1, true, false},
		"it may not":     {0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			conf := oneSlot
			conf.Restart.SpareHosts = c.own
			l := New(Options{Exchange: noExchange, Config: conf, Term: 1, Logger: hclog.NewNullLogger(), Framework: elastic.Framework{Name: "torch", LocalGaps: true}})
			l.Scaled(nil, c.may)
			(<-l.todo)()
			l.publish()
			must.Eq(t, c.want, l.status.TakesSpares)
		})
	}
}
