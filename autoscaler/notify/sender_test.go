// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// fakeSource is an autoscaler whose events a test sends.
type fakeSource struct {
	events chan api.Event
	config atomic.Pointer[config.Config]
	leads  atomic.Bool
}

func (s *fakeSource) Subscribe() (<-chan api.Event, func()) { return s.events, func() {} }
func (s *fakeSource) Config() *config.Config                { return s.config.Load() }
func (s *fakeSource) Leads() bool                           { return s.leads.Load() }
func (s *fakeSource) JobQueue(namespace, _ string) (pool, queue string) {
	return "gpu", namespace
}

// request is one that a webhook received.
type request struct {
	header http.Header
	body   string
}

// receiver is a webhook. answer writes its answers.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	received []request
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		must.NoError(t, err)
		r.mu.Lock()
		r.received = append(r.received, request{req.Header, string(body)})
		n := len(r.received)
		r.mu.Unlock()
		if answer != nil {
			answer(n, w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.received...)
}

// expect waits until the webhook has n requests.
func (r *receiver) expect(t *testing.T, n int) []request {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return len(r.requests()) >= n }), wait.Timeout(3*time.Minute), wait.Gap(time.Millisecond)))
	return r.requests()
}

// start runs a sender that may send to this machine, where the receivers are.
func start(t *testing.T, log hclog.Logger, hooks ...config.Notify) *fakeSource {
	source := &fakeSource{events: make(chan api.Event)}
	source.leads.Store(true)
	source.config.Store(&config.Config{Notify: hooks})
	s := New(source, log)
	s.first = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return source
}

func toHook(url string) config.Notify {
	return config.Notify{Name: "team", URL: url, Format: config.NotifyJSON, On: config.Notifications, AllowLocal: true}
}

func failure(namespace, id string) api.Event {
	return api.Event{Type: "failed", Job: namespace + "/" + id, Namespace: namespace, ID: id, Reason: "all its workers have failed"}
}

// A webhook gets the events that it asks for, with a signature that its owner can verify.
func TestSender(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "key")
	must.NoError(t, os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600))
	r := newReceiver(t, nil)
	hook := toHook(r.URL)
	hook.SecretFile, hook.On, hook.Queue = secret, []string{"failed", "suspended"}, "lab"
	source := start(t, hclog.NewNullLogger(), hook)
	source.events <- api.Event{Type: "complete", Namespace: "lab", ID: "a"}
	source.events <- api.Event{Type: "resize", Cause: "grow", To: 4, Namespace: "lab", ID: "a"}
	source.events <- failure("other", "a")
	source.events <- failure("lab", "a")
	source.events <- api.Event{Type: "resize", Cause: "suspend", From: 4, Job: "lab/a", Namespace: "lab", ID: "a"}
	got := r.expect(t, 2)
	must.Len(t, 2, got)
	var n Notification
	must.NoError(t, json.Unmarshal([]byte(got[0].body), &n))
	must.NotEq(t, "", n.ID)
	must.Eq(t, Notification{ID: n.ID, On: "failed", Text: "failed: lab/a (all its workers have failed)", Pool: "gpu", Queue: "lab", Event: failure("lab", "a")}, n)
	must.StrContains(t, got[1].body, `"on":"suspended"`)
	for _, request := range got {
		signature := request.header.Get(SignatureHeader)
		var at int64
		_, err := fmt.Sscanf(signature, "t=%d,", &at)
		must.NoError(t, err)
		must.Eq(t, Sign([]byte("0123456789abcdef"), []byte(request.body), time.Unix(at, 0)), signature)
	}
}

// Only the leader sends, and a reload adds and removes webhooks.
func TestSender_LeaderAndReload(t *testing.T) {
	a, b := newReceiver(t, nil), newReceiver(t, nil)
	source := start(t, hclog.NewNullLogger(), toHook(a.URL))
	source.leads.Store(false)
	source.events <- failure("lab", "not-leading")
	source.events <- api.Event{Type: "policy"} // once it is taken, the one before has been handled
	source.leads.Store(true)
	source.events <- failure("lab", "leading")
	must.StrContains(t, a.expect(t, 1)[0].body, `"leading"`)
	source.config.Store(&config.Config{Notify: []config.Notify{toHook(b.URL)}})
	source.events <- failure("lab", "reloaded")
	must.StrContains(t, b.expect(t, 1)[0].body, `"reloaded"`)
	must.Len(t, 1, a.requests())
}

// A webhook that fails is tried again with the same notification, and one that hangs delays no other.
func TestSender_FailingAndHanging(t *testing.T) {
	failing := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 4 {
			w.WriteHeader([]int{0, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusBadGateway}[n])
		}
	})
	release := make(chan struct{})
	hanging := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	slow := toHook(hanging.URL)
	slow.Name = "slow"
	source := start(t, hclog.NewNullLogger(), slow, toHook(failing.URL))
	source.events <- failure("lab", "a")
	got := failing.expect(t, 4)
	for _, again := range got {
		must.Eq(t, got[0].body, again.body)
	}
	for i := range 3 * queued { // far more than the hanging one has room for
		source.events <- failure("lab", strconv.Itoa(i))
		failing.expect(t, 4+i+1)
	}
	must.Len(t, 1, hanging.requests())
}

// An error that a repetition cannot fix is reported once: a redirect is not followed, and
// an address of the autoscaler's machine is not called. No report contains the URL, which
// may hold a secret.
func TestSender_GivesUp(t *testing.T) {
	target := newReceiver(t, nil)
	redirect := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	short := filepath.Join(t.TempDir(), "key")
	must.NoError(t, os.WriteFile(short, []byte("short\n"), 0o600))
	for name, tc := range map[string]struct {
		hook func(*config.Notify)
		want string
	}{
		"redirect":     {func(h *config.Notify) { h.URL = redirect.URL + "/hidden" }, "the server answered 307 Temporary Redirect"},
		"this machine": {func(h *config.Notify) { h.URL, h.AllowLocal = target.URL+"/hidden", false }, "own machine"},
		"by its name": {func(h *config.Notify) {
			h.URL, h.AllowLocal = strings.Replace(target.URL, "127.0.0.1", "localhost", 1)+"/hidden", false
		}, "own machine"},
		"a short secret": {func(h *config.Notify) { h.URL, h.SecretFile = target.URL+"/hidden", short }, "fewer than 16 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var log strings.Builder
			hook := toHook("")
			tc.hook(&hook)
			source := start(t, hclog.New(&hclog.LoggerOptions{Output: &log, Mutex: &mu}), hook)
			source.events <- failure("lab", "a")
			text := func() string {
				mu.Lock()
				defer mu.Unlock()
				return log.String()
			}
			must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return strings.Contains(text(), "failed to send") }), wait.Timeout(3*time.Minute), wait.Gap(time.Millisecond)))
			must.StrContains(t, text(), tc.want)
			must.StrNotContains(t, text(), "hidden")
			must.Len(t, 0, target.requests())
		})
	}
}

// Slack's format cannot be used to mention everyone or to hide a link.
// Each word of the configuration selects an event.
func TestKind(t *testing.T) {
	for _, word := range config.Notifications {
		e := api.Event{Type: word}
		if word == "suspended" {
			e = api.Event{Type: "resize", Cause: "suspend", From: 2}
		}
		must.Eq(t, word, Kind(&e))
	}
	must.Eq(t, "", Kind(&api.Event{Type: "policy"}))
	must.Eq(t, "", Kind(&api.Event{Type: "resize", Cause: "grow"}))
}

func TestNotification_Slack(t *testing.T) {
	e := failure("lab", "<!channel>")
	e.Reason = "see <https://evil.example|the log> & \x1b[2Jmore"
	n := &Notification{Text: sentence("failed", &e)}
	body, err := n.body(config.NotifySlack)
	must.NoError(t, err)
	var got map[string]string
	must.NoError(t, json.Unmarshal(body, &got))
	must.Eq(t, map[string]string{"text": "Kolo: failed: lab/&lt;!channel&gt; (see &lt;https://evil.example|the log&gt; &amp; �[2Jmore)"}, got)
}

func TestOfThisMachine(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": true, "169.254.169.254": true, "fe80::1": true, "224.0.0.1": true,
		"192.0.2.1": false, "2001:db8::1": false,
	} {
		must.Eq(t, want, ofThisMachine(netip.MustParseAddr(address)), must.Sprint(address))
	}
}

// The expected value is from Python's hmac, which the docs use.
func TestSign(t *testing.T) {
	must.Eq(t, "t=1700000000,v1=4e151cf0cf0f720ca6f8d220b4f1a138af2620059761d94fade135e7249d8c57", Sign([]byte("0123456789abcdef"), []byte(`{"on":"failed"}`), time.Unix(1700000000, 0)))
}
