// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import (
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// step returns one step of one rank of a ring.
func step(t float64, n, rank, size, epoch int, indices ...int) Event {
	return Event{Kind: "step", T: t, Step: n, Rank: rank, Size: size, PID: 100 + rank, Epoch: epoch, Indices: indices}
}

func TestParse(t *testing.T) {
	record, err := Parse([]byte(`[0]<stdout>:{"kolo": "step", "t": 1700000000.25, "pid": 7, "step": 3, "rank": 0, "size": 2, "epoch": 0, "loss": 0.5}
some other line
{"kolo": "ring", "t": 1.0, "pid": 8, "rank": 1, "size": 2}
{"kolo": "step", "t": 17`))
	must.NoError(t, err)
	must.Len(t, 2, record)
	must.Eq(t, Event{Kind: "step", T: 1700000000.25, PID: 7, Step: 3, Size: 2, Loss: 0.5}, record[0])
	must.Eq(t, time.UnixMilli(1700000000250), record[0].Time())
	_, err = Parse([]byte("{\"kolo\": nonsense}\n"))
	must.ErrorContains(t, err, "nonsense")
}

func TestChecks(t *testing.T) {
	done := Event{Kind: "done", T: 99, Epoch: 1}
	cases := map[string]struct {
		record                   Record
		steps, rollback, samples string
	}{
		"grows and ends": {
			record: Record{step(1, 1, 0, 1, 0, 2), step(2, 2, 0, 2, 0, 0), step(2, 2, 1, 2, 0, 1), done},
		},
		"a step is repeated after a failure": {
			record:  Record{step(1, 1, 0, 1, 0, 0), step(2, 2, 0, 1, 0, 1), step(3, 2, 0, 1, 0, 1), step(4, 3, 0, 1, 0, 2), done},
			steps:   "step 2 came as number 3",
			samples: "sample 1 was used twice",
		},
		"a step is skipped": {
			record:   Record{step(1, 1, 0, 1, 0, 0, 1), step(2, 3, 0, 1, 0, 2), done},
			steps:    "step 3 came as number 2",
			rollback: "step 3 (rank 0 of 1, pid 100) followed step 1",
		},
		"training begins anew": {
			record:   Record{step(1, 1, 0, 1, 0, 0), step(2, 2, 0, 1, 0, 1), step(3, 3, 0, 1, 0, 2), step(4, 1, 0, 1, 0, 0)},
			steps:    "step 1 came as number 4",
			rollback: "step 1 (rank 0 of 1, pid 100) followed step 3",
			samples:  "no epoch is complete",
		},
		"rank 0 dies before it records a step": {
			record:  Record{step(1, 1, 0, 2, 0, 0), step(1, 1, 1, 2, 0, 1), step(2, 2, 1, 2, 0, 2), step(3, 3, 0, 1, 0)},
			steps:   "step 3 came as number 2",
			samples: "no epoch is complete",
		},
		"a sample is lost": {
			record:  Record{step(1, 1, 0, 1, 0, 0, 2), done},
			samples: "sample 1 was not used",
		},
		"the last sample is lost": {
			record:  Record{step(1, 1, 0, 1, 0, 0, 1), done},
			samples: "sample 2 was not used",
		},
		"training ends in the middle of an epoch": {
			record:  Record{step(1, 1, 0, 1, 0, 0, 1), step(2, 2, 0, 1, 0, 2), step(3, 3, 0, 1, 1, 2, 0), done},
			samples: "training ended in the middle of epoch 1: 2 of 3 samples",
		},
		"an epoch in progress is not judged": {
			record: Record{step(1, 1, 0, 1, 0, 0, 1, 2), step(2, 2, 0, 1, 1, 1)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, c.steps, c.record.CheckConsecutive())
			check(t, c.rollback, c.record.CheckRollbacks(1))
			check(t, c.samples, c.record.CheckSamples(3))
		})
	}
}

func check(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		must.NoError(t, err)
		return
	}
	must.ErrorContains(t, err, want)
}

func TestResizes(t *testing.T) {
	r := Record{step(1, 1, 0, 1, 0), step(2, 2, 0, 1, 0), step(2.5, 3, 0, 3, 0), step(2.5, 3, 1, 3, 0), step(3, 4, 0, 2, 0)}
	resizes := r.Resizes()
	must.Len(t, 2, resizes)
	must.Eq(t, 500*time.Millisecond, resizes[0].Gap())
	must.Eq(t, []int{1, 3, 2}, r.Sizes())
	must.Eq(t, []int{101}, r.PIDs(1))
	must.Eq(t, 4, r.Last().Step)
}

func TestCheckLoss(t *testing.T) {
	falling, flat := Record{}, Record{}
	for i := range 40 {
		e := step(float64(i), i+1, 0, 1, 0)
		e.Loss = 1
		flat = append(flat, e)
		e.Loss = 1 / float64(i+1)
		falling = append(falling, e)
	}
	must.NoError(t, falling.CheckLoss())
	must.ErrorContains(t, flat.CheckLoss(), "in the end")
	must.ErrorContains(t, flat[:5].CheckLoss(), "only 5 steps")
}
