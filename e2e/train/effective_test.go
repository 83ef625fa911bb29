// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package train

import "testing"

// in assigns steps to the ring of a generation.
func in(generation int, steps ...Event) Record {
	for i := range steps {
		steps[i].Generation = generation
	}
	return steps
}

func TestCheckEffective(t *testing.T) {
	next := step(9, 9, 0, 1, 1, 0) // the epoch after it
	cases := map[string]struct {
		rings []Record
		err   string
	}{
		"a ring that went back": {rings: []Record{
			in(1, step(1, 1, 0, 1, 0, 0), step(2, 2, 0, 1, 0, 1), step(3, 3, 0, 1, 0, 2)),
			in(2, step(4, 2, 0, 1, 0, 1), step(5, 3, 0, 1, 0, 2), next),
		}},
		"the rest does not divide": {rings: []Record{
			in(1, step(1, 1, 0, 2, 0, 0), step(1, 1, 1, 2, 0, 1), step(2, 2, 0, 2, 0, 2), step(2, 2, 1, 2, 0, 0), next),
		}},
		"a rank dies before it records": {rings: []Record{
			in(1, step(1, 1, 0, 2, 0, 0)), in(2, step(2, 2, 0, 1, 0, 2), next),
		}},
		"a sample is lost": {err: "1 samples were not used", rings: []Record{
			in(1, step(1, 1, 0, 1, 0, 0)), in(2, step(2, 2, 0, 1, 0, 2), next),
		}},
		"a sample is used again": {err: "1 samples were used again", rings: []Record{
			in(1, step(1, 1, 0, 1, 0, 0, 1)), in(2, step(2, 2, 0, 1, 0, 1, 2), next),
		}},
		"no generations": {rings: []Record{{step(1, 1, 0, 1, 0, 0), step(2, 2, 0, 1, 1, 0)}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var record Record
			for _, ring := range c.rings {
				record = append(record, ring...)
			}
			check(t, c.err, record.CheckEffective(3))
		})
	}
}

func TestCheckUses(t *testing.T) {
	audit := func(epoch, unused, again int) Event {
		return Event{Kind: "epoch", Epoch: epoch, Unused: unused, Again: again}
	}
	steps := Record{step(1, 1, 0, 2, 0), step(2, 2, 0, 1, 1)}
	done := Event{Kind: "done", Epoch: 2}
	cases := map[string]struct {
		events Record
		err    string
	}{
		"each once, except in the last batch": {events: Record{audit(0, 0, 1), audit(1, 0, 0), done}},
		"audited twice, as the ring changed":  {events: Record{audit(0, 0, 0), audit(0, 0, 0), audit(1, 0, 0), done}},
		"a sample is lost":                    {Record{audit(0, 1, 0), audit(1, 0, 0), done}, "epoch 0: by the weights 1 samples were not used"},
		"a sample is used again":              {Record{audit(0, 0, 0), audit(1, 0, 1), done}, "1 uses too many by rings of up to 1 ranks"},
		"no audit":                            {Record{audit(0, 0, 0), done}, "epoch 1 was not audited"},
		"no end":                              {Record{audit(0, 0, 0), audit(1, 0, 0)}, "training was not done"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, c.err, append(steps[:2:2], c.events...).CheckUses()) })
	}
}
