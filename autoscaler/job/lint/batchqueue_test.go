// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// A job that registers workers delays the queue of its pool; a job without workers does
// not.
func TestBatchQueue(t *testing.T) {
	job := `job "a" {
  type      = "batch"
  node_pool = "gpu"
  group "w" {
    COUNT
    scaling {
      min = 0
      max = 4
      policy {
        kolo {}
      }
    }
    task "t" {
      driver = "exec"
    }
  }
}
`
	for name, tc := range map[string]struct {
		old, new string
		pools    []string
		line     int // 0 is none
		want     string
	}{
		"a count":               {"COUNT", "count = 2", []string{"cpu", "gpu"}, 5, `count = 2 registers workers, and in node pool "gpu", which has a batch_queue,`},
		"a minimum":             {"min = 0", "min = 1", []string{"gpu"}, 7, "scaling.min = 1 registers workers"},
		"none":                  {"COUNT", "", []string{"gpu"}, 0, ""},
		"count 0":               {"COUNT", "count = 0", []string{"gpu"}, 0, ""},
		"no such pool":          {"COUNT", "count = 2", []string{"cpu"}, 0, ""},
		"pools are not known":   {"COUNT", "count = 2", nil, 0, ""},
		"another pool":          {`"gpu"`, `"other"`, []string{"gpu"}, 0, ""},
		"a service":             {`"batch"`, `"service"`, []string{"gpu"}, 0, ""},
		"not scaled by Kolo":    {"kolo {}", "", []string{"gpu"}, 0, ""},
		"a switched-off policy": {"max = 4", "max = 4\n      enabled = false", []string{"gpu"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(job, tc.old, tc.new, 1)
			if tc.old != "COUNT" && tc.line == 0 {
				text = strings.Replace(text, "COUNT", "count = 2", 1)
			}
			findings, err := Check(Options{Path: "job.hcl", Text: []byte(strings.Replace(text, "COUNT", "", 1)), QueuedPools: tc.pools})
			must.NoError(t, err)
			var got []Finding
			for _, f := range findings {
				if f.Rule == "batch-queue" {
					got = append(got, f)
				}
			}
			if tc.line == 0 {
				must.SliceEmpty(t, got)
				return
			}
			must.Len(t, 1, got)
			must.Eq(t, tc.line, got[0].Line)
			must.Eq(t, Warning, got[0].Severity)
			must.StrContains(t, got[0].Message, tc.want)
		})
	}
}
