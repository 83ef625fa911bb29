// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
	"github.com/kolo-nomad/kolo/autoscaler/sim"
	"github.com/kolo-nomad/kolo/autoscaler/sim/report"
	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// evil is a label that breaks a page that does not escape it.
const evil = `fifo</script><b>"x"|`

func comparison(t *testing.T) *sim.Comparison {
	t.Helper()
	var contestants []sim.Contestant
	for _, label := range []string{"fifo", evil} {
		contestants = append(contestants, sim.Contestant{
			Label: label, New: func() (policy.Policy, error) { return builtin.Policies.Parse("fifo") },
		})
	}
	contestants[1].Info.Remaining = true
	workload := trace.Synthetic{Jobs: 40, Seed: 1, Deadlines: 0.5}.Trace()
	workload.Jobs[0].ID = evil
	s := &sim.Sweep{
		Contestants: contestants, Workloads: []*trace.Trace{workload},
		Loads: []float64{1, 0.5}, Costs: []sim.ResizeCost{{Constant: 30}, {Constant: 1}, {BySize: map[int]float64{1: 2}}},
		Seeds: 2, Base: sim.Config{Nodes: sim.Uniform(16, 4, "")},
	}
	c, err := s.Run(t.Context())
	must.NoError(t, err)
	return c
}

func render(t *testing.T, write func(io.Writer, *sim.Comparison) error, c *sim.Comparison) string {
	t.Helper()
	var b bytes.Buffer
	must.NoError(t, write(&b, c))
	return b.String()
}

func TestReports_AreTheSameEachTime(t *testing.T) {
	a, b := comparison(t), comparison(t)
	for name, write := range map[string]func(io.Writer, *sim.Comparison) error{
		"table": report.Table, "markdown": report.Markdown, "json": report.JSON,
		"csv": report.CSV, "jobs": report.JobsCSV, "html": report.HTML,
	} {
		t.Run(name, func(t *testing.T) {
			first := render(t, write, a)
			must.Eq(t, first, render(t, write, b))
			must.Eq(t, first, render(t, write, a), must.Sprint("writing a report changed the comparison"))
		})
	}
}

func TestJSON_HoldsEveryRun(t *testing.T) {
	var d struct {
		Cells []struct {
			Policy  string
			Load    float64
			Metrics map[string]sim.Estimate
			Runs    []struct{ Summary sim.Summary }
		}
	}
	must.NoError(t, json.Unmarshal([]byte(render(t, report.JSON, comparison(t))), &d))
	must.Len(t, 12, d.Cells)
	for _, c := range d.Cells {
		must.Len(t, 2, c.Runs)
		must.MapLen(t, len(sim.Metrics())-1, c.Metrics) // nothing migrated
		must.MapNotContainsKey(t, c.Metrics, "migrations_per_job")
		must.InDelta(t, (c.Runs[0].Summary.JCT.Mean+c.Runs[1].Summary.JCT.Mean)/2, c.Metrics["avg_jct_s"].Mean, 1e-9)
	}
}

func TestCSV_IsARectangle(t *testing.T) {
	c := comparison(t)
	rows, err := csv.NewReader(strings.NewReader(render(t, report.CSV, c))).ReadAll()
	must.NoError(t, err)
	must.Len(t, 1+12*2, rows)
	jobs, err := csv.NewReader(strings.NewReader(render(t, report.JobsCSV, c))).ReadAll()
	must.NoError(t, err)
	must.Len(t, 1+2*40, jobs)
	must.Eq(t, evil, jobs[1][1])
}

func TestTable_ShowsDeadlinesOnlyWhereThereAreAny(t *testing.T) {
	c := comparison(t)
	must.StrContains(t, render(t, report.Table, c), "missed")
	for i := range c.Cells {
		for _, runs := range c.Cells[i].Runs {
			for k := range runs {
				runs[k].Deadlines, runs[k].Missed = 0, 0
			}
		}
	}
	must.StrNotContains(t, render(t, report.Table, c), "missed")
}

func TestMarkdown_EscapesPipes(t *testing.T) {
	text := render(t, report.Markdown, comparison(t))
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "|") {
			must.True(t, strings.HasSuffix(line, "|"))
		}
	}
	must.StrContains(t, text, `"x"\|`)
	must.StrContains(t, text, "| 0.5 × 1 s |")
}

// TestHTML_StandsAlone checks that the page loads nothing, that labels are
// escaped, and that every image is well-formed and has no broken number.
func TestHTML_StandsAlone(t *testing.T) {
	page := render(t, report.HTML, comparison(t))
	for _, bad := range []string{`src="`, `<link`, `url(`, `@import`, `http://`, `https://`, "NaN", "Inf", "<b>", "</script><"} {
		must.False(t, strings.Contains(page, bad), must.Sprint("the page holds ", bad))
	}
	images := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	must.Len(t, 8, images) // bars, CDF, two sweeps, use and allocation of both
	for _, image := range images {
		dec := xml.NewDecoder(strings.NewReader(image))
		for {
			_, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			must.NoError(t, err)
		}
	}
}

func TestHTML_NeedsSomething(t *testing.T) {
	must.Error(t, report.HTML(io.Discard, &sim.Comparison{}))
	must.Error(t, report.Markdown(io.Discard, &sim.Comparison{}))
}

// TestHTML_OfTicksAndOfNothingDetailed checks pages without some of their parts.
func TestHTML_OfTicksAndOfNothingDetailed(t *testing.T) {
	c := comparison(t)
	c.Tick, c.Seeds = 60, 1
	for i := range c.Cells {
		c.Cells[i].Detail, c.Cells[i].JCTs = nil, nil
	}
	page := render(t, report.HTML, c)
	must.True(t, strings.Contains(page, "ticks of 60 s"))
	must.False(t, strings.Contains(page, "GPUs of each job over time"))
}
