// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"os"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

// TestHowto_ShareAPool parses each configuration of the page, and looks up the queues of
// users in the one for a platform with many users.
func TestHowto_ShareAPool(t *testing.T) {
	text, err := os.ReadFile("../../docs/howto/share-a-pool.md")
	must.NoError(t, err)
	var all []*Config
	for _, block := range regexp.MustCompile("(?ms)^```hcl\n(.*?)^```").FindAllSubmatch(text, -1) {
		c, err := Parse(map[string][]byte{"kolo.hcl": block[1]})
		must.NoError(t, err, must.Sprint(string(block[1])))
		all = append(all, c)
	}
	must.Len(t, 5, all)
	must.NotNil(t, all[0].Pool("gpu").Tree)
	overTime := all[1].Pool("gpu").Queues
	must.Eq(t, []float64{168, 0}, []float64{overTime["research"].HalfLife.Hours(), overTime["courses"].HalfLife.Hours()})
	must.Eq(t, 5000, overTime["research"].Budget.SlotHours)
	must.NotNil(t, all[2].Pool("default").Tree)
	must.Nil(t, all[4].Pool("default").Tree)

	platform := all[3]
	for _, tc := range []struct{ pool, namespace, want string }{
		{"default", "user-ada", "users"}, {"default", "course-2026", "courses"}, {"default", "project-imaging", ""},
		{"batch", "user-ada", "leftovers"}, {"batch", "project-imaging", "imaging"}, {"batch", "project-x", "projects"},
	} {
		p := platform.Pool(tc.pool)
		must.Eq(t, tc.want, p.QueueOf(tc.namespace, tc.namespace))
		rule, ok := p.RuleOf(tc.namespace, tc.namespace)
		must.Eq(t, tc.want != "", ok && rule.Admits(tc.namespace))
	}
	l := platform.Pool("default").Tree.Layout()
	must.Eq(t, 2, l.Nodes[l.Leaf("users", "user-ada")].Limit)
}
