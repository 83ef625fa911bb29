// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/usage"
	"github.com/kolo-nomad/kolo/autoscaler/policy/speedup"
)

// accounted serves a status, and the usage of three jobs on two days.
func accounted(t *testing.T, status *api.Status) string {
	at := time.Date(2026, 11, 26, 22, 0, 0, 0, time.UTC)
	day := usage.DayOf(at)
	row := func(d usage.Day, namespace, job string, c usage.Counts, hours int) usage.Row {
		r := usage.Row{Key: usage.Key{Day: d, Pool: "gpu", Queue: "research", Namespace: namespace, Job: job, Kind: "bert"}, Counts: c}
		if hours > 0 {
			r.First, r.Last = at.UnixMilli(), at.Add(time.Duration(hours)*time.Hour).UnixMilli()
		}
		return r
	}
	const hour = 3600_000
	rows := []usage.Row{
		row(day, "research", "train", usage.Counts{Held: 10 * hour, Productive: 8 * hour, Starting: hour, Waiting: hour / 2, Resizes: 2}, 3),
		row(day, "courses", "=exercise\x1b[2K", usage.Counts{Held: 4 * hour, Unknown: 4 * hour, Failures: 1}, 1),
		row(day+1, "research", "train", usage.Counts{Held: 10 * hour, Productive: 10 * hour}, 8),
		row(day+1, "research", "", usage.Counts{Held: hour / 2, Productive: hour / 4}, 0),
	}
	rows[2].End = usage.Complete
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/status" {
			must.NoError(t, json.NewEncoder(w).Encode(status))
			return
		}
		must.Eq(t, "/v1/usage", r.URL.Path)
		p := r.URL.Query()
		q := usage.Query{By: usage.By(p.Get("by")), Namespaces: func(n string) (bool, error) { return p.Get("namespace") == "" || p.Get("namespace") == n, nil }}
		if id := p.Get("job"); id != "" {
			q.Job = identity.JobKey{Namespace: p.Get("namespace"), ID: id}
		}
		got, err := q.Select(rows)
		must.NoError(t, err)
		out := api.UsageReport{From: "2026-11-01", To: "2026-11-28", By: q.By, Rows: []api.UsageRow{}}
		for i := range got {
			out.Rows = append(out.Rows, api.NewUsageRow(&got[i], q.By))
		}
		must.NoError(t, json.NewEncoder(w).Encode(out))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// runUsage runs usage, history or eff.
func runUsage(url, name string, args ...string) (int, string) {
	ui := cli.NewMockUi()
	c := apiCommand{meta: meta{UI: ui}}
	command := map[string]cli.Command{"usage": &usageCommand{c}, "history": &historyCommand{c}, "eff": &effCommand{c}}[name]
	code := command.Run(append([]string{"-address", url}, args...))
	return code, ui.OutputWriter.String() + ui.ErrorWriter.String()
}

func TestUsage(t *testing.T) {
	status := &api.Status{Autoscaler: "host-1", Ready: true}
	url := accounted(t, status)
	code, out := runUsage(url, "usage")
	must.Eq(t, 0, code)
	must.Eq(t, `Slot-hours from 2026-11-01 to 2026-11-28 (UTC)

Queue     Pool  Held   Share  Productive  Starting  Resizing  Lost  Spare  Idle  Unknown  Waiting  Resizes  Failures  Evictions
research  gpu   24.50  89.0%  18.25       1.00      0.00      0.00  0.00   1.25  4.00     0.50     2        1         0
`, out)
	_, out = runUsage(url, "usage", "-by", "namespace", "-sort", "unknown")
	must.StrContains(t, out, "\ncourses    4.00   unknown")
}

func TestUsage_FormatsAndMistakes(t *testing.T) {
	url := accounted(t, &api.Status{Autoscaler: "host-1", Ready: true, Problem: "refused"})
	code, out := runUsage(url, "usage", "-by", "job", "-format", "csv", "-sort", "name")
	must.Eq(t, 0, code)
	must.StrContains(t, out, "job,namespace,held,productive,starting,resizing,lost,idle,unknown,productive_share,waiting,resizes,failures,evictions,spare\n")
	must.StrContains(t, out, `'=exercise\x1b[2K,courses,14400,0,0,0,0,0,14400,,0,0,1,0`)
	must.StrContains(t, out, "train,research,72000,64800,3600,0,0,3600,0,0.900000,1800,2,0,0,0\n")
	must.StrContains(t, out, "(others),research,1800,900,")
	must.StrContains(t, out, "Nomad could not be read, so this may be old: refused")
	_, out = runUsage(url, "usage", "-by", "day", "-format", "json")
	must.StrContains(t, out, `"day": "2026-11-26"`)
	_, out = runUsage(url, "usage", "-namespace", "none")
	must.StrContains(t, out, `no slots were held by jobs of namespace "none"`)
	for _, args := range [][]string{{"-by", "user"}, {"-since", "1y"}, {"-since", "2999-01-01"}, {"-sort", "size"}, {"-format", "xml"}} {
		code, out := runUsage(url, "usage", args...)
		must.Eq(t, exitUsage, code, must.Sprint(args, out))
		must.StrContains(t, out, args[0]+"=")
	}
	url = accounted(t, &api.Status{Autoscaler: "host-1"})
	code, out = runUsage(url, "usage")
	must.Eq(t, 1, code)
	must.StrContains(t, out, "host-1 is still reading the cluster's state; try again in a moment")
}

func TestHistory(t *testing.T) {
	url := accounted(t, &api.Status{Autoscaler: "host-1", Ready: true})
	code, out := runUsage(url, "history")
	must.Eq(t, 0, code)
	must.Eq(t, `Jobs since 2026-11-01 (UTC)

Job            Namespace  From                 To                   Time    Slot-hours  Share    Resizes  Failures  End
train          research   2026-11-26 22:00:00  2026-11-27 06:00:00  8h0m0s  20.00       90.0%    2        0         complete
=exercise�[2K  courses    2026-11-26 22:00:00  2026-11-26 23:00:00  1h0m0s  4.00        unknown  0        1         -
(others)       research   -                    -                    -       0.50        50.0%    0        0         -
`, out)
}

func TestEff(t *testing.T) {
	key := identity.JobKey{Namespace: "research", ID: "train"}
	status := &api.Status{Autoscaler: "host-1", Ready: true, Jobs: []api.JobStatus{{JobKey: key, Requests: api.Requests{Slots: 2}}}}
	url := accounted(t, status)
	_, out := runUsage(url, "eff", "research/train")
	must.StrContains(t, out, "no step time is known: the job has not reported its steps")
	status.Jobs[0].StepTimes = []speedup.Point{{Size: 1, StepTime: 0.8}}
	_, out = runUsage(url, "eff", "research/train")
	must.StrContains(t, out, "only one size was measured")
	status.Jobs[0].StepTimes = append(status.Jobs[0].StepTimes, speedup.Point{Size: 2, StepTime: 0.44}, speedup.Point{Size: 4, StepTime: 0.4})
	code, out := runUsage(url, "eff", "research/train")
	must.Eq(t, 0, code)
	must.StrContains(t, out, `Held              20.00 slot-hours
Productive share  90.0%
Productive        18.00 (90.0%)
Starting          1.00 (5.0%)
`)
	must.StrContains(t, out, `Workers  Step    Speed  Efficiency  Slot-hours per 1000 steps
1        0.8 s   1.00×  100%        0.44
2        0.44 s  1.82×  91%         0.49
4        0.4 s   2.00×  50%         0.89

best size: 2 workers; compared with 1, it has 1.82 times the speed for 2.00 times the slots; 4 would have only 1.10 times the speed for 2.00 times the slots
`)
	status.Jobs = nil
	_, out = runUsage(url, "eff", "research/train")
	must.StrContains(t, out, "Held              20.00 slot-hours")
	must.StrContains(t, out, "the job no longer exists in Nomad, so its step times are unknown")
	code, out = runUsage(url, "eff", "other")
	must.Eq(t, 1, code)
	must.StrContains(t, out, "no job other held slots since 2026-11-01 in the usage that is kept; use -since to look further back")
}
