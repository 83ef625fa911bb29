// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
)

// count returns how often a pattern is in a log.
func count(log *nomadtest.Log, pattern string) int {
	return len(regexp.MustCompile("(?m)"+pattern).FindAllString(log.String(), -1))
}

// TestAudit_EveryWriteIsOnRecord compares the requests that change something with the audit
// log. Each has a line, with two exceptions: renewals of the lock have none, and all
// variables of the history share one.
func TestAudit_EveryWriteIsOnRecord(t *testing.T) {
	w := newWorld(t, 1, 4)
	var mu sync.Mutex
	wrote := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			mu.Lock()
			switch {
			case strings.HasSuffix(r.URL.Path, "/scale"):
				wrote["(scale|report)"]++
			case strings.HasSuffix(r.URL.Path, "/tag"):
				wrote["(tag|untag)"]++
			case r.URL.Query().Has("lock-renew"), strings.HasPrefix(r.URL.Path, "/v1/var/kolo/history/"), r.URL.Path == "/v1/var/kolo/leader":
			default:
				wrote[r.Method+" "+r.URL.String()]++
			}
			mu.Unlock()
		}
		w.nomad.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	log := &nomadtest.Log{}
	const secret = "c0ffee00-1111-2222-3333-444455556666"
	c := w.config()
	c.Nomad.Address, c.Nomad.Token = s.URL, secret
	w.log = hclog.New(&hclog.LoggerOptions{Name: "kolo", Level: hclog.Trace, Output: log})
	w.start(c)
	w.job("a", 1, 4)
	w.job("b", 2, 4)
	w.eventually(map[string]int{"a": 2, "b": 2})
	w.nomad.Purge("b")
	w.eventually(map[string]int{"a": 4})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		mu.Lock()
		defer mu.Unlock()
		for what, n := range wrote {
			if count(log, "kolo.audit: "+what+": who=\"autoscaler .*result=") != n {
				return false
			}
		}
		return wrote["(scale|report)"] > 2 && count(log, "kolo.audit: acquire-lock: ") == 1
	}), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)), must.Sprintf("%v\n%s", wrote, log))
	must.Positive(t, count(log, `kolo.audit: scale: who="autoscaler [^"]+" namespace=default job=a group=workers change="0→[24]" reason=.* result=ok$`))
	must.StrNotContains(t, log.String(), secret)
}
