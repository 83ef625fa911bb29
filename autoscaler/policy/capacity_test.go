// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestSnapshot_Capacity(t *testing.T) {
	types, gpus := (&Snapshot{}).Capacity()
	must.SliceEmpty(t, types)
	must.SliceEmpty(t, gpus)
	types, gpus = (&Snapshot{Nodes: []Node{{Type: "b", GPUs: 4}, {Type: "b", GPUs: -1}, {GPUs: 1}, {Type: "a", GPUs: 2}, {Type: "b", GPUs: 8}}}).Capacity()
	must.Eq(t, []string{"", "a", "b"}, types)
	must.Eq(t, []int{1, 2, 12}, gpus)
}
