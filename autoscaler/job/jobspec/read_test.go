// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/job/sizes"
)

func ptr[T any](v T) *T { return &v }

// kv writes a kolo block the way Nomad's API hands it over.
func kv(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return map[string]any{Key: []any{m}}
}

// job is a batch job with one group "workers" of 0 to 8 with this policy.
func job(policy map[string]any, edit ...func(*api.Job)) *api.Job {
	j := &api.Job{
		ID: ptr("train"), Namespace: ptr("ml"), Type: ptr("batch"), Priority: ptr(70), SubmitTime: ptr(int64(1e18)),
		TaskGroups: []*api.TaskGroup{group("workers", 0, 8, policy)},
	}
	for _, e := range edit {
		e(j)
	}
	return j
}

func group(name string, low, high int64, policy map[string]any) *api.TaskGroup {
	return &api.TaskGroup{
		Name: ptr(name), Count: ptr(int(low)),
		Scaling: &api.ScalingPolicy{Min: ptr(low), Max: ptr(high), Policy: policy},
		Tasks: []*api.Task{{
			Name: "train",
			Resources: &api.Resources{
				CPU: ptr(500), MemoryMB: ptr(256),
				Devices: []*api.RequestedDevice{{Name: "nvidia/gpu", Count: ptr(uint64(2))}},
			},
			Services: []*api.Service{{Name: "train", Provider: "nomad"}},
		}},
	}
}

func TestRead_EmptyBlockIsEnough(t *testing.T) {
	for name, raw := range map[string]any{
		"no block": nil, "list of one": []any{map[string]any{}}, "list of none": []any{},
		"map": map[string]any{}, "typed list": []map[string]any{{}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(job(map[string]any{Key: raw}))
			must.SliceEmpty(t, problems)
			must.Eq(t, &Spec{
				Groups: []Group{{Name: "workers", Min: 0, Max: 8, Device: "nvidia/gpu", Devices: 2, Slots: 2, CPU: 500, Memory: 256, Service: "train"}},
				Min:    1, Max: 8, Preferred: 8, Weight: 1, Priority: 70, Queue: "ml", Kind: "train", Locality: Prefer, CanWait: true, Lendable: true,
			}, spec)
		})
	}
}

// TestRead_SlotsOfARing has workers whose numbers of processes and of devices differ.
func TestRead_SlotsOfARing(t *testing.T) {
	for name, tc := range map[string]struct {
		devices int
		config  map[string]any
		want    int
	}{
		"a process for each GPU":      {4, nil, 4},
		"one for all GPUs":            {4, map[string]any{"slots": 1.0}, 1},
		"two on a CPU":                {0, map[string]any{"slots": 2.0}, 2},
		"one on a CPU":                {0, map[string]any{"args": []any{"slots"}}, 1},
		"as HCL has it":               {0, map[string]any{"slots": 2}, 2},
		"as text":                     {0, map[string]any{"slots": "2"}, 2},
		"known on the client only":    {4, map[string]any{"slots": "${meta.slots}"}, 4},
		"not whole":                   {0, map[string]any{"slots": 1.5}, 1},
		"none":                        {0, map[string]any{"slots": 0.0}, 1},
		"more than a ring could have": {0, map[string]any{"slots": 1e300}, 1},
		"no number":                   {0, map[string]any{"slots": "NaN"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			j := job(kv())
			task := j.TaskGroups[0].Tasks[0]
			task.Config = tc.config
			task.Resources.Devices = nil
			if tc.devices > 0 {
				task.Resources.Devices = []*api.RequestedDevice{{Name: "nvidia/gpu", Count: new(uint64(tc.devices))}}
			}
			spec, problems := Read(j)
			must.SliceEmpty(t, problems)
			must.Eq(t, tc.want, spec.Groups[0].Slots)
		})
	}
}

func TestRead_AllKeys(t *testing.T) {
	spec, problems := Read(job(kv("min", 2.0, "preferred", 4.0, "weight", 2.5, "priority", 80.0, "queue", "vision", "kind", "resnet50",
		"deadline", "2h", "total_work", 1e6, "preemptible", true, "sizes", []any{8.0, 2.0, 4.0, 4.0})))
	must.SliceEmpty(t, problems)
	must.Eq(t, 2, spec.Min)
	must.Eq(t, 8, spec.Max)
	must.Eq(t, 4, spec.Preferred)
	must.Eq(t, sizes.List(2, 4, 8), spec.Sizes)
	must.Eq(t, 2.5, spec.Weight)
	must.Eq(t, 80, spec.Priority)
	must.Eq(t, "vision", spec.Queue)
	must.Eq(t, "resnet50", spec.Kind)
	must.Eq(t, 1e6, spec.TotalWork)
	must.True(t, spec.Preemptible)
	must.Eq(t, 2*time.Hour, spec.DeadlineAfter)
	must.True(t, spec.Deadline.IsZero())
}

func TestRead_KindOfADispatchedJobIsItsParent(t *testing.T) {
	j := job(kv())
	parent := "resnet"
	j.ParentID = &parent
	spec, problems := Read(j)
	must.SliceEmpty(t, problems)
	must.Eq(t, "resnet", spec.Kind)
}

func TestRead_Sizes(t *testing.T) {
	for name, tc := range map[string]struct {
		block          map[string]any
		want           sizes.Set
		low, high      int
		preferredLimit int
	}{
		"step":              {kv("min", 2.0, "step", 3.0), sizes.Every(2, 3), 2, 8, 8},
		"step short of max": {kv("min", 3.0, "step", 2.0), sizes.Every(3, 2), 3, 7, 7},
		"powers":            {kv("min", 2.0, "powers_of_two", true), sizes.List(2, 4, 8), 2, 8, 8},
		"powers off":        {kv("powers_of_two", false), sizes.Set{}, 1, 8, 8},
		"list narrows":      {kv("sizes", []any{2.0, 6.0}), sizes.List(2, 6), 2, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(job(tc.block))
			must.SliceEmpty(t, problems)
			must.Eq(t, tc.want, spec.Sizes)
			must.Eq(t, tc.low, spec.Min)
			must.Eq(t, tc.high, spec.Max)
			must.Eq(t, tc.preferredLimit, spec.Preferred)
		})
	}
}

func TestRead_SeveralGroupsAreOneJob(t *testing.T) {
	j := job(kv("min", 2.0))
	j.TaskGroups = append(j.TaskGroups, group("rack-b", 0, 4, kv("weight", 3.0)), group("sidecar", 1, 1, nil))
	spec, problems := Read(j)
	must.SliceEmpty(t, problems)
	must.Len(t, 2, spec.Groups)
	must.Eq(t, 12, spec.Max)
	must.Eq(t, 2, spec.Min)
	must.Eq(t, 3.0, spec.Weight)
}

func TestRead_Locality(t *testing.T) {
	for name, tc := range map[string]struct {
		block    map[string]any
		locality Locality
		level    string
	}{
		"by default":       {kv(), Prefer, ""},
		"blind":            {kv("locality", "none"), Blind, ""},
		"a level":          {kv("level", "meta.rack"), Prefer, "meta.rack"},
		"prefers a level":  {kv("locality", "prefer", "level", "meta.rack"), Prefer, "meta.rack"},
		"requires a level": {kv("locality", "require", "level", "meta.block"), Require, "meta.block"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(job(tc.block))
			must.SliceEmpty(t, problems)
			must.Eq(t, tc.locality, spec.Locality)
			must.Eq(t, tc.level, spec.Level)
		})
	}
}

func TestRead_OffAndAbsent(t *testing.T) {
	off := job(kv("min", "nonsense"), func(j *api.Job) { j.TaskGroups[0].Scaling.Enabled = ptr(false) })
	must.True(t, Asks(off))
	must.False(t, Enabled(off))
	spec, problems := Read(off)
	must.Nil(t, spec)
	must.SliceEmpty(t, problems)

	other := job(map[string]any{"check": []any{map[string]any{}}})
	must.False(t, Asks(other))
	spec, problems = Read(other)
	must.Nil(t, spec)
	must.SliceEmpty(t, problems)
}

var update = flag.Bool("update", false, "write the golden file again")

// TestRead_Malformed has one mistake per line, with the words that the message must
// contain.
func TestRead_Malformed(t *testing.T) {
	var all []string
	service := func(j *api.Job) { j.Type = ptr("service") }
	for name, tc := range map[string]struct {
		job  *api.Job
		want string
	}{
		"unknown key":                 {job(kv("colour", "red")), "the keys are [deadline gang kind level locality max min"},
		"misspelt minimum":            {job(kv("mim", 2.0)), "did you mean min?"},
		"misspelt preemptible":        {job(kv("preemptable", true)), "did you mean preemptible?"},
		"former name":                 {job(kv("suspendable", true)), "it is called preemptible now"},
		"plural weight":               {job(kv("weights", 2.0)), "did you mean weight?"},
		"upper case":                  {job(kv("Queue", "a")), "did you mean queue?"},
		"total work camel":            {job(kv("totalwork", 2.0)), "did you mean total_work?"},
		"min is text":                 {job(kv("min", "2")), `the text "2" is not a whole number`},
		"min is true":                 {job(kv("min", true)), "true is not a whole number"},
		"min is a list":               {job(kv("min", []any{1.0})), "a list is not a whole number"},
		"min is null":                 {job(kv("min", nil)), "nothing is not a whole number"},
		"min is half":                 {job(kv("min", 1.5)), "1.5 is not a whole number"},
		"min zero":                    {job(kv("min", 0.0)), "0 is below 1; write at least 1"},
		"min negative":                {job(kv("min", -2.0)), "-2 is below 1"},
		"min huge":                    {job(kv("min", 1e12)), "at most 100000"},
		"min above max":               {job(kv("min", 9.0)), "9 is above the largest size, 8"},
		"max above scaling.max":       {job(kv("max", 16.0)), "16 is above scaling.max of all groups, 8"},
		"max below min":               {job(kv("min", 4.0, "max", 2.0)), "4 is above the largest size, 2"},
		"max zero":                    {job(kv("max", 0.0)), "0 is below 1"},
		"preferred above max":         {job(kv("preferred", 9.0)), "preferred: 9 is above"},
		"preferred below min":         {job(kv("min", 3.0, "preferred", 2.0)), "preferred: 2 is below 3"},
		"weight zero":                 {job(kv("weight", 0.0)), "0 is not above 0"},
		"weight negative":             {job(kv("weight", -1.0)), "-1 is not above 0"},
		"weight text":                 {job(kv("weight", "heavy")), `the text "heavy" is not a number`},
		"priority above 100":          {job(kv("priority", 200.0)), "200 is above 100"},
		"priority zero":               {job(kv("priority", 0.0)), "priority: 0 is below 1"},
		"priority word":               {job(kv("priority", "high")), `the text "high"`},
		"queue empty":                 {job(kv("queue", "")), "it is empty"},
		"queue number":                {job(kv("queue", 3.0)), "3 is not a text"},
		"deadline yesterday-ish word": {job(kv("deadline", "tomorrow")), "neither a time nor a duration"},
		"deadline without zone":       {job(kv("deadline", "2027-01-31 18:00")), `deadline = "2027-01-31T18:00:00Z"`},
		"deadline negative":           {job(kv("deadline", "-2h")), "neither a time nor a duration"},
		"deadline number":             {job(kv("deadline", 3600.0)), "3600 is not a text"},
		"total work zero":             {job(kv("total_work", 0.0)), "0 is not above 0"},
		"total work text":             {job(kv("total_work", "all")), "is not a number"},
		"preemptible text":            {job(kv("preemptible", "yes")), "write true or false without quotes"},
		"preemptible number":          {job(kv("preemptible", 1.0)), "1 is not true or false"},
		"locality unknown":            {job(kv("locality", "same-rack")), `there is no locality "same-rack"`},
		"locality number":             {job(kv("locality", 1.0)), "1 is not a text"},
		"locality without level":      {job(kv("locality", "require")), `write level = "meta.rack"`},
		"level of a blind job":        {job(kv("locality", "none", "level", "meta.rack")), `kolo.level: it contradicts`},
		"level empty":                 {job(kv("level", "")), "it is empty"},
		"level a list":                {job(kv("level", []any{"meta.rack"})), "not a text"},
		"sizes a number":              {job(kv("sizes", 4.0)), "not a list of sizes"},
		"sizes empty":                 {job(kv("sizes", []any{})), "not a list of sizes"},
		"sizes with text":             {job(kv("sizes", []any{2.0, "4"})), "sizes[1]"},
		"sizes with zero":             {job(kv("sizes", []any{0.0})), "sizes[0]: 0 is below 1"},
		"sizes above max":             {job(kv("sizes", []any{2.0, 16.0})), "16 is above the largest size, 8"},
		"sizes below min":             {job(kv("min", 4.0, "sizes", []any{2.0, 8.0})), "2 is below 4"},
		"sizes and step":              {job(kv("sizes", []any{2.0}, "step", 2.0)), "sizes and step contradict each other"},
		"step and powers":             {job(kv("step", 2.0, "powers_of_two", true)), "step and powers_of_two contradict"},
		"no power in range":           {job(kv("min", 5.0, "max", 7.0, "powers_of_two", true)), "no power of two from 5 to 7"},
		"step zero":                   {job(kv("step", 0.0)), "step: 0 is below 1"},
		"two kolo blocks":             {job(map[string]any{Key: []any{map[string]any{}, map[string]any{}}}), "there are 2 kolo blocks"},
		"kolo is text":                {job(map[string]any{Key: "on"}), `the text "on" is not a block`},
		"kolo is true":                {job(map[string]any{Key: true}), "write kolo { }"},
		"kolo is a list of text":      {job(map[string]any{Key: []any{"on"}}), "is not a block"},
		"check next to kolo":          {job(map[string]any{Key: nil, "check": []any{}}), "check blocks belong to another autoscaler"},
		"no max":                      {job(kv(), func(j *api.Job) { j.TaskGroups[0].Scaling.Max = nil }), "scaling.max: 0 leaves no room"},
		"scaling min above max": {job(kv(), func(j *api.Job) { j.TaskGroups[0].Scaling.Min = ptr(int64(9)) }),
			"9 is above scaling.max = 8"},
		"cannot wait for min": {job(kv("min", 4.0), func(j *api.Job) { j.TaskGroups[0].Scaling.Min = ptr(int64(1)) }),
			"write scaling { min = 0 }"},
		"preemptible without zero": {job(kv("preemptible", true), func(j *api.Job) { j.TaskGroups[0].Scaling.Min = ptr(int64(1)) }),
			"a suspended job has no workers"},
		"min by default count": {job(kv("min", 3.0), func(j *api.Job) {
			j.TaskGroups[0].Scaling.Min, j.TaskGroups[0].Count = nil, ptr(2)
		}), "scaling.min = 2"},
		"vertical":          {job(kv(), func(j *api.Job) { j.TaskGroups[0].Scaling.Type = "vertical_mem" }), `"vertical_mem" cannot be scaled by count`},
		"system job":        {job(kv(), func(j *api.Job) { j.Type = ptr("system") }), "a system job has one allocation per node"},
		"sysbatch job":      {job(kv(), func(j *api.Job) { j.Type = ptr("sysbatch") }), "a sysbatch job"},
		"periodic job":      {job(kv(), func(j *api.Job) { j.Periodic = &api.PeriodicConfig{} }), "only its children do"},
		"parameterized job": {job(kv(), func(j *api.Job) { j.ParameterizedJob = &api.ParameterizedJobConfig{} }), "only dispatched jobs do"},
		"multiregion job": {job(kv(), func(j *api.Job) {
			j.Multiregion = &api.Multiregion{Regions: []*api.MultiregionRegion{{Name: "a"}}}
		}), "one autoscaler acts in one region"},
		"service with deployments": {job(kv(), service, func(j *api.Job) {
			j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: ptr(1)}
		}), "max_parallel = 0"},
		"two device types in a group": {job(kv(), func(j *api.Job) {
			r := j.TaskGroups[0].Tasks[0].Resources
			r.Devices = append(r.Devices, &api.RequestedDevice{Name: "amd/gpu"})
		}), `the group already asks for "nvidia/gpu"`},
		"two device types in a job": {job(kv(), func(j *api.Job) {
			g := group("b", 0, 2, kv())
			g.Tasks[0].Resources.Devices[0].Name = "amd/gpu"
			j.TaskGroups = append(j.TaskGroups, g)
		}), `requests device "amd/gpu", but group "workers" requests "nvidia/gpu"`},
		"a group without a device": {job(kv(), func(j *api.Job) {
			g := group("b", 0, 2, kv())
			g.Tasks[0].Resources.Devices = nil
			j.TaskGroups = append(j.TaskGroups, g)
		}), `group "b": requests no device, but group "workers" requests "nvidia/gpu", so its workers would hold no slot; add a device block; or remove the kolo block and set a fixed count, so that only "workers" is scaled`},
		"uneven workers": {job(kv(), func(j *api.Job) {
			g := group("b", 0, 2, kv())
			g.Tasks[0].Resources.Devices[0].Count = ptr(uint64(1))
			j.TaskGroups = append(j.TaskGroups, g)
		}), "holds 1 devices per worker"},
		"groups contradict": {job(kv("weight", 1.0), func(j *api.Job) {
			j.TaskGroups = append(j.TaskGroups, group("b", 0, 2, kv("weight", 2.0)))
		}), `2 contradicts group "workers": scaling.policy.kolo.weight = 1`},
	} {
		t.Run(name, func(t *testing.T) {
			spec, problems := Read(tc.job)
			must.Nil(t, spec)
			must.StrContains(t, problems.Text(), tc.want)
			for _, p := range problems {
				must.NotEq(t, "", p.Field)
				must.NotEq(t, "", p.Remedy, must.Sprintf("%s has what is wrong but not what to write", p))
			}
			all = append(all, fmt.Sprintf("%s\n\t%s\n", name, strings.ReplaceAll(problems.Text(), "\n", "\n\t")))
		})
	}
	must.Greater(t, 50, len(all))
	// What users read, to the letter.
	slices.Sort(all)
	const golden = "testdata/problems.golden"
	if *update {
		must.NoError(t, os.WriteFile(golden, []byte(strings.Join(all, "")), 0o600))
	}
	want, err := os.ReadFile(golden)
	must.NoError(t, err)
	must.Eq(t, string(want), strings.Join(all, ""), must.Sprint("go test ./autoscaler/job/jobspec -update writes it again"))
}

func TestRead_AllProblemsAtOnce(t *testing.T) {
	_, problems := Read(job(kv("mim", 1.0, "weight", "x", "queue", 4.0)))
	must.Len(t, 3, problems)
}

func FuzzDecode(f *testing.F) {
	for k := range keys {
		f.Add(k, "2", 2.0, true)
	}
	f.Add("sizes", "", -1.0, false)
	f.Fuzz(func(t *testing.T, key, s string, n float64, b bool) {
		for _, v := range []any{s, n, b, nil, []any{s, n}, []any{n, n}, map[string]any{key: n}} {
			spec, problems := Read(job(kv(key, v)))
			if (spec == nil) != (len(problems) > 0) {
				t.Fatalf("%s = %v: spec %v with problems %v", key, v, spec, problems)
			}
			if spec != nil && (spec.Min < 1 || spec.Min > spec.Max || spec.Max > 8 || spec.Preferred < spec.Min || spec.Preferred > spec.Max || !(spec.Weight > 0)) {
				t.Fatalf("%s = %v was accepted as %+v", key, v, spec)
			}
			if !strings.Contains(key+s, "%") && strings.Contains(problems.Text(), "%!") {
				t.Fatal(problems)
			}
		}
	})
}
