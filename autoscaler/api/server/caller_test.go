// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api/socket"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// unixClient calls an autoscaler over a Unix socket.
func unixClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// serves serves a world's API at an address and a socket of its own, too.
func (w *world) serves(t *testing.T) (tcp, unix string) {
	unix = filepath.Join(t.TempDir(), "kolo.sock")
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- w.api.Serve(ctx, config.HTTP{Bind: "127.0.0.1", Unix: unix}, func(a net.Addr) { up <- a })
	}()
	t.Cleanup(func() {
		cancel()
		must.NoError(t, <-done)
	})
	return (<-up).String(), unix
}

func closed(c *config.Config) { c.HTTP.Open = false }

// TestAdmit_LoopbackIsNoProof: a process on this machine, such as a task in the host's
// network, must not be able to pause all jobs.
func TestAdmit_LoopbackIsNoProof(t *testing.T) {
	w := start(t, closed)
	tcp, unix := w.serves(t)
	for path, body := range map[string]string{"/v1/pause": "{}", "/v1/resume": "{}", "/v1/policy": `{"pool":"default","policy":"fifo"}`, "/v1/reload": ""} {
		resp, err := http.DefaultClient.Do(put(t, "http://"+tcp+path, body))
		must.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		must.NoError(t, err)
		must.NoError(t, resp.Body.Close())
		must.Eq(t, 401, resp.StatusCode, must.Sprint(path))
		must.StrContains(t, string(text), "NOMAD_TOKEN")
		must.StrContains(t, string(text), "or run kolo on this machine as the autoscaler's user or root, which finds the Unix socket "+unix)
	}
	must.False(t, w.agent.Status().Paused)

	t.Log("the autoscaler's user may, over the socket")
	resp, err := unixClient(unix).Do(put(t, "http://kolo/v1/pause", "{}"))
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, 200, resp.StatusCode)
	w.paused(t)
	must.StrContains(t, w.log.String(), fmt.Sprintf(`kolo.audit: pause: who="unix uid=%d pid=%d" from=unix job="all jobs" result=ok`, os.Getuid(), os.Getpid()))
}

// TestAdmit_PlanOfAnotherPolicy: a caller without a token must not choose a policy and
// options, and thereby how long the autoscaler computes.
func TestAdmit_PlanOfAnotherPolicy(t *testing.T) {
	w := start(t, closed)
	w.nomad.AddToken("1-dev", nomadtest.Token{Accessor: "0b2240b5", Name: "dev"})
	w.nomad.AddToken("", nomadtest.Token{Namespaces: []string{"default"}}) // the autoscaler's own
	_, unix := w.serves(t)
	another := "/v1/plan?policy=" + url.QueryEscape("oasis(slots=64)")
	code, text := w.do(t, "GET", another, "")
	must.Eq(t, 401, code)
	must.StrContains(t, text, "asking another policy than those in force requires a proof: present a Nomad token")
	must.StrContains(t, text, unix)
	code, _ = w.do(t, "GET", another, "", "X-Nomad-Token", "unknown")
	must.Eq(t, 403, code)
	code, text = w.do(t, "GET", another, "", "X-Nomad-Token", "1-dev")
	must.Eq(t, 200, code, must.Sprint(text))
	code, text = w.do(t, "POST", "/v1/plan", `{"pools":""}`)
	must.Eq(t, 401, code)
	must.StrContains(t, text, "asking with another configuration than the one in force requires a proof")
	code, text = w.do(t, "POST", "/v1/plan", `{"pools":""}`, "X-Nomad-Token", "1-dev")
	must.Eq(t, 200, code, must.Sprint(text))
	code, text = w.do(t, "GET", "/v1/plan", "")
	must.Eq(t, 200, code, must.Sprint(text))
	resp, err := unixClient(unix).Get("http://kolo" + another)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, 200, resp.StatusCode)
}

func (w *world) paused(t *testing.T) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return w.agent.Status().Paused }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
}

// TestAdmit_Tokens checks which tokens may write. Nomad decides.
func TestAdmit_Tokens(t *testing.T) {
	w := start(t, closed)
	w.nomad.AddToken("1-operator", nomadtest.Token{Accessor: "e9ed925e", Name: "ops"})
	w.nomad.AddToken("2-stranger", nomadtest.Token{Accessor: "0b2240b5", Name: "dev"})
	w.nomad.AddToken("", nomadtest.Token{Namespaces: []string{"default"}}) // the autoscaler's own
	w.nomad.Deny("2-stranger")
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"nomad_namespace":"ci","nomad_job_id":"nightly","nomad_task":"t","nomad_allocation_id":"20709a59"}`))
	w.nomad.AddToken("x."+claims+".y", nomadtest.Token{Workload: true})
	for _, tc := range []struct {
		name, token string
		code        int
		want, who   string
	}{
		{"none", "", 401, "present a Nomad token", `who="no token"`},
		{"nonsense", "anything", 403, "unknown to Nomad", `who="unknown token"`},
		{"unknown", "11111111-2222", 403, "unknown to Nomad", `who="unknown token"`},
		{"may not", "2-stranger", 403, "may not write the variable kolo/overrides", `who="token 0b2240b5 (dev)"`},
		{"a workload", "x." + claims + ".y", 200, "", `who="workload ci/nightly task t alloc 20709a59"`},
		{"may", "1-operator", 200, "", `who="token e9ed925e (ops)"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := w.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", tc.token)
			must.Eq(t, tc.code, code, must.Sprint(text))
			must.StrContains(t, text, tc.want)
			must.StrContains(t, w.log.String(), "kolo.audit: pause: "+tc.who)
		})
	}
	w.paused(t)
	t.Log("no log has a token, at any level")
	for _, secret := range []string{"1-operator", "2-stranger", claims, "11111111-2222", "anything"} {
		must.StrNotContains(t, w.log.String(), secret)
	}
}

// TestAdmit_WithoutAccessControl uses a Nomad that accepts any token.
func TestAdmit_WithoutAccessControl(t *testing.T) {
	w := start(t, closed)
	w.nomad.DisableACL()
	code, text := w.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "anything")
	must.Eq(t, 403, code)
	must.StrContains(t, text, "access control is off in Nomad, so a token proves nothing: let everyone write with http { open = true }")
	must.False(t, w.agent.Status().Paused)

	t.Log("the socket does not need one, and is not in the way of one")
	_, unix := w.serves(t)
	r := put(t, "http://kolo/v1/pause", "{}")
	r.Header.Set("X-Nomad-Token", "anything")
	resp, err := unixClient(unix).Do(r)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	must.Eq(t, 200, resp.StatusCode)

	t.Log("nor does an autoscaler that is open")
	o := start(t, nil)
	o.nomad.DisableACL()
	code, _ = o.do(t, "PUT", "/v1/pause", "{}", "X-Nomad-Token", "anything")
	must.Eq(t, 200, code)
	must.StrContains(t, o.log.String(), `pause: who="anyone, by http { open }" from=127.0.0.1`)
}

// TestAdmit_AStaleTokenOverTheSocket sends an expired token from the environment. The
// socket admits the caller anyway, because the kernel reports its user.
func TestAdmit_AStaleTokenOverTheSocket(t *testing.T) {
	w := start(t, closed)
	w.nomad.AddToken("1-operator", nomadtest.Token{Accessor: "a"})
	w.nomad.AddToken("", nomadtest.Token{Namespaces: []string{"default"}})
	tcp, unix := w.serves(t)
	for base, tc := range map[string]struct {
		client *http.Client
		want   int
	}{"http://kolo": {unixClient(unix), 200}, "http://" + tcp: {http.DefaultClient, 403}} {
		r := put(t, base+"/v1/pause", "{}")
		r.Header.Set("X-Nomad-Token", "11111111-2222")
		resp, err := tc.client.Do(r)
		must.NoError(t, err)
		must.NoError(t, resp.Body.Close())
		must.Eq(t, tc.want, resp.StatusCode, must.Sprint(base))
	}
	must.StrContains(t, w.log.String(), fmt.Sprintf(`kolo.audit: pause: who="unix uid=%d pid=%d"`, os.Getuid(), os.Getpid()))
}

func TestAdmit_ATokenIsGoodForAMoment(t *testing.T) {
	w := start(t, closed)
	w.nomad.AddToken("1-operator", nomadtest.Token{Accessor: "a"})
	w.nomad.AddToken("", nomadtest.Token{Namespaces: []string{"default"}})
	before, _ := w.nomad.Calls()
	for range 50 {
		_, err := w.api.tokens.Identify(t.Context(), "1-operator")
		must.NoError(t, err)
	}
	after, _ := w.nomad.Calls()
	must.Less(t, 25, after-before) // other requests are under way
}

// TestAdmit_AFollowersTokenStaysThere sends a command without a token to a follower's
// socket. The leader learns of the command through Nomad, not from the follower.
func TestAdmit_AFollowersTokenStaysThere(t *testing.T) {
	w := start(t, func(c *config.Config) { c.Name, c.HTTP.Open = "leader", false })
	f := w.follower(t, func(c *config.Config) { c.Nomad.Token = "the autoscaler's" })
	_, unix := f.serves(t)
	for _, command := range []struct {
		path string
		want bool
	}{{"/v1/pause", true}, {"/v1/resume", false}} {
		path, want := command.path, command.want
		resp, err := unixClient(unix).Do(put(t, "http://kolo"+path, "{}"))
		must.NoError(t, err)
		must.NoError(t, resp.Body.Close())
		must.Eq(t, 200, resp.StatusCode)
		for _, at := range []*world{w, f} {
			must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return at.agent.Status().Paused == want }), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
		}
	}
	must.StrNotContains(t, w.log.String(), "kolo.audit: pause")
}

// TestServe_AConfiguredSocketHasToDo: if another autoscaler holds the configured socket,
// serving fails.
func TestServe_AConfiguredSocketHasToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kolo.sock")
	l, err := socket.Listen(path, "")
	must.NoError(t, err)
	defer l.Close()
	w := start(t, nil)
	err = w.api.Serve(t.Context(), config.HTTP{Bind: "127.0.0.1", Unix: path}, func(net.Addr) {})
	must.ErrorContains(t, err, "another autoscaler serves this socket")
}

// TestListenUnix_TheDefaultIsAnOffer runs two autoscalers of one user at the same port of
// two addresses. The second has no socket, as if there were no directory for it, and runs
// without one.
func TestListenUnix_TheDefaultIsAnOffer(t *testing.T) {
	dir := t.TempDir()
	here := socket.Places{UID: os.Getuid(), System: filepath.Join(dir, "system"), Runtime: dir}
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8650}
	first, second := New(&fake{}, &fake{}, nil, hclog.NewNullLogger()), New(&fake{}, &fake{}, nil, hclog.NewNullLogger())
	first.places, second.places = here, here
	l, err := first.listenUnix(config.HTTP{}, at)
	must.NoError(t, err)
	must.Eq(t, here.Default(8650), l.Addr().String())
	defer l.Close()
	none, err := second.listenUnix(config.HTTP{}, at)
	must.NoError(t, err)
	must.Nil(t, none)
	must.Eq(t, "", second.socket)
	for name, c := range map[string]config.HTTP{"off": {Unix: config.NoSocket}, "no place": {}} {
		second.places = socket.Places{UID: 4711, System: "/nowhere"}
		none, err = second.listenUnix(c, at)
		must.NoError(t, err, must.Sprint(name))
		must.Nil(t, none, must.Sprint(name))
	}
}

func TestToken(t *testing.T) {
	for name, tc := range map[string]struct{ header, value, want string }{
		"Nomad's":     {"X-Nomad-Token", "a", "a"},
		"bearer":      {"Authorization", "bearer a.b.c", "a.b.c"},
		"basic":       {"Authorization", "Basic abc", ""},
		"bearer only": {"Authorization", "Bearer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(""))
			r.Header.Set(tc.header, tc.value)
			must.Eq(t, tc.want, token(r))
		})
	}
}
