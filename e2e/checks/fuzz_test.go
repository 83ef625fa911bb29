// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// fuzzFile returns a test file with one target that runs body on b.
func fuzzFile(name, body string) string {
	return "package p\n\nimport \"testing\"\n\nfunc " + name + "(f *testing.F) {\n" +
		"\tf.Add([]byte{})\n\tf.Fuzz(func(t *testing.T, b []byte) {\n" + body + "\n\t})\n}\n"
}

func TestFuzzCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		file   string
		want   string // in the error; "" for none
		prints []string
		input  bool // whether the input that fails is kept
	}{
		"passes": {
			file:   fuzzFile("FuzzSound", "_ = len(b)"),
			prints: []string{"1 fuzz targets", "[1/1] example.test/module/p FuzzSound ... ok: "},
		},
		"fails": {
			file: fuzzFile("FuzzFails", "if len(b) > 0 { t.Fatal(\"longer than nothing\") }"),
			want: "1 of 1 targets failed: FuzzFails of example.test/module/p",
			prints: []string{"FAILED", "longer than nothing", "go test fuzz v1", "[]byte(",
				"go test -run '^FuzzFails$/^", "commit the file"},
			input: true,
		},
		"panics": {
			file:   fuzzFile("FuzzPanics", "if len(b) > 0 { panic(\"out of bounds\") }"),
			want:   "1 of 1 targets failed",
			prints: []string{"out of bounds"},
			input:  true,
		},
		"fails on its seed": {
			file:   fuzzFile("FuzzSeed", "t.Fatal(\"always\")"),
			want:   "1 of 1 targets failed",
			prints: []string{"FuzzSeed/seed#0", "always"},
		},
		"does not compile": {
			file:   fuzzFile("FuzzSyntax", "undefined(b)"),
			want:   "1 of 1 targets failed",
			prints: []string{"undefined: undefined"},
		},
		"skips": {
			file:   "package p\n\nimport \"testing\"\n\nfunc FuzzSkips(f *testing.F) { f.Skip() }\n",
			want:   "1 of 1 targets failed",
			prints: []string{"it ran no input"},
		},
		"hangs": {
			file:   fuzzFile("FuzzHangs", "for len(b) > 0 {\n}"),
			want:   "1 of 1 targets failed",
			prints: []string{"an input hangs", "hung or terminated", "go test fuzz v1"},
			input:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, map[string]string{"p/p.go": "package p\n", "p/p_test.go": tc.file})
			f := fuzzing{dir: dir, time: time.Second, stall: time.Minute}
			if name == "hangs" {
				f.time, f.stall = 5*time.Minute, 5*time.Second
			}
			all, err := targets(t.Context(), dir, regexp.MustCompile("."), []string{"./..."})
			must.NoError(t, err)
			var out strings.Builder
			err = f.all(t.Context(), &out, all)
			if tc.want == "" {
				must.NoError(t, err, must.Sprint(out.String()))
			} else {
				must.ErrorContains(t, err, tc.want, must.Sprint(out.String()))
			}
			for _, want := range tc.prints {
				must.StrContains(t, out.String(), want)
			}
			kept, err := filepath.Glob(filepath.Join(dir, "p/testdata/fuzz/*/*"))
			must.NoError(t, err)
			must.Eq(t, tc.input, len(kept) == 1)
		})
	}
}

func TestFuzzCheckWithoutTargets(t *testing.T) {
	dir := module(t, map[string]string{"p/p.go": "package p\n"})
	must.ErrorContains(t, fuzzCheck(t.Context(), os.Stdout, []string{"-C", dir, "./..."}), "no fuzz target")
	must.ErrorContains(t, fuzzCheck(t.Context(), os.Stdout, []string{"-C", dir, "-run", "FuzzX", "./p"}), `matches "FuzzX"`)
	must.NoError(t, fuzzCheck(t.Context(), os.Stdout, []string{"-C", dir, "./p"}))
	must.Error(t, fuzzCheck(t.Context(), os.Stdout, []string{"-C", dir, "./absent"}))
}

// TestTargets finds targets of both kinds of test package, in a fixed order.
func TestTargets(t *testing.T) {
	dir := module(t, map[string]string{
		"a/a.go":        "package a\n",
		"a/in_test.go":  "package a\n\nfunc FuzzTwo(f *testing.F) {}\nfunc FuzzOne(f *testing.F) {}\nfunc TestFuzz(t *testing.T) {}\n",
		"a/out_test.go": "package a_test\n\nfunc FuzzThree(f *testing.F) {}\n",
		"b/b.go":        "package b\n\nfunc FuzzNot() {}\n",
	})
	all, err := targets(t.Context(), dir, regexp.MustCompile("."), []string{"./..."})
	must.NoError(t, err)
	must.Eq(t, []target{
		{pkg: "example.test/module/a", dir: filepath.Join(dir, "a"), name: "FuzzOne"},
		{pkg: "example.test/module/a", dir: filepath.Join(dir, "a"), name: "FuzzThree"},
		{pkg: "example.test/module/a", dir: filepath.Join(dir, "a"), name: "FuzzTwo"},
	}, all)
	all, err = targets(t.Context(), dir, regexp.MustCompile("One"), []string{"./..."})
	must.NoError(t, err)
	must.Len(t, 1, all)
}

// TestProgress judges outputs that cannot be produced on demand.
func TestProgress(t *testing.T) {
	const report = "fuzz: elapsed: 30s, execs: 100 (0/sec), new interesting: 0 (total: 3)\n"
	for name, tc := range map[string]struct {
		output string
		err    error
		fails  bool
	}{
		"the end is taken for a failure": {
			output: report + "--- FAIL: FuzzX (30.41s)\n    context deadline exceeded\nFAIL\nexit status 1\n", err: os.ErrInvalid},
		"an input exceeds a deadline of its own": {
			output: report + "--- FAIL: FuzzX (3s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n", err: os.ErrInvalid, fails: true},
		"another failure": {output: report + "--- FAIL: FuzzX (3s)\n    cannot allocate memory\nFAIL\n", err: os.ErrInvalid, fails: true},
		"no report":       {output: "ok  \texample.test\t0.1s\n", fails: true},
		"success":         {output: report + "ok  \texample.test\t30.1s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgress()
			for line := range strings.Lines(tc.output) {
				_, err := p.Write([]byte(line))
				must.NoError(t, err)
			}
			_, err := p.result(tc.err, time.Hour)
			must.Eq(t, tc.fails, err != nil, must.Sprint(err))
		})
	}
}
