// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobmap

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shoenig/test/must"
)

func open(t *testing.T, dir string) *Map {
	t.Helper()
	m, err := Open(dir)
	must.NoError(t, err)
	return m
}

// files returns what dcgm-exporter reads.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must.NoError(t, err)
		out[e.Name()] = string(text)
	}
	return out
}

func TestMap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	m := open(t, dir)
	a := Use{Namespace: "default", Job: "a", GPUs: []int{0, 12}}
	must.NoError(t, m.Add(a))
	must.Eq(t, map[string]string{"0": "default/a\n", "12": "default/a\n"}, files(t, dir))
	info, err := os.Stat(filepath.Join(dir, "12"))
	must.NoError(t, err)
	must.Eq(t, 0o644, info.Mode().Perm())
	must.NoError(t, m.Remove(a))
	must.MapEmpty(t, files(t, dir))
	must.NoError(t, m.Remove(a), must.Sprint("a task that is not there"))

	t.Log("after a restart, a task of which only the file is left ends, or another follows it")
	must.NoError(t, m.Add(a))
	m = open(t, dir)
	must.NoError(t, m.Add(Use{Namespace: "default", Job: "b", GPUs: []int{12}}))
	must.NoError(t, m.Remove(Use{Namespace: "default", Job: "a", GPUs: []int{0}}))
	must.Eq(t, map[string]string{"12": "default/b\n"}, files(t, dir))
}

// Two tasks of a job and one of another, of another driver, use instances of one GPU.
func TestMap_Shared(t *testing.T) {
	dir := t.TempDir()
	horovod, pytorch := open(t, dir), open(t, dir)
	a, b := Use{Namespace: "x", Job: "a", GPUs: []int{3}, Shared: true}, Use{Namespace: "x", Job: "b", GPUs: []int{3}, Shared: true}
	must.NoError(t, horovod.Add(a))
	must.NoError(t, pytorch.Add(b))
	must.NoError(t, horovod.Add(a))
	must.Eq(t, map[string]string{"3": "x/a\nx/b\n"}, files(t, dir))
	must.NoError(t, horovod.Remove(a))
	must.Eq(t, map[string]string{"3": "x/a\nx/b\n"}, files(t, dir))
	must.NoError(t, pytorch.Remove(b))
	must.NoError(t, horovod.Remove(a))
	must.MapEmpty(t, files(t, dir))
}

// Readers see whole lines at any time.
func TestMap_Atomic(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	var writers sync.WaitGroup
	for i := range 4 {
		u := Use{Namespace: "x", Job: strings.Repeat(strconv.Itoa(i), 100), GPUs: []int{0}, Shared: true}
		writers.Go(func() {
			for range 50 {
				if err := m.Add(u); err != nil {
					t.Error(err)
				}
				if err := m.Remove(u); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { writers.Wait(); close(ended) }()
	line := regexp.MustCompile(`^x/(0{100}|1{100}|2{100}|3{100})$`)
	for reading := true; reading; {
		select {
		case <-ended:
			reading = false
		default:
		}
		text, err := os.ReadFile(filepath.Join(dir, "0"))
		if err != nil {
			continue // no job at this moment
		}
		for l := range strings.Lines(string(text)) {
			must.RegexMatch(t, line, strings.TrimSuffix(l, "\n"))
		}
	}
	must.MapEmpty(t, files(t, dir))
}

// The label ends where the line ends, whatever a user writes into a job's ID.
func TestLine(t *testing.T) {
	for job, want := range map[string]string{
		"train":                          "a/train",
		"train/dispatch-1700000000-abcd": "a/train/dispatch-1700000000-abcd",
		"x\"} 1\nfake{job=\"y":           "a/x___1_fake_job__y~",
		"é":                              "a/_~",
		"../../etc/passwd":               "a/../../etc/passwd", // it is a line, not a path
		strings.Repeat("x", 1000):        "a/" + strings.Repeat("x", longest-2-9) + "~",
	} {
		got := Line("a", job)
		if strings.HasSuffix(want, "~") {
			must.RegexMatch(t, regexp.MustCompile("~[0-9a-f]{8}$"), got)
			got = got[:len(got)-8]
		}
		must.Eq(t, want, got)
	}
	must.NotEq(t, Line("a", "x y"), Line("a", "x_y"))
	must.NotEq(t, Line("a", "x y"), Line("a", "x\ty"))
}

func TestMap_Bounds(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	must.ErrorContains(t, m.Add(Use{Namespace: "a", Job: "j", GPUs: []int{-1, mostGPUs, 1}}), "no GPU has the index -1")
	must.Eq(t, map[string]string{"1": "a/j\n"}, files(t, dir), must.Sprint("the others are written"))
	for i := range 2 * mostJobs {
		must.NoError(t, m.Add(Use{Namespace: "a", Job: strconv.Itoa(i), GPUs: []int{2}, Shared: true}))
	}
	must.Eq(t, mostJobs, strings.Count(files(t, dir)["2"], "\n"))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "3"), make([]byte, 1<<20), 0o600))
	must.NoError(t, m.Add(Use{Namespace: "a", Job: "j", GPUs: []int{3}, Shared: true}))
	must.Eq(t, "a/j\n", files(t, dir)["3"])

	t.Log("a symbolic link is replaced and not followed")
	target := filepath.Join(t.TempDir(), "target")
	must.NoError(t, os.WriteFile(target, []byte("kept"), 0o600))
	must.NoError(t, os.Symlink(target, filepath.Join(dir, "4")))
	must.NoError(t, os.Symlink(target, filepath.Join(dir, ".next")))
	must.NoError(t, m.Add(Use{Namespace: "a", Job: "j", GPUs: []int{4}}))
	must.Eq(t, "a/j\n", files(t, dir)["4"])
	text, err := os.ReadFile(target)
	must.NoError(t, err)
	must.Eq(t, "kept", string(text))
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Chmod(dir, 0o777))
	_, err := Open(dir)
	must.ErrorContains(t, err, "only its owner can write")
	file := filepath.Join(t.TempDir(), "file")
	must.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(file)
	must.Error(t, err)
}
