// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// get makes a call that returns one value.
func get[T any](g *realGPU, symbol string, f func() (T, nvml.Return)) (T, error) {
	var v T
	err := g.r.do(symbol, func() (ret nvml.Return) {
		v, ret = f()
		return ret
	})
	return v, err
}

// getOr is get with a fallback for values that the driver does not report.
func getOr[T any](g *realGPU, symbol string, f func() (T, nvml.Return), otherwise T) T {
	v, err := get(g, symbol, f)
	if err != nil {
		return otherwise
	}
	return v
}

// ptr turns the results of get into a pointer, nil for a missing value.
func ptr[T any](v T, err error) *T {
	if err != nil {
		return nil
	}
	return &v
}

func enabled(s nvml.EnableState, err error) *bool {
	if err != nil {
		return nil
	}
	return new(s == nvml.FEATURE_ENABLED)
}

// text converts a C string.
func text[C int8 | uint8](b []C) string {
	s := make([]byte, 0, len(b))
	for _, c := range b {
		if c == 0 {
			break
		}
		s = append(s, byte(c))
	}
	return string(s)
}
