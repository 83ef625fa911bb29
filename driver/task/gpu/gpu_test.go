// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package gpu

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestReserved(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		want []string
	}{
		"none":                    {map[string]string{}, nil},
		"one block":               {map[string]string{nvidiaVisible: "GPU-b,GPU-a"}, []string{"GPU-b", "GPU-a"}},
		"words are no GPUs":       {map[string]string{nvidiaVisible: "none", "KOLO_GPUS_x": "void, none,"}, nil},
		"blocks, the last twice":  {map[string]string{"KOLO_GPUS_b": "GPU-3", "KOLO_GPUS_a": "GPU-1,GPU-2", nvidiaVisible: "GPU-3"}, []string{"GPU-1", "GPU-2", "GPU-3"}},
		"a mask set by who knows": {map[string]string{cudaVisible: "0"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, c.want, Reserved(c.env))
		})
	}
}

func TestNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		env    map[string]string
		want   []int
		shared bool
	}{
		"another plugin's":        {map[string]string{nvidiaVisible: "GPU-a"}, nil, false},
		"two blocks":              {map[string]string{"KOLO_GPU_NUMBERS_b": "3", "KOLO_GPU_NUMBERS_a": "2,5", "KOLO_GPUS_a": "GPU-x,GPU-y"}, []int{2, 5, 3}, false},
		"instances of one GPU":    {map[string]string{"KOLO_GPU_NUMBERS_a": "1,1", "KOLO_GPUS_a": "MIG-x,MIG-y"}, []int{1}, true},
		"what is no number":       {map[string]string{"KOLO_GPU_NUMBERS_a": "0, x,,7"}, []int{0, 7}, false},
		"numbers are no GPUs":     {map[string]string{"KOLO_GPU_NUMBERS_a": ""}, nil, false},
		"a variable of its job's": {map[string]string{"KOLO_GPU_NUMBER": "1"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, shared := Numbers(tc.env)
			must.Eq(t, tc.want, got)
			must.Eq(t, tc.shared, shared)
			must.SliceNotContains(t, Reserved(tc.env), "2,5")
		})
	}
}

// A job's own variables do not look like a reservation.
func TestShow(t *testing.T) {
	env := map[string]string{"KOLO_GPUS_x": "GPU-other", "KOLO_GPU_NUMBERS_x": "7", nvidiaVisible: "GPU-other", "MINE": "1"}
	Show(env, map[string]string{"KOLO_GPUS_a": "GPU-a", "KOLO_GPU_NUMBERS_a": "0"}, []string{"GPU-a"})
	must.Eq(t, map[string]string{"KOLO_GPUS_a": "GPU-a", "KOLO_GPU_NUMBERS_a": "0", nvidiaVisible: "GPU-a", cudaVisible: "GPU-a", "MINE": "1"}, env)
}
