// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package builtin

import (
	"testing"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/text/nesting"
)

// FuzzParse: for any text, Parse returns a working policy or an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"kolo", "fifo(strict=true)", "tiresias(thresholds=[57600, 1e9], order=\"submit\")",
		"weighted-fair(shares={red=3, blue=0.5}, borrow=false)", "fifo(", "fifo(strict)", "ffdl(method=null)",
		"tiresias(thresholds=[null])", "fifo(a=[[[[[[[[", "fifo(a=!!!!-----1)", "fifo(a=a?b:c?d:e)", "fifo(a=\"${\"${1}\"}\")", "fifo(a=<<A\n${[<<B\n", "oasis(slots=1e99)", "kolo(age=\"${x}\")", "weighted-fair(shares={(1)=2})", "fifo()(",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		p, err := Policies.Parse(spec)
		if err != nil {
			return
		}
		if len(spec) > nesting.LineBytes {
			t.Fatalf("a line of %d bytes was read", len(spec))
		}
		s := cluster(8, policy.Job{Preferred: 2, Remaining: 100}, policy.Job{Min: 2, Preferred: 4, Count: 3, Attained: 10, Tenant: "red"})
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
