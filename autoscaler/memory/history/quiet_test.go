// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestJob_Hear(t *testing.T) {
	t0 := time.Unix(1_800_000_000, 0)
	type answer struct {
		after time.Duration
		p     Progress
	}
	for name, x := range map[string]struct {
		answers []answer
		quiet   time.Duration
	}{
		"reports nothing": {[]answer{{0, Progress{}}, {time.Hour, Progress{Size: 4}}}, 0},
		"makes steps":     {[]answer{{0, Progress{Step: 1}}, {time.Hour, Progress{Step: 2}}}, 0},
		"makes none":      {[]answer{{0, Progress{Step: 7}}, {time.Hour, Progress{Step: 7}}}, time.Hour},
		"only samples":    {[]answer{{0, Progress{Samples: 64}}, {time.Hour, Progress{Samples: 128}}, {2 * time.Hour, Progress{Samples: 128}}}, time.Hour},
		"only step times": {[]answer{
			{0, Progress{StepSeconds: map[string]StepTime{"4": {N: 2}}}},
			{time.Hour, Progress{StepSeconds: map[string]StepTime{"4": {N: 3}}}},
			{3 * time.Hour, Progress{StepSeconds: map[string]StepTime{"4": {N: 3}}}},
		}, 2 * time.Hour},
		"no step yet":        {[]answer{{0, Progress{}}, {time.Hour, Progress{Step: 1}}, {90 * time.Minute, Progress{Step: 1}}}, 30 * time.Minute},
		"began again":        {[]answer{{0, Progress{Step: 7}}, {time.Hour, Progress{}}, {2 * time.Hour, Progress{}}}, 2 * time.Hour},
		"began and went on":  {[]answer{{0, Progress{Step: 7}}, {time.Hour, Progress{}}, {2 * time.Hour, Progress{Step: 1}}}, 0},
		"unbelievable":       {[]answer{{0, Progress{Step: 7}}, {time.Hour, Progress{Step: math.MaxFloat64}}}, time.Hour},
		"negative":           {[]answer{{0, Progress{Step: 7, Samples: -1}}, {time.Hour, Progress{Step: 7, Samples: -1}}}, time.Hour},
		"only unbelievable":  {[]answer{{0, Progress{Step: -7}}, {time.Hour, Progress{Step: math.MaxFloat64}}}, 0},
		"a clock that jumps": {[]answer{{time.Hour, Progress{Step: 7}}, {0, Progress{Step: 7}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Job{}
			for _, a := range x.answers {
				before := j.QuietFor()
				if j.Hear(&a.p, t0.Add(a.after)) {
					must.Zero(t, j.QuietFor())
				}
				must.LessEq(t, before+2*time.Hour, j.QuietFor())
			}
			must.Eq(t, x.quiet, j.QuietFor())

			t.Log("a change of leader does not change it")
			text, err := json.Marshal(j)
			must.NoError(t, err)
			next := &Job{}
			must.NoError(t, json.Unmarshal(text, next))
			must.Eq(t, x.quiet, next.QuietFor())
		})
	}
}

// A job without workers is not quiet. Its quiet time starts at 0 when it has workers again.
func TestJob_QuietWithoutWorkers(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	j := &Job{}
	j.Hear(&Progress{Step: 7}, now)
	j.Hear(&Progress{Step: 7}, now.Add(time.Hour))
	j = j.observe(&Observation{Running: 1}, now.Add(time.Hour), 0)
	must.Eq(t, time.Hour, j.QuietFor())
	j = j.observe(&Observation{}, now.Add(2*time.Hour), 0)
	must.Zero(t, j.QuietFor())
	must.True(t, j.Hear(&Progress{Step: 7}, now.Add(5*time.Hour)))
	must.Zero(t, j.QuietFor())
}
