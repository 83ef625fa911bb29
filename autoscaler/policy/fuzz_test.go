// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/kolo-nomad/kolo/autoscaler/nesting"
)

// FuzzParse: whatever a user types, Parse answers a working policy or an
// error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"kolo", "fifo(strict=true)", "tiresias(thresholds=[57600, 1e9], order=\"submit\")",
		"weighted-fair(shares={red=3, blue=0.5}, borrow=false)", "fifo(", "fifo(strict)", "ffdl(method=null)",
		"tiresias(thresholds=[null])", "fifo(a=[[[[[[[[", "fifo(a=!!!!-----1)", "fifo(a=a?b:c?d:e)", "fifo(a=\"${\"${1}\"}\")", "fifo(a=<<A\n${[<<B\n", "oasis(slots=1e99)", "kolo(age=\"${x}\")", "weighted-fair(shares={(1)=2})", "fifo()(",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		p, err := Parse(spec)
		if err != nil {
			return
		}
		if len(spec) > nesting.LineBytes {
			t.Fatalf("a line of %d bytes was read", len(spec))
		}
		s := cluster(8, Job{Preferred: 2, Remaining: 100}, Job{Min: 2, Preferred: 4, Count: 3, Attained: 10, Tenant: "red"})
		d := p.Allocate(s)
		used := 0
		for _, a := range d.Allocations {
			used += a.Count
		}
		if used > 8 {
			t.Fatalf("%s gives %d of 8 GPUs", spec, used)
		}
	})
}

// FuzzCurve: whatever stands in a stored curve, lookups answer sane numbers.
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
		if u := c.Uncertainty(n); math.IsNaN(u) || u < 0 {
			t.Fatalf("Uncertainty(%d) = %v of %s", n, u, b)
		}
	})
}
