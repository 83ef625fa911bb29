// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api/tokens"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller"
)

// world is an autoscaler with a job, and its API.
type world struct {
	nomad  *nomadtest.Cluster
	agent  *controller.Controller
	api    *Server
	url    string
	config *config.Config
	stop   func()
	reload error // what reloading returns
	log    nomadtest.Log
}

func start(t *testing.T, edit func(*config.Config)) *world {
	w := &world{nomad: nomadtest.New()}
	w.nomad.AddNodes(1, 4)
	w.nomad.Register(nomadtest.Job{ID: "train", Max: 4, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{}}}})
	w.nomad.Register(nomadtest.Job{ID: "bad", Max: 4, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": "on"}})
	ns := httptest.NewServer(w.nomad)
	c := config.Default()
	c.Nomad.Address = ns.URL
	c.Leader.TTL, c.Planner.Debounce, c.Planner.Progress = time.Second, time.Millisecond, 0
	c.HTTP.Open = true // most tests are of something else
	c.Pools["default"] = config.Pool{Name: "default", Policy: "elastic-fifo", Device: "gpu"}
	if edit != nil {
		edit(c)
	}
	t.Cleanup(func() {
		ns.CloseClientConnections()
		ns.Close()
	})
	w.config = c
	w.run(t, c)
	a := w.agent
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		st := a.Status()
		return st.Leading && len(st.Jobs) == 1 && st.Jobs[0].Running == 4 && len(st.Ineligible) == 1
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	return w
}

// run starts an autoscaler with its API on a world's Nomad.
func (w *world) run(t *testing.T, c *config.Config) {
	log := hclog.New(&hclog.LoggerOptions{Name: "kolo", Level: hclog.Trace, Output: &w.log})
	a, err := controller.New(c, nil, log)
	must.NoError(t, err)
	w.agent = a
	w.api = New(a, tokens.New(a.Client()), func() error { return w.reload }, log)
	s := httptest.NewServer(w.api)
	w.url = s.URL
	a.Advertise(s.URL)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		must.NoError(t, <-done)
		s.CloseClientConnections()
		s.Close()
	})
	t.Cleanup(w.stop)
}

// do sends a request and returns the status and the body.
func (w *world) do(t *testing.T, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	must.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestServer_Requests(t *testing.T) {
	w := start(t, nil)
	for _, tc := range []struct {
		name, method, path, body string
		code                     int
		want                     string
	}{
		{"page", "GET", "/", "", 200, "<title>Kolo</title>"},
		{"script of the page", "GET", "/page/main.js", "", 200, "SPDX"},
		{"no file of the page", "GET", "/page/server.go", "", 404, ""},
		{"nothing there", "GET", "/v2/status", "", 404, ""},
		{"status", "GET", "/v1/status", "", 200, `"id":"train"`},
		{"job", "GET", "/v1/job?id=train", "", 200, `"to":4`},
		{"job with problems", "GET", "/v1/job?id=bad&namespace=default", "", 200, "is not a block"},
		{"no job", "GET", "/v1/job", "", 400, "which job?"},
		{"unknown job", "GET", "/v1/job?id=x", "", 404, "kolo does not scale a job x"},
		{"plan", "GET", "/v1/plan", "", 200, `"policy":"elastic-fifo"`},
		{"plan with another", "GET", "/v1/plan?policy=fifo", "", 200, `"policy":"fifo"`},
		{"plan with none such", "GET", "/v1/plan?policy=x", "", 400, "no policy is called"},
		{"plan with other queues", "POST", "/v1/plan", `{"pools":"pool \"default\" {\n policy \"kolo\" {}\n queue \"a\" { limit = 2 }\n}"}`, 200, `"policy":"kolo"`},
		{"plan with other queues and policy", "POST", "/v1/plan", `{"pools":"","policy":"fifo"}`, 200, `"policy":"fifo"`},
		{"plan with a mistake", "POST", "/v1/plan", `{"pools":"pool \"default\" {\n queue \"a\" { weight = 0 }\n}"}`, 400, "pools:2: Wrong value for weight"},
		{"plan with an unknown field", "POST", "/v1/plan", `{"pool":""}`, 400, "unknown field"},
		{"usage", "GET", "/v1/usage", "", 200, `"by":"queue"`},
		{"usage by job", "GET", "/v1/usage?by=job&since=2026-11-01", "", 200, `"from":"2026-11-01"`},
		{"usage by something else", "GET", "/v1/usage?by=user", "", 400, `\"user\" is not known; write one of queue, namespace`},
		{"usage since no time", "GET", "/v1/usage?since=x", "", 400, "is no period; write a number of days"},
		{"nodes", "GET", "/v1/nodes", "", 200, `"slots":4,"held":[{"namespace":"default","id":"train"`},
		{"timeline", "GET", "/v1/timeline", "", 200, `"jobs":[{"namespace":"default","id":"train","pool":"default","slots":[[`},
		{"timeline of no period", "GET", "/v1/timeline?since=-1h", "", 400, "is not a duration"},
		{"series", "GET", "/v1/series?id=train", "", 200, `"resizes":[]`},
		{"series of none", "GET", "/v1/series?id=x", "", 404, "kolo does not scale a job x"},
		{"policies", "GET", "/v1/policy", "", 200, `"built_in":[`},
		{"set a policy", "PUT", "/v1/policy", `{"pool":"default","policy":"fifo"}`, 200, "{}"},
		{"it is set", "GET", "/v1/policy", "", 200, `"set":{"default":"fifo"}`},
		{"set none such", "PUT", "/v1/policy", `{"pool":"default","policy":"x"}`, 400, "no policy is called"},
		{"set without pool", "PUT", "/v1/policy", `{"policy":"fifo"}`, 400, "which pool?"},
		{"set with unknown field", "PUT", "/v1/policy", `{"pol":"x"}`, 400, "unknown field"},
		{"set for no pool", "PUT", "/v1/policy", `{"pool":"defaults","policy":"fifo"}`, 404, `there is no node pool \"defaults\"; did you mean \"default\"?`},
		{"set for another pool", "PUT", "/v1/policy", `{"pool":"gpu","policy":"fifo"}`, 404, `no node pool \"gpu\"; there are default`},
		{"reset for no pool", "PUT", "/v1/policy", `{"pool":"gone"}`, 200, "{}"},
		{"job without its namespace", "GET", "/v1/job?namespace=other&id=train", "", 404, `does not scale a job other/train; did you mean \"train\"?`},
		{"pause without its namespace", "PUT", "/v1/pause", `{"namespace":"other","id":"train"}`, 404, `does not scale a job other/train; did you mean \"train\"?`},
		{"pause none such", "PUT", "/v1/pause", `{"id":"trian"}`, 404, `does not scale a job trian; did you mean \"train\"?`},
		{"pause one with problems", "PUT", "/v1/pause", `{"id":"bad"}`, 200, "{}"},
		{"resume none such", "PUT", "/v1/resume", `{"id":"trian"}`, 404, `does not scale a job trian; did you mean \"train\"?`},
		{"pause", "PUT", "/v1/pause", `{"id":"train"}`, 200, "{}"},
		{"resume all", "PUT", "/v1/resume", `{}`, 200, "{}"},
		{"no body", "PUT", "/v1/pause", ``, 400, "the body"},
		{"wrong method", "GET", "/v1/pause", "", 405, ""},
		{"reload", "PUT", "/v1/reload", "", 200, "{}"},
		{"health", "GET", "/v1/health", "", 200, `"healthy":true`},
		{"no pprof", "GET", "/debug/pprof/", "", 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := w.do(t, tc.method, tc.path, tc.body)
			must.Eq(t, tc.code, code, must.Sprint(text))
			must.StrContains(t, text, tc.want)
		})
	}
	w.reload = errors.New("kolo.hcl:3: a mistake")
	code, text := w.do(t, "PUT", "/v1/reload", "")
	must.Eq(t, 400, code)
	must.StrContains(t, text, "kolo.hcl:3")
}

func TestServer_Metrics(t *testing.T) {
	w := start(t, nil)
	_, text := w.do(t, "GET", "/v1/metrics", "")
	for _, line := range []string{
		"kolo_leader 1", `kolo_pool_slots{pool="default"} 4`, `kolo_pool_slots_used{pool="default"} 4`, `kolo_resizes_total{cause="start"} 1`,
		`kolo_job_workers{job_id="train",namespace="default"} 4`, "kolo_jobs_with_problems 1", `kolo_pool_policy{policy="elastic-fifo",pool="default"} 1`,
	} {
		must.StrContains(t, text, line)
	}
}

// TestServer_MetricsNameNoParameters: metrics contain no parameters of policies, because
// these may name tenants, and Prometheus reads without a token.
func TestServer_MetricsNameNoParameters(t *testing.T) {
	w := start(t, nil)
	code, text := w.do(t, "PUT", "/v1/policy", `{"pool": "default", "policy": "weighted-fair(shares={default=3, blue=1})"}`)
	must.Eq(t, 200, code, must.Sprint(text))
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		_, text = w.do(t, "GET", "/v1/metrics", "")
		return strings.Contains(text, `kolo_pool_policy{policy="weighted-fair`)
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	must.StrContains(t, text, `kolo_pool_policy{policy="weighted-fair",pool="default"} 1`)
	must.StrNotContains(t, text, "blue")
}

func TestServer_DebugServesProfiles(t *testing.T) {
	w := start(t, func(c *config.Config) { c.HTTP.Debug = true })
	for path, want := range map[string]string{
		"/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "goroutine profile", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/cmdline": "test",
	} {
		code, text := w.do(t, "GET", path, "")
		must.Eq(t, 200, code)
		must.StrContains(t, text, want)
	}
}

func TestServer_Events(t *testing.T) {
	w := start(t, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/events", nil)
	must.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	must.NoError(t, err)
	defer resp.Body.Close()
	must.Eq(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	must.True(t, lines.Scan()) // subscribed
	code, _ := w.do(t, "PUT", "/v1/pause", `{"id":"train"}`)
	must.Eq(t, 200, code)
	var seen []string
	for lines.Scan() {
		if line := lines.Text(); line != "" {
			seen = append(seen, line)
		}
		if len(seen) == 2 {
			break
		}
	}
	must.Eq(t, "event: pause", seen[0])
	must.StrContains(t, seen[1], `"job":"train"`)
}

func TestServer_ServeEndsWithItsContext(t *testing.T) {
	w := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- w.api.Serve(ctx, config.HTTP{Bind: "127.0.0.1", Port: 0, Unix: config.NoSocket}, func(a net.Addr) { up <- a })
	}()
	at := <-up
	resp, err := http.Get("http://" + at.String() + "/v1/events")
	must.NoError(t, err)
	defer resp.Body.Close()
	cancel()
	must.NoError(t, <-done)
}

// crowd adds a job that waits, so that all metrics have series.
func (w *world) crowd(t *testing.T) {
	w.nomad.Register(nomadtest.Job{ID: "waits", Max: 8, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{"min": 5}}}})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		_, metrics := w.do(t, "GET", "/v1/metrics", "")
		return strings.Contains(metrics, `kolo_jobs_waiting{pool="default",queue="*",reason="never-fits"} 1`)
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// TestServer_Documented compares routes and metrics with the documentation.
func TestServer_Documented(t *testing.T) {
	routes, err := os.ReadFile("../../../docs/reference/api.md")
	must.NoError(t, err)
	reference, err := os.ReadFile("../../../docs/reference/metrics.md")
	must.NoError(t, err)
	w := start(t, nil)
	w.crowd(t)
	for pattern := range w.api.routes() {
		must.StrContains(t, string(routes), "`"+strings.TrimSuffix(pattern, "{$}")+"`")
	}
	_, metrics := w.do(t, "GET", "/v1/metrics", "")
	for line := range strings.Lines(metrics) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "TYPE" {
			must.StrContains(t, string(reference), fmt.Sprintf("| `%s` | %s |", f[2], f[3]))
		}
	}
}

// TestServer_MetricsFollowTheConventions checks Prometheus' conventions for names, units,
// help and types, and that no label is one that Prometheus sets itself.
func TestServer_MetricsFollowTheConventions(t *testing.T) {
	w := start(t, nil)
	w.crowd(t)
	_, text := w.do(t, "GET", "/v1/metrics", "")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must.NoError(t, err)
	must.SliceEmpty(t, problems, must.Sprint(problems))
	must.False(t, regexp.MustCompile(`[{,](job|instance)="`).MatchString(text), must.Sprint(text))
}

func TestAnswer_SaysWhatItCannotEncode(t *testing.T) {
	w := httptest.NewRecorder()
	answer(w, map[string]float64{"lost_steps": math.Inf(1)})
	must.Eq(t, http.StatusInternalServerError, w.Code)
	must.StrContains(t, w.Body.String(), "encoding the answer")
}

// TestServer_ReloadTurnsProfilesOff starts with debug in the configuration, and reloads one
// without.
func TestServer_ReloadTurnsProfilesOff(t *testing.T) {
	f := &fake{}
	f.http.Debug = true
	s := New(f, f, nil, hclog.NewNullLogger())
	code := func() int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/debug/pprof/cmdline", nil))
		return w.Code
	}
	must.Eq(t, http.StatusOK, code())
	f.http.Debug = false
	must.Eq(t, http.StatusNotFound, code())
	f.http.Debug = true
	must.Eq(t, http.StatusOK, code())
}
