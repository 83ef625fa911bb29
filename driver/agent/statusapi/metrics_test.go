// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package statusapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

// trainingStatus returns the status of two allocations that train; "a" leads.
func trainingStatus() *wire.Status {
	step, samples, epoch, loss := 1860.0, 44640.0, 9.0, 0.01
	none, gap, start, lost := 0.0, 2.0, 0.1, 3.0
	return &wire.Status{
		Job: "first", Namespace: "default", AllocID: "a", Leader: "a", Generation: 2, Size: 4, Hosts: 2, Resets: 1, SparesReady: 1,
		Step: &step, Samples: &samples, Epoch: &epoch, Loss: &loss, StepSeconds: map[int]wire.StepTime{4: {Mean: 0.5, N: 10}},
		Adaptive:  &wire.Adaptive{Initial: 32, Batch: 256, Accumulation: 2, Efficiency: 0.75, LRFactor: 6},
		Straggler: &wire.Straggler{Rank: 3, Share: 0.9, Steps: 100, Behind: 0.14},
		Resizes:   []wire.Resize{{Cause: "start", Gap: &start, LostSteps: &none}, {Cause: "resize", Gap: &gap, LostSteps: &lost}},
	}
}

func scrape(t *testing.T, s *wire.Status) string {
	w := httptest.NewRecorder()
	handler(func(context.Context) *wire.Status { return s }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	must.Eq(t, http.StatusOK, w.Code)
	return w.Body.String()
}

// A sum over all allocations counts the ring once.
func TestMetricsOfARingAreExportedOnce(t *testing.T) {
	s := trainingStatus()
	text := scrape(t, s)
	must.StrContains(t, text, `kolo_ring_leader{job_id="first",namespace="default"} 1`)
	must.StrContains(t, text, `kolo_ring_size{job_id="first",namespace="default"} 4`)
	must.StrContains(t, text, `kolo_spares_ready{job_id="first",namespace="default"} 1`)
	must.StrContains(t, text, `kolo_straggler_behind_seconds{job_id="first",namespace="default",rank="3"} 0.14`)
	must.StrContains(t, text, `kolo_ring_gap_seconds{cause="resize",job_id="first",namespace="default"} 2`)
	must.StrContains(t, text, `kolo_batch_samples{job_id="first",namespace="default"} 256`)

	// The unknown cost of a resize is neither 0 nor that of another resize.
	s.Resizes = append(s.Resizes, wire.Resize{Cause: "resize"})
	text = scrape(t, s)
	must.StrContains(t, text, `kolo_ring_gap_seconds{cause="start",`)
	must.StrNotContains(t, text, `kolo_ring_gap_seconds{cause="resize",`)
	must.StrNotContains(t, text, "kolo_lost_steps")

	s.AllocID = "b"
	var series []string
	for line := range strings.Lines(scrape(t, s)) {
		if !strings.HasPrefix(line, "#") {
			series = append(series, strings.TrimSpace(line))
		}
	}
	must.Eq(t, []string{`kolo_ring_leader{job_id="first",namespace="default"} 0`}, series)

	// With `run` there are no allocations: the leader itself answers.
	s.AllocID, s.Leader = "", ""
	must.StrContains(t, scrape(t, s), "kolo_ring_size{")
}

var documented = regexp.MustCompile("(?m)^\\| `(kolo_[a-z_]+)` \\| ([a-z]+) \\|")

// Names, units, help and types follow Prometheus' conventions, no label is one
// that Prometheus sets itself, and the reference lists every metric with its type.
func TestMetricsFollowTheConventions(t *testing.T) {
	text := scrape(t, trainingStatus())
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must.NoError(t, err)
	must.SliceEmpty(t, problems, must.Sprint(problems))
	for _, label := range []string{"job", "instance"} {
		must.False(t, regexp.MustCompile(`[{,]`+label+`="`).MatchString(text), must.Sprint(text))
	}

	docs, err := os.ReadFile("../../../docs/reference/metrics.md")
	must.NoError(t, err)
	_, section, found := strings.Cut(string(docs), "\n## Driver\n")
	must.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	listed, exported := map[string]string{}, map[string]string{}
	for _, m := range documented.FindAllStringSubmatch(section, -1) {
		listed[m[1]] = m[2]
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "TYPE" {
			exported[f[2]] = f[3]
		}
	}
	must.Eq(t, listed, exported)
}
