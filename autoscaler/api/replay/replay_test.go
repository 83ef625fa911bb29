// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
)

// scripted is an autoscaler whose answers count its frames. It keeps them.
type scripted struct {
	mu     sync.Mutex
	frame  int // number of the present frame; the status begins one
	gone   bool
	events chan string
	said   map[string][]string // answers by request and frame, "" for a refusal
	tokens map[string]bool
	large  int // bytes of plans in every second minute
}

// RoundTrip implements http.RoundTripper.
func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[r.Header.Get("X-Nomad-Token")] = true
	if s.gone {
		return nil, errors.New("connection refused")
	}
	if r.URL.Path == "/v1/events" {
		read, write := io.Pipe()
		go func() {
			defer write.Close()
			for {
				select {
				case <-r.Context().Done():
					return
				case e := <-s.events:
					_, _ = fmt.Fprintf(write, "event: x\ndata: %s\n\n", e) // a reader that went away
				}
			}
		}()
		return &http.Response{StatusCode: http.StatusOK, Body: read}, nil
	}
	request := canonical(r.URL)
	if request == "/v1/status" {
		s.frame++
	}
	text := fmt.Sprintf(`{"of":%q,"frame":%d}`+"\n", request, s.frame)
	code := http.StatusOK
	switch {
	case request == "/v1/status":
		text = fmt.Sprintf(`{"time":%q,"ready":true,"jobs":[{"namespace":"default","id":"a b","state":"running"},{"namespace":"x","id":"done","state":"complete"}],"frame":%d}`+"\n", time.Now().UTC().Format(time.RFC3339Nano), s.frame)
	case request == "/v1/nodes":
		text = "[]\n" // never changes
	case request == "/v1/plan" && s.frame%3 == 0:
		code, text = http.StatusServiceUnavailable, `{"error":"busy"}`
	}
	if request == "/v1/plan" && s.frame%4 > 1 {
		text += strings.Repeat(" ", s.large)
	}
	for len(s.said[request]) < s.frame {
		s.said[request] = append(s.said[request], "")
	}
	if code == http.StatusOK {
		s.said[request][s.frame-1] = text
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text))}, nil
}

const secret = "4c1ba91a-secret-token"

// record returns a recording of n frames of an autoscaler, one a minute.
func record(t *testing.T, n int) (*recording.Recording, *scripted, []byte) {
	s := &scripted{events: make(chan string), said: map[string][]string{}, tokens: map[string]bool{}}
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for i := range n - 1 {
			time.Sleep(time.Minute - time.Second)
			s.events <- fmt.Sprintf(`{"time":"2026-01-01T00:00:00Z","type":"resize","job":"a b","from":%d,"to":%d}`, i, i+1)
			time.Sleep(time.Second)
		}
	}()
	time.AfterFunc(time.Duration(n)*time.Minute-30*time.Second, cancel)
	r := Recorder{Every: time.Minute, Warn: func(err error) { t.Error(err) }, Client: func(context.Context) (*api.Client, error) {
		return &api.Client{URL: "http://kolo", Token: secret, HTTP: &http.Client{Transport: s}}, nil
	}}
	must.NoError(t, r.Record(ctx, &out))
	time.Sleep(time.Hour) // the goroutines end
	rec, err := recording.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	must.NoError(t, err)
	return rec, s, out.Bytes()
}

// call asks a server, and returns the status and the text of the answer.
func call(t *testing.T, s http.Handler, method, target, body string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:1"+target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if len(header) > 0 && header[0] == "Host" {
		r.Host = header[1]
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A replay answers each request of the page with what the autoscaler answered at that time,
// byte for byte, except for the mark in the status.
func TestReplay_AnswersWhatWasRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, said, text := record(t, 7)
		must.Eq(t, 7, rec.Frames())
		must.Eq(t, 6*time.Minute, rec.To().Sub(rec.From()))
		must.True(t, said.tokens[secret])
		s, err := NewServer(rec, 10)
		must.NoError(t, err)
		must.Greater(t, len(requests)+4, len(said.said))
		for _, frame := range []int{0, 6, 3, 2, 5, 1, 4} {
			at := rec.From().Add(time.Duration(frame)*time.Minute + 20*time.Second)
			code, state := call(t, s, http.MethodPut, "/v1/replay", fmt.Sprintf(`{"at":%q,"playing":false}`, at.Format(time.RFC3339Nano)))
			must.Eq(t, http.StatusOK, code, must.Sprint(state))
			for request, answers := range said.said {
				code, got := call(t, s, http.MethodGet, request, "")
				if request == "/v1/status" {
					must.StrHasPrefix(t, `{"replay":true,`, got)
					got = strings.Replace(got, `"replay":true,`, "", 1)
				}
				must.StrNotContains(t, got, secret)
				if answers[frame] == "" {
					must.Eq(t, http.StatusNotFound, code)
					must.StrContains(t, got, "the recording has no answer to "+request)
					continue
				}
				must.Eq(t, http.StatusOK, code)
				must.Eq(t, answers[frame], got, must.Sprintf("%s of frame %d", request, frame))
			}
		}
		must.StrNotContains(t, string(text), secret)

		// Parameters may be in any order, and the period of a timeline may be absent.
		_, got := call(t, s, http.MethodGet, "/v1/job?namespace=default&id=a%20b", "")
		must.StrContains(t, got, "/v1/job?id=a+b&namespace=default")
		_, got = call(t, s, http.MethodGet, "/v1/timeline", "")
		must.StrContains(t, got, "since=2h")
	})
}

// Time passes by the speed, and stands still in a pause and at the end.
func TestReplay_Plays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, _, _ := record(t, 7)
		s, err := NewServer(rec, 10)
		must.NoError(t, err)
		state := func(method, body string) (out api.Replay) {
			t.Helper()
			code, text := call(t, s, method, "/v1/replay", body)
			must.Eq(t, http.StatusOK, code, must.Sprint(text))
			must.NoError(t, json.Unmarshal([]byte(text), &out))
			return out
		}
		past := func() time.Duration { return state(http.MethodGet, "").At.Sub(rec.From()) }
		must.Eq(t, api.Replay{From: rec.From().UTC(), To: rec.To().UTC(), At: rec.From().UTC(), Playing: true, Speed: 10}, state(http.MethodGet, ""))
		time.Sleep(6 * time.Second)
		must.Eq(t, time.Minute, past())
		must.False(t, state(http.MethodPut, `{"playing":false}`).Playing)
		time.Sleep(time.Hour)
		must.Eq(t, time.Minute, past())
		state(http.MethodPut, `{"playing":true,"speed":60}`)
		time.Sleep(time.Second)
		must.Eq(t, 2*time.Minute, past())
		time.Sleep(time.Hour)
		end := state(http.MethodGet, "")
		must.Eq(t, rec.To().UTC(), end.At)
		must.False(t, end.Playing)
		must.Eq(t, rec.From().UTC(), state(http.MethodPut, `{"playing":true}`).At) // again
		must.Eq(t, rec.To().UTC(), state(http.MethodPut, `{"at":"9000-01-01T00:00:00Z"}`).At)
		must.Eq(t, rec.From().UTC(), state(http.MethodPut, `{"at":"0001-01-01T00:00:00Z"}`).At)
		for _, wrong := range []string{`{"speed":0}`, `{"speed":-1}`, `{"speed":1e9}`, `{"at":"yesterday"}`, `[]`, `{"x":"` + strings.Repeat("x", bodyLimit) + `"}`} {
			code, _ := call(t, s, http.MethodPut, "/v1/replay", wrong)
			must.Eq(t, http.StatusBadRequest, code, must.Sprintf("%.40s", wrong))
		}
		_, err = NewServer(rec, 0)
		must.ErrorContains(t, err, "speed")
	})
}

// Events come as the replay passes them, and not after a jump.
func TestReplay_Events(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, _, _ := record(t, 7)
		s, err := NewServer(rec, 60)
		must.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		w := &streamWriter{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/events", nil))
		}()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		must.Eq(t, 2, strings.Count(w.text(), "event: resize\n"))
		must.StrContains(t, w.text(), `"from":1,"to":2`)
		_, _ = call(t, s, http.MethodPut, "/v1/replay", fmt.Sprintf(`{"at":%q}`, rec.To().Add(-time.Minute).Format(time.RFC3339)))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		must.Eq(t, 3, strings.Count(w.text(), "event: resize\n"))
		must.StrContains(t, w.text(), `"from":5,"to":6`)
		time.Sleep(time.Minute)
		synctest.Wait()
		must.StrContains(t, w.text(), ": still here")
		cancel()
		<-done
	})
}

// streamWriter accepts the deadlines of a stream, and can be read meanwhile.
type streamWriter struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

// Write implements io.Writer.
func (w *streamWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResponseRecorder.Write(p)
}

func (w *streamWriter) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Body.String()
}

// SetWriteDeadline and SetReadDeadline are what http.ResponseController calls.
func (w *streamWriter) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (w *streamWriter) SetReadDeadline(time.Time) error { return nil }

// Nothing can be changed, and pages of other sites can neither read nor change anything.
func TestReplay_Refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, _, _ := record(t, 1)
		s, err := NewServer(rec, 10)
		must.NoError(t, err)
		for name, tc := range map[string]struct {
			method, target string
			header         []string
			code           int
		}{
			"page":          {http.MethodGet, "/", nil, http.StatusOK},
			"script":        {http.MethodGet, "/page/main.js", nil, http.StatusOK},
			"pause":         {http.MethodPut, "/v1/pause", nil, http.StatusMethodNotAllowed},
			"policy":        {http.MethodPut, "/v1/policy", nil, http.StatusMethodNotAllowed},
			"plan":          {http.MethodPost, "/v1/plan", nil, http.StatusMethodNotAllowed},
			"delete":        {http.MethodDelete, "/v1/replay", nil, http.StatusMethodNotAllowed},
			"other policy":  {http.MethodGet, "/v1/plan?policy=fifo", nil, http.StatusNotFound},
			"other path":    {http.MethodGet, "/v1/../etc/passwd", nil, http.StatusTemporaryRedirect},
			"rebound name":  {http.MethodGet, "/v1/status", []string{"Host", "evil.example:80"}, http.StatusForbidden},
			"machine":       {http.MethodGet, "/v1/status", []string{"Host", "localhost:80"}, http.StatusOK},
			"other site":    {http.MethodPut, "/v1/replay", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
			"other origin":  {http.MethodPut, "/v1/replay", []string{"Origin", "http://evil.example"}, http.StatusForbidden},
			"no such thing": {http.MethodGet, "/v2", nil, http.StatusNotFound},
		} {
			code, text := call(t, s, tc.method, tc.target, "{}", tc.header...)
			must.Eq(t, tc.code, code, must.Sprintf("%s: %s", name, text))
		}
	})
}

// A recorder goes on after the autoscaler was away, and leaves that time out.
func TestRecorder_AutoscalerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{events: make(chan string), said: map[string][]string{}, tokens: map[string]bool{}}
		var out bytes.Buffer
		var warned []string
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute-time.Second)
		defer cancel()
		away := func(gone bool) func() {
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.gone = gone
			}
		}
		time.AfterFunc(150*time.Second, away(true))
		time.AfterFunc(350*time.Second, away(false))
		r := Recorder{Every: time.Minute, Warn: func(err error) { warned = append(warned, err.Error()) }, Client: func(context.Context) (*api.Client, error) {
			return &api.Client{URL: "http://kolo", HTTP: &http.Client{Transport: s}}, nil
		}}
		must.NoError(t, r.Record(ctx, &out))
		rec, err := recording.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		must.NoError(t, err)
		must.Eq(t, 7, rec.Frames()) // of 10 minutes, 3 are missing
		must.Len(t, 1, warned)
		time.Sleep(time.Hour) // the stream ends
	})
}

// A recording goes on without the answers that are too large for it. The recorder warns when an
// answer is left out that was recorded before.
func TestRecorder_LargeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{events: make(chan string), said: map[string][]string{}, tokens: map[string]bool{}, large: 5 << 20}
		var out bytes.Buffer
		var warned []string
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute-time.Second)
		defer cancel()
		r := Recorder{Every: time.Minute, Warn: func(err error) { warned = append(warned, err.Error()) }, Client: func(context.Context) (*api.Client, error) {
			return &api.Client{URL: "http://kolo", HTTP: &http.Client{Transport: s}}, nil
		}}
		must.NoError(t, r.Record(ctx, &out))
		rec, err := recording.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
		must.NoError(t, err)
		must.Eq(t, 8, rec.Frames())
		must.Len(t, 2, warned)
		must.StrContains(t, warned[0], "no room for an answer of 5242")
		must.StrContains(t, warned[0], "which is left out: /v1/plan")
		time.Sleep(time.Hour) // the stream ends
	})
}

// A clock that was set back does not end a recording.
func TestLater(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	must.Eq(t, now, later(now.Add(-time.Second), now.Add(time.Microsecond)))
	must.Eq(t, now.Add(time.Hour+time.Millisecond), later(now.Add(time.Hour), now))
	must.Eq(t, now.Add(time.Millisecond), later(now, now.Add(time.Microsecond)))
}

// The details of jobs that are not complete are recorded first.
func TestOfJobs(t *testing.T) {
	s := &api.Status{}
	for i := range mostJobs + 50 {
		j := api.JobStatus{State: api.StateComplete}
		if i >= 100 {
			j.State = api.StateWaiting
		}
		j.Namespace, j.ID = "default", fmt.Sprint("job-", i)
		s.Jobs = append(s.Jobs, j)
	}
	got := ofJobs(s)
	must.Len(t, 2*mostJobs, got)
	must.Eq(t, []string{"/v1/job?id=job-100&namespace=default", "/v1/series?id=job-100&namespace=default"}, got[:2])
	must.Eq(t, "/v1/series?id=job-49&namespace=default", got[2*mostJobs-1])
	u, err := url.Parse(got[0])
	must.NoError(t, err)
	must.Eq(t, got[0], canonical(u))
}

// A recording can't pass as an autoscaler, to which a viewer would give a token.
func TestMarked(t *testing.T) {
	for status, want := range map[string]string{
		`{"ready":true}`:                  `{"replay":true,"ready":true}`,
		`{"ready":true,"replay":false}`:   `{"ready":true,"replay":true}`,
		` {"ready":true}`:                 `{"ready":true,"replay":true}`,
		`{"ready":true,"replay" : false}`: `{"ready":true,"replay":true}`,
		`{}`:                              `{"replay":true}`,
		`null`:                            `{"replay":true}`,
		`[]`:                              `{"replay":true}`,
		`{"ready":true`:                   `{"replay":true}`,
	} {
		must.Eq(t, want, string(marked([]byte(status))), must.Sprint(status))
	}
}
