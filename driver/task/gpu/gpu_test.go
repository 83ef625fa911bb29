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
