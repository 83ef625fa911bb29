// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// Scopes and keys are bytes between slashes, without any special characters.
func TestEndpoint_Names(t *testing.T) {
	e := listen(t, newMemory(), rendezvous.Limits{})
	client := clientOf(e)
	for _, path := range []string{
		"/global/0",
		"/local_4a7c1e-host.example/rank_0",
		"/cross_0_process_set_hash_7d48533536350577/1",
		"/made-up-scope/any.key~with!$&'()*+,;=:@",
		"/percent/%41", "/percent/A", "/query/a?b=c", "/query/a", "/dots/..", "/../dots",
	} {
		status, _, err := client.Do(t.Context(), "PUT", path, "value of "+path)
		must.NoError(t, err)
		must.Eq(t, 200, status, must.Sprint(path))
	}
	// None of them has overwritten another.
	for _, path := range []string{"/percent/%41", "/percent/A", "/query/a?b=c", "/query/a", "/dots/..", "/../dots"} {
		status, value, err := client.Do(t.Context(), "GET", path, "")
		must.NoError(t, err)
		must.Eq(t, 200, status)
		must.Eq(t, "value of "+path, string(value))
	}
}

// Values are bytes of any length, and are always sent with that length.
func TestEndpoint_Values(t *testing.T) {
	e := listen(t, newMemory(), rendezvous.Limits{})
	client := clientOf(e)
	const ranks = 4096
	for _, n := range []int{0, 1, 136, 2047, 2048, 2049, 65536, 136 * (ranks - 1)} {
		value := strings.Repeat("\x00\r\n\xff", n/4+1)[:n]
		status, _, err := client.Do(t.Context(), "PUT", "/s/k", value)
		must.NoError(t, err)
		must.Eq(t, 200, status)
		status, got, err := client.Do(t.Context(), "GET", "/s/k", "")
		must.NoError(t, err)
		must.Eq(t, 200, status)
		must.True(t, string(got) == value, must.Sprintf("%d bytes came back as %d others", n, len(got)))
	}
	status, _, err := client.Do(t.Context(), "DELETE", "/s/k", "")
	must.NoError(t, err)
	must.Eq(t, 200, status)
	status, got, err := client.Do(t.Context(), "GET", "/s/k", "")
	must.NoError(t, err)
	must.Eq(t, 404, status)
	must.SliceEmpty(t, got)
}

// The endpoint refuses requests that Horovod does not send, and survives them.
func TestEndpoint_Refuses(t *testing.T) {
	limits := rendezvous.Limits{Body: 1000, Name: 50}
	long := strings.Repeat("x", 51)
	put := func(path, length, body string) string {
		return "PUT " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + "\r\nConnection: close\r\n\r\n" + body
	}
	get := func(path string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	}
	cases := map[string]struct{ request, status string }{
		"no key":                  {get("/global"), "400"},
		"empty key":               {get("/global/"), "400"},
		"empty scope":             {get("//0"), "400"},
		"three parts":             {get("/global/0/1"), "400"},
		"root":                    {get("/"), "400"},
		"a whole URL":             {get("http://h/global/0"), "400"},
		"half a percent":          {get("/global/%4"), "400"},
		"scope too long":          {get("/" + long + "/0"), "414"},
		"key too long":            {get("/s/" + long), "414"},
		"header too long":         {"GET /s/k HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", "431"},
		"body too large":          {put("/s/k", "1001", strings.Repeat("b", 1001)), "413"},
		"body declared too large": {put("/s/k", "99999999999", ""), "413"},
		"length is no number":     {put("/s/k", "many", ""), "400"},
		"length is negative":      {put("/s/k", "-1", ""), "400"},
		"chunks too large":        {"PUT /s/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("b", 1001) + "\r\n0\r\n\r\n", "413"},
		"other method":            {"POST /s/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "405"},
		"not HTTP":                {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		"no address":              {put("/worker_addresses/h:0", "2", "aa"), "400"},
		"the handler's error":     {put("/broken/k", "1", "v"), "500"},
		"the handler's error,":    {get("/broken/k"), "500"},
	}
	e := listen(t, newMemory(), limits)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer := raw(t, e, tc.request)
			must.StrHasPrefix(t, "HTTP/1.1 "+tc.status+" ", answer)
			if tc.status != "431" && !strings.Contains(answer, "Bad Request\r\nContent-Type") {
				// Not from the HTTP library itself.
				must.StrContains(t, answer, "Content-Length: 0\r\n")
			}
		})
	}
	status, _, err := clientOf(e).Do(t.Context(), "PUT", "/s/k", "fine")
	must.NoError(t, err)
	must.Eq(t, 200, status)
}

// A chunked body, and several requests over one connection, are accepted, too.
func TestEndpoint_OtherClients(t *testing.T) {
	e := listen(t, newMemory(), rendezvous.Limits{})
	base := "http://" + addrOf(e)
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for i := range 20 {
		body := strings.Repeat("v", i*300)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/s/k", io.MultiReader(strings.NewReader(body)))
		must.NoError(t, err)
		must.Eq(t, 0, request.ContentLength) // unknown, so sent in chunks
		response, err := client.Do(request)
		must.NoError(t, err)
		must.NoError(t, response.Body.Close())
		must.Eq(t, 200, response.StatusCode)

		response, err = client.Get(base + "/s/k")
		must.NoError(t, err)
		value, err := io.ReadAll(response.Body)
		must.NoError(t, err)
		must.NoError(t, response.Body.Close())
		must.Eq(t, body, string(value))
		must.Eq(t, int64(len(body)), response.ContentLength)
	}
}

// A waiting request outlasts every time limit and is finally answered; if its
// client leaves, the handler learns it.
func TestEndpoint_Holds(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	m := newMemory()
	e := listen(t, m, rendezvous.Limits{Header: limit, Transfer: limit})

	leaving, err := net.Dial("tcp4", addrOf(e))
	must.NoError(t, err)
	_, err = io.WriteString(leaving, "GET /held/leaving HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
	must.NoError(t, err)
	must.Eq(t, "leaving", <-m.held)

	type answer struct {
		status int
		value  []byte
		err    error
	}
	stays := make(chan answer, 1)
	go func() {
		status, value, err := clientOf(e).Do(withTimeout(t), "GET", "/held/staying", "")
		stays <- answer{status, value, err}
	}()
	must.Eq(t, "staying", <-m.held)

	must.NoError(t, leaving.Close())
	must.Eq(t, "leaving", <-m.gone)

	// Longer than the limits, which are for the transfer and not the wait.
	time.Sleep(3 * limit / 2)
	close(m.release)
	must.Eq(t, answer{200, []byte("released"), nil}, <-stays)
}

// rank_and_size is answered with six numbers or not at all.
func TestEndpoint_RankAndSize(t *testing.T) {
	cases := map[string]struct {
		assignment rendezvous.Assignment
		err        error
		want       string // empty: held
	}{
		"a place":       {rendezvous.Assignment{Rank: 2, Size: 3, LocalSize: 1, CrossRank: 1, CrossSize: 2}, nil, "2,3,0,1,1,2"},
		"removed":       {rendezvous.Removed(), nil, "-1,-1,-1,-1,-1,-1"},
		"an error":      {rendezvous.Assignment{}, errRefused, ""},
		"no place":      {rendezvous.Assignment{}, nil, ""},
		"half a place":  {rendezvous.Assignment{Rank: 0, Size: 1}, nil, ""},
		"half removed":  {rendezvous.Assignment{Rank: -1, Size: 1, LocalSize: 1, CrossSize: 1}, nil, ""},
		"rank too high": {rendezvous.Assignment{Rank: 1, Size: 1, LocalSize: 1, CrossSize: 1}, nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.assign = func(context.Context) (rendezvous.Assignment, error) { return tc.assignment, tc.err }
			e := listen(t, m, rendezvous.Limits{})
			ctx, cancel := context.WithCancel(withTimeout(t))
			defer cancel()
			answered := make(chan string, 1)
			go func() {
				status, value, err := clientOf(e).Do(ctx, "GET", "/rank_and_size/h:0", "")
				answered <- fmt.Sprint(status, string(value), err)
			}()
			must.Eq(t, "rank", <-m.held)
			if tc.want != "" {
				must.Eq(t, fmt.Sprint(200, tc.want, nil), <-answered)
				return
			}
			select {
			case a := <-answered:
				t.Fatalf("was answered: %s", a)
			case <-time.After(50 * time.Millisecond):
			}
		})
	}
}

// A request that waits forever ends when the endpoint is closed, and nothing of the
// endpoint remains.
func TestEndpoint_Close(t *testing.T) {
	m := newMemory()
	m.assign = func(ctx context.Context) (rendezvous.Assignment, error) {
		<-ctx.Done()
		return rendezvous.Assignment{}, ctx.Err()
	}
	e := listen(t, m, rendezvous.Limits{})
	var held sync.WaitGroup
	for _, path := range []string{"/held/a", "/never/b", "/rank_and_size/h:0"} {
		conn, err := net.Dial("tcp4", addrOf(e))
		must.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
		must.NoError(t, err)
		<-m.held
		held.Go(func() {
			_, err := bufio.NewReader(conn).ReadByte()
			if err == nil {
				t.Errorf("%s was answered", path)
			}
		})
	}
	must.NoError(t, e.Close())
	held.Wait()
	_, err := net.Dial("tcp4", addrOf(e))
	must.Error(t, err)
}

// At the limit, the next connection waits.
func TestEndpoint_LimitsConnections(t *testing.T) {
	t.Parallel()
	m := newMemory()
	e := listen(t, m, rendezvous.Limits{Conns: 2})
	ask := func(name string) net.Conn {
		conn, err := net.Dial("tcp4", addrOf(e))
		must.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET /held/"+name+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
		must.NoError(t, err)
		return conn
	}
	first := ask("a")
	must.Eq(t, "a", <-m.held)
	ask("b")
	must.Eq(t, "b", <-m.held)
	ask("c")
	select {
	case name := <-m.held:
		t.Fatalf("%s is served in addition to two others", name)
	case <-time.After(100 * time.Millisecond):
	}
	must.NoError(t, first.Close())
	must.Eq(t, "c", <-m.held)
}

// Clients that stall or flood are cut off. Other clients are served meanwhile and
// afterwards, and another endpoint is not affected.
func TestEndpoint_StallAndFlood(t *testing.T) {
	t.Parallel()
	const conns = 4
	limits := rendezvous.Limits{Conns: conns, Header: 250 * time.Millisecond, Transfer: 250 * time.Millisecond}
	e := listen(t, newMemory(), limits)
	other := listen(t, newMemory(), limits)

	stalls := map[string]string{
		"nothing":       "",
		"half a line":   "GET /s",
		"half a header": "PUT /s/k HTTP/1.1\r\nHost: h\r\nContent-Le",
		"half a body":   "PUT /s/k HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf",
	}
	var stalled []net.Conn
	for range 2 * conns { // far more than are served at once
		for _, start := range stalls {
			conn, err := net.Dial("tcp4", addrOf(e))
			must.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, start)
			must.NoError(t, err)
			stalled = append(stalled, conn)
		}
	}
	status, _, err := clientOf(other).Do(withTimeout(t), "PUT", "/s/k", "v")
	must.NoError(t, err)
	must.Eq(t, 200, status)
	// Ours waits its turn behind those that stall, and gets it.
	status, _, err = clientOf(e).Do(withTimeout(t), "PUT", "/s/k", "v")
	must.NoError(t, err)
	must.Eq(t, 200, status)
	for _, conn := range stalled {
		must.NoError(t, conn.SetReadDeadline(time.Now().Add(timeout)))
		answer, _ := io.ReadAll(conn)
		must.StrNotHasPrefix(t, "HTTP/1.1 200", string(answer))
	}
}
