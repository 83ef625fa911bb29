// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"testing"

	"github.com/shoenig/test/must"
)

// A script may write anything as its batch. Only a whole, possible one is passed on, and it
// spoils no other field.
func TestParseProgress_Adaptive(t *testing.T) {
	const valid = `{"initial":32,"batch":256,"accumulation":2,"efficiency":0.8,"lr_factor":6.4}`
	for text, want := range map[string]*Adaptive{
		valid:   {Initial: 32, Batch: 256, Accumulation: 2, Efficiency: 0.8, LRFactor: 6.4},
		`null`:  nil,
		`true`:  nil,
		`"big"`: nil,
		`[]`:    nil,
		`{}`:    nil,
		`{"initial":"32","batch":256,"accumulation":2,"efficiency":0.8,"lr_factor":6.4}`:  nil,
		`{"initial":0,"batch":256,"accumulation":2,"efficiency":0.8,"lr_factor":6.4}`:     nil,
		`{"initial":32,"batch":1e300,"accumulation":2,"efficiency":0.8,"lr_factor":6.4}`:  nil,
		`{"initial":32,"batch":256,"accumulation":-1,"efficiency":0.8,"lr_factor":6.4}`:   nil,
		`{"initial":32,"batch":256,"accumulation":2,"efficiency":0,"lr_factor":6.4}`:      nil,
		`{"initial":32,"batch":256,"accumulation":2,"efficiency":NaN,"lr_factor":6.4}`:    nil,
		`{"initial":32,"batch":256,"accumulation":2,"efficiency":0.8,"lr_factor":-1}`:     nil,
		`{"initial":32,"batch":256,"accumulation":2,"efficiency":0.8,"lr_factor":1e300}`:  nil,
		`{"initial":32,"batch":256,"accumulation":2,"efficiency":0.8,"lr_factor":"much"}`: nil,
	} {
		p, ok := ParseProgress([]byte(`{"step":7,"adaptive":` + text + `}`))
		must.True(t, ok, must.Sprint(text))
		must.Eq(t, 7.0, *p.Step, must.Sprint(text))
		must.Eq(t, want, p.Adaptive, must.Sprint(text))
	}
	_, ok := ParseProgress([]byte(`{"adaptive":` + valid + `}`))
	must.False(t, ok, must.Sprint("nothing that is counted"))
}

// Another host of the job may send anything, too.
func TestProgress_BoundAdaptive(t *testing.T) {
	p := Progress{Adaptive: &Adaptive{Initial: 32, Batch: 1e18, Accumulation: 1, Efficiency: 1, LRFactor: 1}}
	p.Bound()
	must.Nil(t, p.Adaptive)
	p.Adaptive = &Adaptive{Initial: 32, Batch: 64, Accumulation: 1, Efficiency: 1, LRFactor: 1}
	p.Bound()
	must.NotNil(t, p.Adaptive)
}
