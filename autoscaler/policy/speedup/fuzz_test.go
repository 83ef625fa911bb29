// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package speedup

import (
	"encoding/json"
	"math"
	"testing"
)

// FuzzCurve: for any stored curve, look-ups return reasonable numbers.
func FuzzCurve(f *testing.F) {
	f.Add([]byte(`[{"size":1,"step_time":2},{"size":4,"step_time":0.7,"samples":9,"spread":0.1}]`), 3)
	f.Add([]byte(`[{"size":-1,"step_time":-2},{"size":9223372036854775807,"step_time":1e-320}]`), 1000)
	f.Add([]byte(`[{"size":1,"step_time":1e308},{"size":2,"step_time":1e-308}]`), 5)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		var c Curve
		if json.Unmarshal(b, &c) != nil {
			return
		}
		if s := c.Speedup(n); math.IsNaN(s) || s < 0 {
			t.Fatalf("Speedup(%d) = %v of %s", n, s, b)
		}
		if s := c.Time(n); math.IsNaN(s) || s < 0 {
			t.Fatalf("Time(%d) = %v of %s", n, s, b)
		}
	})
}
