// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// entry is a vulnerability of strings.ToUpper.
const entry = `{"schema_version": "1.3.1", "id": "GO-0000-0001", "modified": "2024-01-01T00:00:00Z", "published": "2024-01-01T00:00:00Z",
  "summary": "Letters grow without bound", "details": "Letters grow without bound.",
  "database_specific": {"url": "https://pkg.go.dev/vuln/GO-0000-0001"},
  "affected": [{"package": {"name": "stdlib", "ecosystem": "Go"},
    "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
    "ecosystem_specific": {"imports": [{"path": "strings", "symbols": ["ToUpper"]}]}}]}`

// TestVulnCheck scans a module that reaches a vulnerability, and one that only
// imports the vulnerable package, with a database of one entry.
func TestVulnCheck(t *testing.T) {
	tool, err := filepath.Abs("../bin/tools/govulncheck")
	must.NoError(t, err)
	if _, err := os.Stat(tool); err != nil {
		t.Skip("no bin/tools/govulncheck; make vuln installs it")
	}
	db := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(db, "GO-0000-0001.json"), []byte(entry), 0o644))
	for name, tc := range map[string]struct {
		function string
		accepted map[string]string
		want     string // in the error
		prints   string
	}{
		"reached":          {function: "ToUpper", want: "reached: GO-0000-0001", prints: "Letters grow without bound"},
		"not reached":      {function: "ToLower", prints: "nothing else"},
		"accepted":         {function: "ToUpper", accepted: map[string]string{"GO-0000-0001": "few letters"}, prints: "GO-0000-0001 is accepted: few letters"},
		"accepted in vain": {function: "ToLower", accepted: map[string]string{"GO-0000-0001": "few letters"}, prints: "no longer reported"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, map[string]string{"main.go": "package main\n\nimport \"strings\"\n\nfunc main() { println(strings." + tc.function + "(\"a\")) }\n"})
			var out strings.Builder
			err := scan{dir: dir, tool: tool, db: "file://" + db, patterns: []string{"./..."}, accepted: tc.accepted}.run(t.Context(), &out)
			if tc.want == "" {
				must.NoError(t, err)
			} else {
				must.ErrorContains(t, err, tc.want)
			}
			must.StrContains(t, out.String(), tc.prints)
		})
	}
}

// TestVulnCheckOutOfReach needs no scanner: running one would fail.
func TestVulnCheckOutOfReach(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	for name, db := range map[string]string{
		"no such directory": "file:///nonexistent",
		"no such host":      "http://127.0.0.1:1",
		"another server":    gone.URL,
	} {
		t.Run(name, func(t *testing.T) {
			must.Error(t, reach(t.Context(), db))
			err := vulnCheck(t.Context(), os.Stdout, []string{"-db", db, "-govulncheck", "/nonexistent", "./..."})
			must.ErrorContains(t, err, "database "+db+" cannot be reached: ")
		})
	}
}

// TestVulnCheckSkips: if the public database is out of reach, the check reports
// that and succeeds without a scan.
func TestVulnCheckSkips(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	var out strings.Builder
	must.NoError(t, vulnCheck(t.Context(), &out, []string{"-govulncheck", "/nonexistent", "./..."}))
	must.StrContains(t, out.String(), "govulncheck: skipped: database https://vuln.go.dev cannot be reached: ")
}

func TestCalled(t *testing.T) {
	for name, tc := range map[string]struct {
		report string
		want   []string
		fails  bool
	}{
		"nothing":     {report: `{"config": {}} {"osv": {"id": "GO-1"}}`},
		"a function":  {report: `{"config": {}} {"finding": {"osv": "GO-1", "trace": [{"module": "m", "package": "p", "function": "F"}]}}`, want: []string{"GO-1"}},
		"a package":   {report: `{"config": {}} {"finding": {"osv": "GO-1", "trace": [{"module": "m", "package": "p"}]}}`},
		"empty":       {fails: true},
		"interrupted": {report: `{"config": {}} {"finding": {"osv"`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := called(strings.NewReader(tc.report))
			must.Eq(t, tc.fails, err != nil)
			must.SliceContainsAll(t, got, tc.want)
		})
	}
}
