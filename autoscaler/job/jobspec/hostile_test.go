// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// TestRead_HostileNumbers has jobs with large numbers that Nomad accepts. Each job is read
// at once, with a problem.
func TestRead_HostileNumbers(t *testing.T) {
	limits := func(low, high int64) func(*api.Job) {
		return func(j *api.Job) { j.TaskGroups[0].Scaling.Min, j.TaskGroups[0].Scaling.Max = &low, &high }
	}
	devices := func(n uint64) func(*api.Job) {
		return func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.Devices[0].Count = &n }
	}
	for name, tc := range map[string]struct {
		job  *api.Job
		want string
	}{
		"powers of two up to 2^62":    {job(kv("powers_of_two", true), limits(0, 1<<62)), "scaling.max: 4611686018427387904 is above 100000"},
		"powers of two up to the end": {job(kv("powers_of_two", true), limits(0, math.MaxInt64)), "above 100000"},
		"steps of one to 2^40":        {job(kv("step", 1.0), limits(0, 1<<40)), "above 100000"},
		"steps of two to 2^40":        {job(kv("step", 2.0), limits(0, 1<<40)), "above 100000"},
		"just above":                  {job(kv(), limits(0, MaxWorkers+1)), "100001 is above 100000"},
		"a negative minimum":          {job(kv(), limits(-5, 8)), "scaling.min: -5 is below 0"},
		"the smallest minimum":        {job(kv(), limits(math.MinInt64, math.MaxInt64)), "is below 0"},
		"a negative maximum":          {job(kv(), limits(0, -1)), "-1 leaves no room for a worker"},
		"a sum that overflows": {job(kv(), limits(0, math.MaxInt64), func(j *api.Job) {
			j.TaskGroups = append(j.TaskGroups, group("b", 0, math.MaxInt64, kv()))
		}), "above 100000"},
		"groups that are too many together": {job(kv(), limits(0, MaxWorkers), func(j *api.Job) {
			j.TaskGroups = append(j.TaskGroups, group("b", 0, MaxWorkers, kv()))
		}), "200000 workers of all groups are above 100000"},
		"groups without end": {job(kv(), func(j *api.Job) {
			for i := range 5000 {
				j.TaskGroups = append(j.TaskGroups, group(fmt.Sprint("g", i), 0, 1, kv()))
			}
		}), "more than 256 groups"},
		"a group's name without end":     {job(kv(), func(j *api.Job) { j.TaskGroups[0].Name = ptr(strings.Repeat("g", maxName+1)) }), "its name has 129 bytes, more than 128; give it a shorter name"},
		"a block that nests without end": {job(map[string]any{Key: []any{map[string]any{"min": nested(9000)}}}), "a list is not a whole number"},
		"devices that overflow":          {job(kv(), devices(1<<63)), "above 1024"},
		"no devices at all":              {job(kv(), devices(0)), "0 devices"},
		"too many devices":               {job(kv(), devices(MaxDevices+1)), "1025 devices per worker are above 1024"},
		"devices of several asks":        {job(kv(), devices(math.MaxUint64), func(j *api.Job) { r := j.TaskGroups[0].Tasks[0].Resources; r.Devices = append(r.Devices, r.Devices[0]) }), "above 1024"},
		"cpu that overflows": {job(kv(), func(j *api.Job) {
			j.TaskGroups[0].Tasks[0].Resources.CPU = ptr(math.MaxInt)
			j.TaskGroups[0].Tasks = append(j.TaskGroups[0].Tasks, j.TaskGroups[0].Tasks[0])
		}), "MHz of cpu"},
		"negative cpu":            {job(kv(), func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = ptr(-1) }), "MHz of cpu"},
		"memory that overflows":   {job(kv(), func(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = ptr(math.MaxInt) }), "MiB of memory"},
		"a count beyond the max":  {job(kv(), func(j *api.Job) { j.TaskGroups[0].Count = ptr(math.MaxInt) }), "count: 9223372036854775807 is above 100000"},
		"a negative count":        {job(kv(), func(j *api.Job) { j.TaskGroups[0].Count = ptr(-1) }), "count: -1 is below 0"},
		"a priority out of range": {job(kv(), func(j *api.Job) { j.Priority = ptr(math.MaxInt) }), "job.priority: 9223372036854775807 is above 32766"},
		"weight not a number":     {job(kv("weight", math.NaN())), "weight: NaN is not from"},
		"weight infinite":         {job(kv("weight", math.Inf(1))), "weight: +Inf is not from"},
		"weight huge":             {job(kv("weight", 1e300)), "weight: 1e+300 is not from"},
		"weight tiny":             {job(kv("weight", 5e-324)), "weight: 5e-324 is not from"},
		"work huge":               {job(kv("total_work", 1e300)), "total_work: 1e+300 is not from"},
		"min not a number":        {job(kv("min", math.NaN())), "NaN is not a whole number"},
		"min infinite":            {job(kv("min", math.Inf(-1))), "-Inf is not a whole number"},
		"min an endless numeral":  {job(kv("min", json.Number(strings.Repeat("9", 1<<20)))), "is not a whole number"},
		"sizes without end":       {job(kv("sizes", slices.Repeat([]any{2.0, 3.0}, 1<<20))), "at most 1000"},
		"a queue without end":     {job(kv("queue", strings.Repeat("q", 1<<20))), "at most 128 bytes"},
		"a kind with an escape":   {job(kv("kind", "\x1b[31mred")), "control characters"},
		"a deadline without end":  {job(kv("deadline", strings.Repeat("9", 1<<20))), "at most 128 bytes"},
		"a deadline in 9999":      {job(kv("deadline", "9999-12-31T23:59:59-23:59")), "is not within"},
		"a deadline in 0000":      {job(kv("deadline", "0000-01-01T00:00:00+23:59")), "is not within"},
		"a deadline in 200 years": {job(kv("deadline", "1752000h")), "is not within"},
	} {
		t.Run(name, func(t *testing.T) {
			done := make(chan problem.List, 1)
			go func() {
				spec, problems := Read(tc.job)
				if spec != nil {
					problems = nil
				}
				done <- problems
			}()
			select {
			case problems := <-done:
				must.StrContains(t, problems.Text(), tc.want)
				checkText(t, problems)
			case <-time.After(time.Minute):
				t.Fatal("it is still being read")
			}
		})
	}
}

// TestRead_ManyProblemsAreBounded has a job with too many mistakes to read, and with texts
// that must not reach a terminal.
func TestRead_ManyProblemsAreBounded(t *testing.T) {
	pairs := []any{}
	for i := range 5000 {
		pairs = append(pairs, fmt.Sprintf("k%04d\x1b[2J%s", i, strings.Repeat("x", 1000)), 1.0)
	}
	_, problems := Read(job(kv(pairs...)))
	must.Len(t, maxProblems+1, problems)
	must.StrContains(t, problems[maxProblems].Error(), "4990 more problems")
	checkText(t, problems)

	j := job(kv())
	for i := range 5000 {
		j.TaskGroups = append(j.TaskGroups, group(fmt.Sprint("g", i), 0, 1<<40, kv("weight", float64(i+1))))
	}
	_, problems = Read(j)
	must.Len(t, maxProblems+1, problems)
	checkText(t, problems)
}

// nested is a list in a list in a list, as Nomad's JSON may hold it.
func nested(depth int) any {
	var v any = []any{}
	for range depth {
		v = []any{v}
	}
	return v
}

func checkText(t testing.TB, problems problem.List) {
	t.Helper()
	text := problems.Text()
	if len(text) > 8<<10 {
		t.Fatalf("%d bytes of problems", len(text))
	}
	for _, r := range text {
		if r != '\n' && unicode.IsControl(r) {
			t.Fatalf("control character %q in %q", r, text)
		}
	}
}

// FuzzRead: for any job, Read returns problems, or a Spec within bounds, without delay.
func FuzzRead(f *testing.F) {
	f.Add(int64(0), int64(8), int64(0), int64(8), uint64(1), 2, 50, 1.0, "sizes", "2h", true)
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), uint64(math.MaxUint64), math.MaxInt, -1, math.Inf(1), "step", "", false)
	f.Add(int64(1), int64(1)<<62, int64(-1), int64(1)<<40, uint64(1)<<63, -1, 1<<40, math.NaN(), "powers_of_two", "9999-12-31T23:59:59Z", true)
	for k := range keys {
		f.Add(int64(0), int64(100000), int64(0), int64(100000), uint64(8), 3, 70, 3.0, k, "6h", true)
	}
	f.Fuzz(func(t *testing.T, low, high, low2, high2 int64, devices uint64, count, priority int, n float64, key, s string, yes bool) {
		for _, v := range []any{n, s, yes, nil, []any{n, n, s}, []any{n}, map[string]any{key: n}, json.Number(s)} {
			j := job(kv(key, v), func(j *api.Job) { j.Priority = &priority })
			j.TaskGroups[0].Scaling.Min, j.TaskGroups[0].Scaling.Max, j.TaskGroups[0].Count = &low, &high, &count
			j.TaskGroups = append(j.TaskGroups, group("b", low2, high2, kv("max", n, "step", n)))
			for _, g := range j.TaskGroups {
				g.Tasks[0].Resources.Devices[0].Count = &devices
				g.Tasks[0].Resources.CPU, g.Tasks[0].Resources.MemoryMB = &count, &priority
			}
			spec, problems := Read(j)
			if (spec == nil) != (len(problems) > 0) {
				t.Fatalf("spec %v with problems %v", spec, problems)
			}
			checkText(t, problems)
			if spec != nil {
				checkSpec(t, spec)
			}
		}
	})
}

func checkSpec(t *testing.T, s *Spec) {
	t.Helper()
	sum := 0
	for _, g := range s.Groups {
		if g.Min < 0 || g.Max < g.Min || g.Max > MaxWorkers || g.Devices < 0 || g.Devices > MaxDevices || g.CPU < 0 || g.Memory < 0 {
			t.Fatalf("group %+v", g)
		}
		sum += g.Max
	}
	switch {
	case s.Min < 1, s.Max < s.Min, s.Max > sum, sum > MaxWorkers, s.Preferred < s.Min, s.Preferred > s.Max:
		t.Fatalf("bounds of %+v", s)
	case !(s.Weight >= minWeight && s.Weight <= maxWeight), s.Priority < 1, s.Priority > maxPriority, !(s.TotalWork >= 0 && s.TotalWork <= maxWork):
		t.Fatalf("numbers of %+v", s)
	case len(s.Queue) > maxName, len(s.Kind) > maxName && s.Kind != "train", s.DeadlineAfter < 0:
		t.Fatalf("names of %+v", s)
	case !s.Sizes.Contains(s.Min) || !s.Sizes.Contains(s.Max):
		t.Fatalf("sizes of %+v do not hold its bounds", s)
	}
}
