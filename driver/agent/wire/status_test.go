// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/stacks"
)

func TestStatus_WithRanks(t *testing.T) {
	ranks := []Rank{{Host: "a"}, {Rank: 1, Host: "b"}}
	last, whole, short := &Status{Size: 2, Ranks: ranks}, &Status{Ranks: []Rank{}}, &Status{Size: 3, RanksKept: true}
	must.EqOp(t, whole, whole.WithRanks(last))
	must.Eq(t, &Status{Size: 3, Ranks: ranks}, short.WithRanks(last))
	must.Eq(t, &Status{Size: 3, Ranks: []Rank{}}, short.WithRanks(nil))
	must.True(t, short.RanksKept, must.Sprint("other hosts may share the message"))

	taken := &stacks.Summary{Groups: []stacks.Alike{{Ranks: "0"}}}
	last.Stall = &Stall{Generation: 2, Seconds: 5, Stacks: taken}
	sent := last.WithoutRanks()
	must.Eq(t, &Status{Size: 2, RanksKept: true, Stall: &Stall{Generation: 2, Seconds: 5}}, sent)
	must.Eq(t, last, sent.WithRanks(last))
	must.NotNil(t, last.Stall.Stacks)
	sent.Stall.Generation = 3
	must.Nil(t, sent.WithRanks(last).Stall.Stacks, must.Sprint("of another stall"))
}
