// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

// servers returns a job of a group of workers (at most 8) with the given keys, and of a
// group of servers (at most 3).
func servers(block map[string]any, edits ...func(*api.Job)) *api.Job {
	j := job(block)
	j.TaskGroups = append(j.TaskGroups, group("ps", 0, 3, kv()))
	for _, edit := range edits {
		edit(j)
	}
	return j
}

// oneToFour returns keys for one server with four workers, and others.
func oneToFour(more ...any) map[string]any {
	return kv(append([]any{"gang", []any{"ps", "workers"}, "ratio", "1:4"}, more...)...)
}

func TestRead_Gang(t *testing.T) {
	for name, tc := range map[string]struct {
		block                map[string]any
		low, high, preferred int
		sizes                sizes.Set
	}{
		"one unit to what the groups allow": {oneToFour(), 5, 10, 10, sizes.Every(5, 5)},
		"fixed size":                        {oneToFour("min", 10.0), 10, 10, 10, sizes.Every(10, 5)},
		"totals count all workers":          {oneToFour("max", 5.0, "preferred", 5.0), 5, 5, 5, sizes.Every(5, 5)},
		"listed":                            {oneToFour("sizes", []any{10.0}), 10, 10, 10, sizes.List(10)},
		"powers of two of units":            {oneToFour("powers_of_two", true), 5, 10, 10, sizes.List(5, 10)},
		"in larger steps":                   {oneToFour("step", 10.0), 5, 5, 5, sizes.Every(5, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(servers(tc.block))
			must.SliceEmpty(t, problems)
			must.Eq(t, []int{1, 4}, spec.Ratio)
			must.Eq(t, "ps", spec.Groups[0].Name, must.Sprint("groups are in the order of the gang"))
			must.Eq(t, 5, spec.Unit())
			must.Eq(t, tc.low, spec.Min)
			must.Eq(t, tc.high, spec.Max)
			must.Eq(t, tc.preferred, spec.Preferred)
			must.Eq(t, tc.sizes, spec.Sizes)
		})
	}
	spec, problems := Read(servers(oneToFour(), func(j *api.Job) {
		j.TaskGroups[1].Tasks[0].Resources.Devices[0].Count = new(uint64(1))
	}))
	must.SliceEmpty(t, problems)
	must.Eq(t, 1, spec.Groups[0].Devices, must.Sprint("the groups of a gang may differ"))
	must.Eq(t, 2, spec.Groups[1].Devices)
	for i, holder := range []string{"ps", "workers"} { // the group with this index holds no slot
		spec, problems := Read(servers(oneToFour(), func(j *api.Job) { j.TaskGroups[i].Tasks[0].Resources.Devices = nil }))
		must.SliceEmpty(t, problems)
		must.Eq(t, holder, spec.Holder().Name)
		must.Eq(t, "nvidia/gpu", spec.Holder().Device)
	}
	spec, problems = Read(servers(oneToFour(), func(j *api.Job) {
		for _, g := range j.TaskGroups {
			g.Tasks[0].Resources.Devices = nil
		}
	}))
	must.SliceEmpty(t, problems)
	must.Eq(t, "ps", spec.Holder().Name)
}

func TestRead_MalformedGang(t *testing.T) {
	for name, tc := range map[string]struct {
		job  *api.Job
		want string
	}{
		"no ratio":               {servers(kv("gang", []any{"ps", "workers"})), "kolo.gang: the ratio of its groups is missing"},
		"no gang":                {servers(kv("ratio", "1:4")), "kolo.ratio: the groups that it is about are missing"},
		"one group":              {servers(kv("gang", []any{"workers"}, "ratio", "4")), "not a list of at least two groups"},
		"gang is text":           {servers(kv("gang", "ps", "ratio", "1:4")), `the text "ps" is not a list of at least two groups`},
		"gang of numbers":        {servers(kv("gang", []any{1.0, 2.0}, "ratio", "1:4")), "gang[0]: 1 is not a text"},
		"a group twice":          {servers(kv("gang", []any{"ps", "ps"}, "ratio", "1:4")), `group "ps" is listed twice`},
		"a group that is not":    {servers(kv("gang", []any{"server", "workers"}, "ratio", "1:4")), `the job has no group "server" with a kolo block`},
		"a group is left out":    {servers(kv("gang", []any{"ps", "workers"}, "ratio", "1:4"), func(j *api.Job) { j.TaskGroups = append(j.TaskGroups, group("eval", 0, 1, kv())) }), `group "eval" has a kolo block and is not in the gang`},
		"ratio is a number":      {servers(kv("gang", []any{"ps", "workers"}, "ratio", 4.0)), "4 is not a text"},
		"ratio of one":           {servers(kv("gang", []any{"ps", "workers"}, "ratio", "4")), `"4" has one number`},
		"ratio of three":         {servers(kv("gang", []any{"ps", "workers"}, "ratio", "1:4:1")), "it has 3 numbers, and gang has 2 groups"},
		"ratio of nothing":       {servers(kv("gang", []any{"ps", "workers"}, "ratio", "0:4")), `"0" is not a whole number from 1`},
		"ratio of words":         {servers(kv("gang", []any{"ps", "workers"}, "ratio", "one:four")), `"one" is not a whole number`},
		"ratio beyond all bound": {servers(kv("gang", []any{"ps", "workers"}, "ratio", "100000:100000")), "add up to 200000, more than 100000 workers"},
		"more than a group has":  {servers(kv("gang", []any{"ps", "workers"}, "ratio", "4:1")), `group "ps": scaling.max: 3 is below 4, the group's part of ratio; write at least 4`},
		"it starts alone":        {servers(oneToFour(), func(j *api.Job) { j.TaskGroups[1].Scaling.Min = new(int64(1)) }), `group "ps": scaling.min: 1 would start the group without the others of its gang; write min = 0`},
		"two types of devices": {servers(oneToFour(), func(j *api.Job) { j.TaskGroups[1].Tasks[0].Resources.Devices[0].Name = "amd/gpu" }),
			`group "workers": requests device "nvidia/gpu", but group "ps" requests "amd/gpu"`},
		"half a unit":         {servers(oneToFour("min", 7.0)), "kolo.min: 7 is no multiple of 5, the sum of ratio; totals count the workers of all groups: write 10"},
		"half a step":         {servers(oneToFour("step", 2.0)), "kolo.step: 2 is no multiple of 5, the sum of ratio; totals count the workers of all groups: write 5"},
		"sizes of half units": {servers(oneToFour("sizes", []any{5.0, 8.0})), "kolo.sizes: 8 is no multiple of 5"},
		"with a locality":     {servers(oneToFour("locality", "none")), "placed by ratio, not by topology; remove locality and level"},
		"sizes and step":      {servers(oneToFour("sizes", []any{5.0}, "step", 5.0)), "sizes and step contradict each other"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(tc.job)
			must.Nil(t, spec)
			must.StrContains(t, problems.Text(), tc.want)
			for _, p := range problems {
				must.NotEq(t, "", p.Field)
				must.NotEq(t, "", p.Remedy)
			}
		})
	}
}
