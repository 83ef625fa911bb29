// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/leader"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// follower starts a second autoscaler next to a leading one.
func (w *world) follower(t *testing.T, edit func(*config.Config)) *world {
	c := *w.config
	c.Name = "follower"
	if edit != nil {
		edit(&c)
	}
	f := &world{nomad: w.nomad, config: &c}
	f.run(t, &c)
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		st := f.agent.Status()
		return st.Ready && st.Leader.Name == w.config.Name
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	must.False(t, f.agent.Status().Leading)
	return f
}

func TestForward_FollowersPassWishesOn(t *testing.T) {
	w := start(t, func(c *config.Config) { c.Name = "leader" })
	f := w.follower(t, nil)
	_, text := f.do(t, "GET", "/v1/status", "")
	must.StrContains(t, text, `"leading":false,"leader":{"name":"leader","address":"`+w.url+`"}`)

	code, text := f.do(t, "PUT", "/v1/pause", `{"id":"train"}`, "X-Nomad-Token", "friend")
	must.Eq(t, 200, code, must.Sprint(text))
	held := func(want bool) {
		must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return (w.agent.Status().Jobs[0].State == "held") == want }),
			wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	}
	held(true)
	code, _ = f.do(t, "PUT", "/v1/resume", `{}`, "X-Nomad-Token", "friend")
	must.Eq(t, 200, code)
	held(false)
	code, _ = f.do(t, "PUT", "/v1/policy", `{"pool":"default","policy":"fifo"}`, "X-Nomad-Token", "friend")
	must.Eq(t, 200, code)
	_, text = w.do(t, "GET", "/v1/policy", "")
	must.StrContains(t, text, `"set":{"default":"fifo"}`)

	t.Log("the leader's answer is the answer, the token is the caller's")
	code, text = f.do(t, "PUT", "/v1/policy", `{"pool":"default","policy":"x"}`, "X-Nomad-Token", "friend")
	must.Eq(t, 400, code)
	must.StrContains(t, text, "no policy is called")
	w.nomad.Deny("stranger")
	code, text = f.do(t, "PUT", "/v1/pause", `{}`, "X-Nomad-Token", "stranger")
	must.Eq(t, 403, code, must.Sprint(text))
	code, text = f.do(t, "PUT", "/v1/reload", "", "X-Nomad-Token", "stranger")
	must.Eq(t, 403, code, must.Sprint(text))

	t.Log("reloading is for the autoscaler that is asked")
	code, _ = f.do(t, "PUT", "/v1/reload", "", "X-Nomad-Token", "friend")
	must.Eq(t, 200, code)

	t.Log("a request is passed on once")
	code, text = f.do(t, "PUT", "/v1/pause", `{}`, forwardedHeader, "leader", "X-Nomad-Token", "friend")
	must.Eq(t, 503, code)
	must.StrContains(t, text, "leader passed this on to follower, which does not lead now")

	t.Log("other sites and, where configured so, callers without a token do not get that far")
	code, _ = f.do(t, "PUT", "/v1/pause", `{}`, "Origin", "http://evil.example")
	must.Eq(t, 403, code)
}

// TestForward_ALeaderThatEndsSaysSo: followers forward no requests to a leader that was
// stopped.
func TestForward_ALeaderThatEndsSaysSo(t *testing.T) {
	w := start(t, func(c *config.Config) { c.Name, c.Leader.TTL = "leader", 3*time.Second })
	f := w.follower(t, func(c *config.Config) { c.Leader.TTL = time.Hour })
	w.stop()
	code, text := f.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "friend")
	must.Eq(t, 503, code)
	must.StrContains(t, text, "no autoscaler leads now")
}

// TestForward_NoLeader covers the reasons why no leader can be asked.
func TestForward_NoLeader(t *testing.T) {
	w := start(t, func(c *config.Config) { c.Name, c.Leader.TTL, c.Leader.Delay = "leader", time.Hour, time.Hour })
	f := w.follower(t, func(c *config.Config) { c.Leader.TTL = time.Hour })
	for name, tc := range map[string]struct {
		advertise func() string
		code      int
		want      string
	}{
		"gone":           {func() string { return "http://127.0.0.1:1" }, 502, "the leader leader cannot be reached at http://127.0.0.1:1"},
		"no address":     {func() string { return "" }, 503, "leader leads, and does not report the address of its API"},
		"broken address": {func() string { return ":" }, 502, "the address of the leader"},
		"redirected": {func() string {
			s := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect))
			t.Cleanup(s.Close)
			return s.URL
		}, 307, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.nomad.EditVariable("kolo/leader", func(items map[string]string) { items["address"] = tc.advertise() })
			code, text := f.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "friend")
			must.Eq(t, tc.code, code)
			must.StrContains(t, text, tc.want)
		})
	}
	w.nomad.EditVariable("kolo/leader", func(items map[string]string) { items["holder"], items["address"] = "follower", f.url })
	code, text := f.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "friend")
	must.Eq(t, 503, code)
	must.StrContains(t, text, "this autoscaler is about to lead, or has just stopped leading")
	w.nomad.EditVariable("kolo/leader", func(items map[string]string) { items["holder"], items["address"] = "", "" })
	code, text = f.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "friend")
	must.Eq(t, 503, code)
	must.StrContains(t, text, "no autoscaler leads now: no one holds the lock of the variable kolo/leader; an autoscaler that reaches Nomad takes it within 1h0m0s")
}

// elsewhere is an autoscaler that follows one on a machine.
type elsewhere struct {
	*fake
	who leader.Holder
}

func (*elsewhere) Leads() bool { return false }

func (e *elsewhere) Leader(context.Context) (leader.Holder, bool, error) { return e.who, false, nil }

// TestForward_NotToALoopbackAddressOfAnotherMachine: a leader on another machine advertises
// a loopback address. Here, any user could listen at it for the caller's token.
func TestForward_NotToALoopbackAddressOfAnotherMachine(t *testing.T) {
	got := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Nomad-Token") }))
	defer thief.Close()
	u, err := url.Parse(thief.URL)
	must.NoError(t, err)
	for name, host := range map[string]string{"an address": "127.0.0.1", "a name": "localhost", "any address": "0.0.0.0", "an address, 6": "[::1]", "mapped": "[::ffff:127.0.0.1]"} {
		t.Run(name, func(t *testing.T) {
			s := New(&elsewhere{&fake{}, leader.Holder{Name: "other", Machine: "other-host", Address: "http://" + net.JoinHostPort(strings.Trim(host, "[]"), u.Port())}}, &fake{}, nil, hclog.NewNullLogger())
			r := httptest.NewRequest(http.MethodPut, "http://localhost/v1/pause", strings.NewReader("{}"))
			r.Header.Set("X-Nomad-Token", "token of red")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			must.Eq(t, http.StatusBadGateway, w.Code)
			must.StrContains(t, w.Body.String(), "set http { advertise }")
			must.Eq(t, "", got)
		})
	}
}
