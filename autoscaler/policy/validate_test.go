// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"math"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// give is a decision about the jobs named, in pairs of a job and its count.
func give(pairs ...any) (d Decision) {
	for i := 0; i < len(pairs); i += 2 {
		d.Allocations = append(d.Allocations, Allocation{Job: pairs[i].(string), Count: pairs[i+1].(int)})
	}
	return d
}

// TestValidate has one decision per line, and its problem.
func TestValidate(t *testing.T) {
	s := &Snapshot{
		Nodes: []Node{{GPUs: 4}},
		Jobs:  []Job{{ID: "a", Min: 2, Max: 4, Count: 2}, {ID: "b", Min: 1, Max: 4, PerWorker: 2}, {ID: "c", Min: 1, Max: 4, Sizes: sizes.List(1, 2, 4)}},
	}
	at := func(d Decision, wake float64) Decision { d.RequeueAt = wake; return d }
	for name, tc := range map[string]struct {
		d    Decision
		want string
	}{
		"good":            {give("a", 2, "b", 1, "c", 0), ""},
		"none":            {give("a", 0, "b", 0, "c", 0), ""},
		"an allowed size": {give("a", 0, "b", 0, "c", 2), ""},
		"all there is":    {give("a", 4, "b", 0, "c", 0), ""},
		"a job missing":   {give("a", 2), "it answered for 1 jobs of 3"},
		"a job too many":  {give("a", 2, "b", 0, "c", 0, "d", 0), "it answered for 4 jobs of 3"},
		"wrong order":     {give("b", 1, "a", 2, "c", 0), `answer 0 is for job "b", want "a"`},
		"below minimum":   {give("a", 1, "b", 1, "c", 0), "1 workers for job a: it takes 0, or 2 to 4"},
		"above maximum":   {give("a", 5, "b", 0, "c", 0), "5 workers for job a: it takes 0, or 2 to 4"},
		"negative":        {give("a", -1, "b", 0, "c", 0), "-1 workers for job a"},
		"no size of it":   {give("a", 0, "b", 0, "c", 3), "3 workers for job c: its sizes are [1 2 4]"},
		"beyond capacity": {give("a", 4, "b", 1, "c", 0), "1 workers for job b: they need 2 slots, and 0 are left"},
		"wide workers":    {give("a", 0, "b", 3, "c", 0), "3 workers for job b: they need 6 slots, and 4 are left"},
		"not a time":      {at(give("a", 2, "b", 0, "c", 0), math.NaN()), "it wants to be asked again at NaN"},
		"no time":         {at(give("a", 2, "b", 0, "c", 0), math.Inf(1)), "it wants to be asked again at +Inf"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, s, tc.d, tc.want) })
	}
}

// TestValidate_PresentCounts covers jobs with counts that a decision could not have chosen:
// they may keep their counts, but nothing may grow at their expense.
func TestValidate_PresentCounts(t *testing.T) {
	s := &Snapshot{
		Nodes: []Node{{GPUs: 4}}, // there were more
		Jobs:  []Job{{ID: "a", Min: 4, Max: 6, Count: 3}, {ID: "b", Min: 1, Max: 4, Count: 3, Sizes: sizes.List(1, 2, 4)}, {ID: "c", Min: 1, Max: 4}},
	}
	for name, tc := range map[string]struct {
		d    Decision
		want string
	}{
		"outside of its bounds, no size, and more than there is": {give("a", 3, "b", 3, "c", 0), ""},
		"a shrink that is not enough":                            {give("a", 3, "b", 2, "c", 0), ""},
		"growth into what is gone":                               {give("a", 3, "b", 3, "c", 1), "1 workers for job c: they need 1 slots, and 0 are left"},
		"growth into what others give":                           {give("a", 0, "b", 2, "c", 2), ""},
		"growth beyond what others give":                         {give("a", 0, "b", 2, "c", 3), "3 workers for job c: they need 3 slots, and 2 are left"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, s, tc.d, tc.want) })
	}
}

// TestValidate_Types covers several types of GPU: there may be enough GPUs, but too few of
// the type that a job needs.
func TestValidate_Types(t *testing.T) {
	s := &Snapshot{
		Nodes: []Node{{Type: "a100", GPUs: 4}, {Type: "h100", GPUs: 4}},
		Jobs:  []Job{{ID: "a", Min: 1, Max: 8, Type: "a100", Count: 2}, {ID: "any", Min: 1, Max: 8, Count: 2, Held: "a100"}},
	}
	on := func(d Decision, typ string) Decision { d.Allocations[1].Type = typ; return d }
	for name, tc := range map[string]struct {
		d    Decision
		want string
	}{
		"one type each":                     {on(give("a", 4, "any", 4), "h100"), ""},
		"more than there are of a type":     {on(give("a", 5, "any", 0), ""), `5 workers for job a: they need 5 slots of type "a100", and 4 are left`},
		"of any type, but together":         {on(give("a", 3, "any", 2), "a100"), `3 workers for job a: they need 3 slots of type "a100", and 2 are left`},
		"any type, and none named":          {give("a", 4, "any", 4), ""},
		"no type named, and too many":       {give("a", 4, "any", 5), "5 workers for job any: they need 5 slots, and 4 are left"},
		"a move to where there is no room":  {on(give("a", 2, "any", 5), "h100"), `5 workers for job any: they need 5 slots of type "h100", and 4 are left`},
		"a move is no growth, and is count": {on(give("a", 4, "any", 2), "h100"), ""},
		"a type that is not there":          {on(give("a", 2, "any", 3), "b200"), `3 workers for job any: they need 3 slots of type "b200", and 0 are left`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, s, tc.d, tc.want) })
	}
}

func refused(t *testing.T, s *Snapshot, d Decision, want string) {
	t.Helper()
	err := Validate(s, &d)
	if want == "" {
		must.NoError(t, err)
		return
	}
	must.ErrorContains(t, err, want)
}
