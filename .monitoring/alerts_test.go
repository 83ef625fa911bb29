// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/shoenig/test/must"
)

const alertsFile = "../docs/monitoring/alerts.yml"

// alerts returns the rules of the file by name, as Prometheus reads them.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	must.SliceEmpty(t, errs)
	out := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			must.MapNotContainsKey(t, out, r.Alert)
			out[r.Alert] = r
		}
	}
	return out
}

// fires reports which alerts of a rule fire within two hours of some series and the rule's own
// time, with their summaries. The rule is evaluated once a minute.
func fires(t *testing.T, r rulefmt.Rule, series string) []string {
	t.Helper()
	store := promqltest.LoadedStorage(t, "load 1m\n"+series)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	t.Cleanup(func() { must.NoError(t, engine.Close()) })
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	must.NoError(t, err)
	rule := rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations),
		labels.EmptyLabels(), "", true, promslog.NewNopLogger())
	seen := map[string]bool{}
	var out []string
	for at := range 120 + int(time.Duration(r.For)/time.Minute) {
		_, err := rule.Eval(t.Context(), 0, time.Unix(int64(60*at), 0), rules.EngineQueryFunc(engine, store), &url.URL{}, 0)
		must.NoError(t, err)
		for _, a := range rule.ActiveAlerts() {
			if text := a.Annotations.Get("summary"); a.State == rules.StateFiring && !seen[a.Labels.String()] {
				seen[a.Labels.String()] = true
				out = append(out, text)
			}
		}
	}
	return out
}

// Each alert fires in the state that it reports, and not in a similar state that is in
// order.
func TestAlerts(t *testing.T) {
	rules := alerts(t)
	tested := map[string]bool{}
	for _, c := range []struct {
		alert, state, series string
		want                 []string
	}{
		{"KoloNoLeader", "one leads", "kolo_leader{instance=\"a\"} 1x120\nkolo_leader{instance=\"b\"} 0x120", nil},
		{"KoloNoLeader", "the leader changes", "kolo_leader{instance=\"a\"} 1x30 0x90\nkolo_leader{instance=\"b\"} 0x31 1x89", nil},
		{"KoloNoLeader", "none leads", "kolo_leader{instance=\"a\"} 1x30 0x90", []string{"No autoscaler leads"}},
		{"KoloNoLeader", "none is scraped", "up 1x120", []string{"No autoscaler leads"}},
		{"KoloSeveralLeaders", "one leads", "kolo_leader{instance=\"a\"} 1x120", nil},
		{"KoloSeveralLeaders", "two lead", "kolo_leader{instance=\"a\"} 1x120\nkolo_leader{instance=\"b\"} 1x120", []string{"2 autoscalers lead"}},
		{"KoloNomadUnreachable", "few requests fail", "kolo_nomad_requests_total{instance=\"a\"} 0+100x120\nkolo_nomad_request_errors_total{instance=\"a\"} 0+1x120", nil},
		{"KoloNomadUnreachable", "half of them fail", "kolo_nomad_requests_total{instance=\"a\"} 0+100x120\nkolo_nomad_request_errors_total{instance=\"a\"} 0+50x120", []string{"50% of requests to Nomad fail"}},
		{"KoloDecisionsRefused", "none", `kolo_decisions_refused_total{pool="gpu"} 3x120`, nil},
		{"KoloDecisionsRefused", "one each minute", `kolo_decisions_refused_total{pool="gpu"} 0+1x120`, []string{"Decisions for pool gpu are refused"}},
		{"KoloJobsWithProblems", "none", `kolo_jobs_with_problems 0x120`, nil},
		{"KoloJobsWithProblems", "two", `kolo_jobs_with_problems 2x120`, []string{"2 jobs are not scaled because of an error in their specification"}},
		{"KoloJobsDoNotStart", "others are guaranteed the slots", `kolo_jobs_waiting{pool="gpu",queue="a",reason="waits-for-guarantee"} 1x120`, nil},
		{"KoloJobsDoNotStart", "started within two minutes", `kolo_jobs_waiting{pool="gpu",queue="a",reason="settling"} 1x2 _x118`, nil},
		{"KoloJobsDoNotStart", "workers do not end", `kolo_jobs_waiting{pool="gpu",queue="a",reason="settling"} 1x120`, []string{"1 jobs of queue a in pool gpu are about to start, and do not"}},
		{"KoloJobsWaitLong", "within two hours", `kolo_jobs_waiting{pool="gpu",queue="a",reason="in-queue"} 1x120`, nil},
		{"KoloJobsWaitLong", "paused for eight hours", `kolo_jobs_waiting{pool="gpu",queue="a",reason="paused"} 1x480`, nil},
		{"KoloJobsWaitLong", "for eight hours", `kolo_jobs_waiting{pool="gpu",queue="a",reason="in-queue"} 1x480`, []string{"1 jobs of queue a wait: in-queue"}},
		{"KoloJobsCannotRun", "it waits its turn", `kolo_jobs_waiting{pool="gpu",queue="a",reason="in-queue"} 1x120`, nil},
		{"KoloJobsCannotRun", "no node has enough memory", `kolo_jobs_waiting{pool="gpu",queue="a",reason="constraint"} 3x120`, []string{"3 jobs of queue a find no node (constraint), although slots may be free"}},
		{"KoloSlotsIdleWhileJobsWait", "full", "kolo_pool_slots{pool=\"gpu\"} 8x120\nkolo_pool_slots_used{pool=\"gpu\"} 8x120\nkolo_jobs_waiting{pool=\"gpu\",queue=\"a\",reason=\"no-room\"} 1x120", nil},
		{"KoloSlotsIdleWhileJobsWait", "nobody waits", "kolo_pool_slots{pool=\"gpu\"} 8x120\nkolo_pool_slots_used{pool=\"gpu\"} 6x120\nkolo_jobs_waiting{pool=\"gpu\",queue=\"a\",reason=\"paused\"} 1x120", nil},
		{
			"KoloSlotsIdleWhileJobsWait", "two free", "kolo_pool_slots{pool=\"gpu\"} 8x120\nkolo_pool_slots_used{pool=\"gpu\"} 6x120\nkolo_jobs_waiting{pool=\"gpu\",queue=\"a\",reason=\"no-room\"} 1x120",
			[]string{"2 slots of pool gpu are free while jobs wait"},
		},
		{"KoloTrainingStands", "it trains", "kolo_step{namespace=\"a\",job_id=\"j\"} 0+5x120\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 2x120", nil},
		{"KoloTrainingStands", "a slow evaluation of ten minutes", "kolo_step{namespace=\"a\",job_id=\"j\"} 0+5x40 200x10 200+5x70\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 2x120", nil},
		{"KoloTrainingStands", "it is complete", "kolo_step{namespace=\"a\",job_id=\"j\"} 100x120\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 2x120\nkolo_complete{namespace=\"a\",job_id=\"j\"} 1x120", nil},
		{
			"KoloTrainingStands", "another allocation leads and steps go on",
			"kolo_step{namespace=\"a\",job_id=\"j\",instance=\"x\"} 0+5x60 _x60\nkolo_step{namespace=\"a\",job_id=\"j\",instance=\"y\"} _x61 305+5x59\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 2x120", nil,
		},
		{"KoloTrainingStands", "a process hangs", "kolo_step{namespace=\"a\",job_id=\"j\"} 0+5x40 200x80\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 2x120", []string{"a/j makes no step"}},
		{"KoloJobIdle", "it trains", "kolo_job_running{namespace=\"a\",job_id=\"j\"} 4x120", nil},
		{
			"KoloJobIdle", "each autoscaler reports it", "kolo_job_idle_seconds{namespace=\"a\",job_id=\"j\",instance=\"x\"} _x30 1800+60x89\nkolo_job_idle_seconds{namespace=\"a\",job_id=\"j\",instance=\"y\"} _x30 1790+60x89",
			[]string{"a/j holds slots and has not used them for 31m"},
		},
		{"KoloWorkersDoNotTrain", "all train", "kolo_job_slots{namespace=\"a\",job_id=\"j\"} 4x120\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 4x120", nil},
		{"KoloWorkersDoNotTrain", "one worker of four trains with its eight GPUs", "kolo_job_slots{namespace=\"a\",job_id=\"j\"} 32x120\nkolo_job_running{namespace=\"a\",job_id=\"j\"} 4x120\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 8x120", []string{"Workers of a/j do not join its training"}},
		{"KoloWorkersDoNotTrain", "two do not join", "kolo_job_slots{namespace=\"a\",job_id=\"j\"} 4x120\nkolo_ring_size{namespace=\"a\",job_id=\"j\"} 2x120", []string{"Workers of a/j do not join its training"}},
		{"KoloStepsLost", "none", "kolo_lost_steps_total 7x120", nil},
		{"KoloStepsLost", "six an hour", "kolo_lost_steps_total 0+0.1x120", []string{"Resizes made jobs repeat"}},
		{"KoloResizesSlow", "below a second", "kolo_resize_gap_seconds_bucket{le=\"1\"} 0+1x120\nkolo_resize_gap_seconds_bucket{le=\"+Inf\"} 0+1x120", nil},
		{
			"KoloResizesSlow", "half a minute",
			"kolo_resize_gap_seconds_bucket{le=\"1\"} 0x120\nkolo_resize_gap_seconds_bucket{le=\"40\"} 0+1x120\nkolo_resize_gap_seconds_bucket{le=\"+Inf\"} 0+1x120",
			[]string{"One resize in ten stops training for more than 36.1s"},
		},
		{"KoloGPUUnhealthy", "healthy", `nvtopo_device_healthy{uuid="GPU-1",instance="n1"} 1x120`, nil},
		{"KoloGPUUnhealthy", "a reset of a minute", `nvtopo_device_healthy{uuid="GPU-1",instance="n1"} 1x10 0x1 1x109`, nil},
		{"KoloGPUUnhealthy", "unhealthy", `nvtopo_device_healthy{uuid="GPU-1",instance="n1"} 0x120`, []string{"GPU GPU-1 on n1 is unhealthy"}},
	} {
		t.Run(c.alert+"/"+c.state, func(t *testing.T) {
			r, ok := rules[c.alert]
			must.True(t, ok, must.Sprint("no such alert"))
			tested[c.alert] = tested[c.alert] || c.want != nil
			got := fires(t, r, c.series)
			must.Len(t, len(c.want), got, must.Sprint(got))
			for i := range c.want {
				must.StrHasPrefix(t, c.want[i], got[i])
			}
		})
	}
	for name := range rules {
		must.True(t, tested[name], must.Sprintf("%s never fires in a test", name))
	}
}

// Prometheus accepts every rule, and each rule describes the problem and the remedy.
func TestAlerts_SayWhatToDo(t *testing.T) {
	for name, r := range alerts(t) {
		must.StrContains(t, "page ticket", r.Labels["severity"])
		must.NotEq(t, "", r.Annotations["summary"], must.Sprint(name))
		must.NotEq(t, "", r.Annotations["description"], must.Sprint(name))
		must.True(t, strings.HasPrefix(name, "Kolo"), must.Sprint(name))
	}
}
