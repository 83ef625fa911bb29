// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobmap

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
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
	a := Use{Task: "1", Namespace: "default", Job: "a", GPUs: []int{0, 12}}
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
	must.NoError(t, m.Add(Use{Task: "2", Namespace: "default", Job: "b", GPUs: []int{12}}))
	must.NoError(t, m.Remove(a))
	must.Eq(t, map[string]string{"12": "default/b\n"}, files(t, dir))
}

// Three tasks of a job and one of another, of two drivers, use instances of one GPU.
func TestMap_Shared(t *testing.T) {
	dir := t.TempDir()
	horovod, pytorch := open(t, dir), open(t, dir)
	use := func(task, job string) Use {
		return Use{Task: task, Namespace: "x", Job: job, GPUs: []int{3}, Shared: true}
	}
	must.NoError(t, horovod.Add(use("1", "a")))
	must.NoError(t, pytorch.Add(use("2", "b")))
	must.NoError(t, horovod.Add(use("3", "a")))
	must.NoError(t, horovod.Add(use("3", "a")), must.Sprint("it is recovered"))
	must.NoError(t, pytorch.Add(use("4", "a")))
	both := map[string]string{"3": "x/a\nx/b\n"}
	must.Eq(t, both, files(t, dir))

	t.Log("a driver that was replaced recovers one task, and cannot recover the other")
	horovod = open(t, dir)
	must.NoError(t, horovod.Add(use("1", "a")))
	must.NoError(t, horovod.Remove(use("3", "a")))
	must.NoError(t, horovod.Remove(use("never added", "a")))
	must.Eq(t, map[string]string{"3": "x/b\nx/a\n"}, files(t, dir))

	t.Log("the other driver still has a task of the job")
	must.NoError(t, horovod.Remove(use("1", "a")))
	must.Eq(t, map[string]string{"3": "x/b\nx/a\n"}, files(t, dir))
	must.NoError(t, pytorch.Remove(use("4", "a")))
	must.Eq(t, map[string]string{"3": "x/b\n"}, files(t, dir))
	must.NoError(t, pytorch.Remove(use("2", "b")))
	must.MapEmpty(t, files(t, dir))
}

// A lock that is never released delays tasks, but only together.
func TestMap_Locked(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	unlock, err := open(t, dir).lock(time.Time{})
	must.NoError(t, err)
	var tasks sync.WaitGroup
	for i := range 50 {
		tasks.Go(func() {
			err := m.Add(Use{Task: strconv.Itoa(i), Namespace: "x", Job: "a", GPUs: []int{0}})
			if !errors.Is(err, unix.EWOULDBLOCK) {
				t.Error(err)
			}
		})
	}
	tasks.Wait()
	must.MapEmpty(t, files(t, dir))
	unlock()
	must.NoError(t, m.Add(Use{Task: "1", Namespace: "x", Job: "a", GPUs: []int{0}}))
	must.Eq(t, map[string]string{"0": "x/a\n"}, files(t, dir))
}

// Readers see whole lines at any time.
func TestMap_Atomic(t *testing.T) {
	dir := t.TempDir()
	m := open(t, dir)
	var writers sync.WaitGroup
	for i := range 4 {
		u := Use{Task: strconv.Itoa(i), Namespace: "x", Job: strings.Repeat(strconv.Itoa(i), 100), GPUs: []int{0}, Shared: true}
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
	for i := range 2 * mostTasks {
		must.NoError(t, m.Add(Use{Task: strconv.Itoa(i), Namespace: "a", Job: strconv.Itoa(i), GPUs: []int{2}, Shared: true}))
	}
	must.Eq(t, mostTasks, strings.Count(files(t, dir)["2"], "\n"))
	must.StrContains(t, files(t, dir)["2"], "a/127\n", must.Sprint("the newest are listed"))

	t.Log("files that no driver wrote count as empty, however long they are")
	endless := []string{filepath.Join(dir, "3"), filepath.Join(dir, ".3")}
	for _, name := range endless {
		must.NoError(t, os.WriteFile(name, nil, 0o600))
		must.NoError(t, os.Truncate(name, 1<<40))
	}
	must.NoError(t, m.Add(Use{Namespace: "a", Job: "j", GPUs: []int{3}, Shared: true}))
	must.Eq(t, "a/j\n", files(t, dir)["3"])

	t.Log("a symbolic link is replaced and not followed")
	const kept = `[{"Task":"1","Line":"kept"}]`
	target := filepath.Join(t.TempDir(), "target")
	must.NoError(t, os.WriteFile(target, []byte(kept), 0o600))
	for _, name := range []string{"4", ".4", ".next"} {
		must.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must.NoError(t, m.Add(Use{Namespace: "a", Job: "j", GPUs: []int{4}, Shared: true}))
	must.Eq(t, "a/j\n", files(t, dir)["4"])
	text, err := os.ReadFile(target)
	must.NoError(t, err)
	must.Eq(t, kept, string(text))
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

	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory of another user")
	}
	dir = t.TempDir()
	must.NoError(t, os.Chmod(dir, 0o755))
	must.NoError(t, os.Chown(dir, 12345, 12345))
	_, err = Open(dir)
	must.ErrorContains(t, err, "not to user 12345")
}
