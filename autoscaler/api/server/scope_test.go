// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

func guarded(t *testing.T, f *fake) (*Server, *httptest.Server) {
	f.http.ReadToken = true
	s := New(f, f, nil, hclog.NewNullLogger())
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return s, web
}

func ask(t *testing.T, s *Server, method, path, body, token string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("X-Nomad-Token", token)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Before an autoscaler's first round, it does not report a job as unknown, because kolo
// wait would end.
func TestJob_NotReady(t *testing.T) {
	s := New(&fake{status: &api.Status{}}, &fake{}, nil, hclog.NewNullLogger())
	code, text := ask(t, s, http.MethodGet, "/v1/job?id=train", "", "")
	must.Eq(t, http.StatusServiceUnavailable, code, must.Sprint(text))
}

// TestScope_ATenantReadsItsNamespaceOnly reads every route as one tenant.
func TestScope_ATenantReadsItsNamespaceOnly(t *testing.T) {
	s, _ := guarded(t, &fake{})
	for _, path := range []string{"/v1/status", "/v1/plan", "/v1/plan?policy=x", "/v1/metrics", "/v1/policy", "/v1/topology", "/v1/usage?by=job", "/v1/nodes", "/v1/timeline", "/v1/series?namespace=red&id=red-job", "/v1/series?namespace=blue&id=blue-job", "/v1/job?namespace=red&id=red-job", "/v1/job?namespace=blue&id=blue-job"} {
		for mine, others := range map[string]string{"red": "blue", "blue": "red"} {
			code, text := ask(t, s, http.MethodGet, path, "", "token of "+mine)
			text = strings.ReplaceAll(text, "scale a job "+others+"/"+others+"-job;", "") // the question
			must.StrNotContains(t, text, others+"-", must.Sprint(mine, " ", path))
			if !strings.Contains(path, "policy") && !strings.Contains(path, others) {
				must.Eq(t, http.StatusOK, code, must.Sprint(path))
				must.True(t, strings.Contains(path, "series") || strings.Contains(text, mine+"-job"), must.Sprint(path, text))
			}
		}
	}
	_, text := ask(t, s, http.MethodGet, "/v1/status", "", "token of red")
	must.StrContains(t, text, "red-bad")
	must.StrContains(t, text, `"capacity":4`)
	must.StrContains(t, text, `"use":[{"queue":"*","used":2,"waiting":0}]`)
	_, text = ask(t, s, http.MethodGet, "/v1/topology", "", "token of red")
	must.StrContains(t, text, `"free":3,"used":2`)
	_, text = ask(t, s, http.MethodGet, "/v1/nodes", "", "token of red")
	must.StrContains(t, text, `"slots":8,"sick":1,"held":[{"namespace":"red","id":"red-job","alloc":"red-alloc","slots":2,"elastic":true},{"slots":3,"elastic":true}]`)
	_, text = ask(t, s, http.MethodGet, "/v1/timeline", "", "token of red")
	must.StrContains(t, text, `{"namespace":"","id":"","pool":"default","slots":[[1,1],[2,3],[3,1]]}`, must.Sprint("others are a sum"))
	_, text = ask(t, s, http.MethodGet, "/v1/usage", "", "token of red")
	must.StrContains(t, text, `"queue":"*","held":7,`, must.Sprint("the sum is that of its own namespace"))
	code, text := ask(t, s, http.MethodGet, "/v1/job?namespace=blue&id=blue-job", "", "token of red")
	must.Eq(t, http.StatusNotFound, code)
	must.StrContains(t, text, "does not scale a job blue/blue-job")

	t.Log("nor is another's job suggested")
	code, text = ask(t, s, http.MethodGet, "/v1/job?namespace=red&id=blue-job", "", "token of red")
	must.Eq(t, http.StatusNotFound, code)
	must.StrNotContains(t, text, "blue/blue-job")
	code, text = ask(t, s, http.MethodPut, "/v1/pause", `{"namespace": "blue", "id": "blue-jo"}`, "token of red")
	must.Eq(t, http.StatusNotFound, code)
	must.StrNotContains(t, text, "blue-job")
}

func TestScope_WhoMayNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		fake  fake
		token string
		code  int
		want  string
	}{
		"without a token":       {code: 401, want: "present a Nomad token (header X-Nomad-Token, or NOMAD_TOKEN for kolo); where access control is off in Nomad, remove http { read_token }"},
		"an unknown token":      {token: "x", code: 403, want: "unknown to Nomad"},
		"access control is off": {fake: fake{acl: cluster.ErrNoACL}, token: "x", code: 403, want: "a token proves nothing: remove http { read_token }"},
		"Nomad is away":         {fake: fake{away: errors.New("no answer")}, token: "token of red", code: 502, want: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := guarded(t, &tc.fake)
			for pattern := range s.routes() {
				method, path, _ := strings.Cut(strings.TrimSuffix(pattern, "{$}"), " ")
				if method != http.MethodGet || path == "/" || strings.HasPrefix(path, "/page/") || path == "/v1/health" || path == "/v1/metrics" {
					continue
				}
				code, text := ask(t, s, method, path, "", tc.token)
				must.Eq(t, tc.code, code, must.Sprint(path))
				must.StrContains(t, text, tc.want)
			}
			for _, open := range []string{"/", "/page/main.js", "/v1/health"} {
				code, _ := ask(t, s, http.MethodGet, open, "", "")
				must.Eq(t, 200, code)
			}
			code, text := ask(t, s, http.MethodGet, "/v1/metrics", "", "")
			must.Eq(t, 200, code)
			must.StrNotContains(t, text, "-job")
		})
	}
}

func TestScope_TheUnixSocketReadsAll(t *testing.T) {
	s, _ := guarded(t, &fake{http: config.HTTP{Debug: true}})
	for _, path := range []string{"/v1/status", "/debug/pprof/cmdline"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, overUnix(httptest.NewRequest(http.MethodGet, "http://kolo"+path, nil), connection{}))
		must.Eq(t, 200, w.Code, must.Sprint(path))
	}
	code, text := ask(t, s, http.MethodGet, "/debug/pprof/cmdline", "", "token of red")
	must.Eq(t, 403, code)
	must.StrContains(t, text, "on the Unix socket only")
}

func TestScope_Events(t *testing.T) {
	f := &fake{events: make(chan api.Event, 3)}
	_, web := guarded(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/v1/events", nil)
	must.NoError(t, err)
	r.Header.Set("Authorization", "Bearer token of red") // as Nomad takes it, too
	resp, err := http.DefaultClient.Do(r)
	must.NoError(t, err)
	defer resp.Body.Close()
	f.events <- api.Event{Type: "resize", Job: "blue/blue-job", Namespace: "blue", ID: "blue-job"}
	f.events <- api.Event{Type: "resize", Job: "red/red-job", Namespace: "red", ID: "red-job"}
	f.events <- api.Event{Type: "leader", Reason: "last"}
	var seen strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && !strings.Contains(seen.String(), "last"); {
		seen.WriteString(lines.Text() + "\n")
	}
	must.StrContains(t, seen.String(), "red-job")
	must.StrNotContains(t, seen.String(), "blue-job")
}
