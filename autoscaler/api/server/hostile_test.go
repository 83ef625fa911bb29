// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestServer_HostilePolicyLine sends lines that would overflow the stack of HCL's parser.
// That would end the process, so this test would crash rather than fail.
func TestServer_HostilePolicyLine(t *testing.T) {
	w := start(t, nil)
	for _, piece := range []string{"[", "(", "!", "a?", `"${`} {
		line := "fifo(a=" + strings.Repeat(piece, (65<<10)/len(piece))
		code, text := w.do(t, http.MethodGet, "/v1/plan?policy="+url.QueryEscape(line+")"), "")
		must.Eq(t, http.StatusBadRequest, code)
		must.StrContains(t, text, "at most 4096 are read")
		must.Less(t, 1000, len(text))
		code, _ = w.do(t, http.MethodPut, "/v1/policy", `{"pool": "default", "policy": "fifo(a=`+strings.Repeat("[", 60<<10)+`)"}`)
		must.Eq(t, http.StatusBadRequest, code)
	}
	code, _ := w.do(t, http.MethodGet, "/v1/plan?policy=fifo", "")
	must.Eq(t, http.StatusOK, code)
}
