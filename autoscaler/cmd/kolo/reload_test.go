// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoenig/test/must"
)

// TestReloadOnChange_ReadsAgainWhatChangesMeanwhile changes the file after it was read, and
// before the reload has ended.
func TestReloadOnChange_ReadsAgainWhatChangesMeanwhile(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	signalled := sync.OnceFunc(func() { must.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP)) })
	version := 0
	var why []string
	err := reloadOnChange(ctx, func() string {
		signalled() // it is listened for by now
		return strconv.Itoa(version)
	}, func(w string) {
		if why = append(why, w); len(why) == 2 {
			cancel()
		}
		version = 1
	})
	must.ErrorIs(t, err, context.Canceled)
	must.Eq(t, []string{"signal SIGHUP", "the configuration, or a file that it names, changed on disk"}, why)
}

// TestReloadOnChange_WaitsUntilItIsWritten has a file that changes for a while.
func TestReloadOnChange_WaitsUntilItIsWritten(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2) // the goroutine that serves signals is none of the bubble
	defer signal.Stop(signals)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stamps := []string{"old", "old", "half", "more", "more", "old", "more", "new"}
		looked := 0
		var at []string
		err := reloadOnChange(ctx, func() string {
			looked++
			return stamps[min(looked, len(stamps))-1]
		}, func(string) {
			at = append(at, stamps[min(looked, len(stamps))-1])
		})
		must.ErrorIs(t, err, context.DeadlineExceeded)
		must.Eq(t, []string{"more", "new"}, at)
	})
}

// Files change in the ways of Kubernetes and consul-template: a link to a directory is
// replaced, a file is renamed over another, or the target of a link is written again.
func TestStamp_FollowsLinks(t *testing.T) {
	dir, text := t.TempDir(), ""
	write := func(name string) {
		text += "# longer each time\n"
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "kolo.d"), 0o700))
	for _, version := range []string{"1", "2"} {
		must.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(version + "/a.hcl")
		write(version + "/key.pem")
	}
	write("elsewhere.hcl")
	link := func(to, name string) { must.NoError(t, os.Symlink(to, filepath.Join(dir, name))) }
	link("1", "data")
	link("../data/a.hcl", "kolo.d/a.hcl")
	link("../elsewhere.hcl", "kolo.d/b.hcl")

	now := func() string {
		return stamp(filepath.Join(dir, "kolo.d"), []string{filepath.Join(dir, "data", "key.pem")})
	}
	before := now()
	changed := func(want bool, what string) {
		t.Helper()
		after := now()
		must.Eq(t, want, after != before, must.Sprint(what))
		before = after
	}
	changed(false, "nothing")
	write("kolo.d/note.txt")
	changed(false, "a file that is not read")
	link("2", "new")
	must.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data")))
	changed(true, "a link to a directory")
	write("elsewhere.hcl")
	changed(true, "the file that a link of the directory points to")
	write("2/new.pem")
	must.NoError(t, os.Rename(filepath.Join(dir, "2", "new.pem"), filepath.Join(dir, "2", "key.pem")))
	changed(true, "a file of TLS")
	must.NoError(t, os.Remove(filepath.Join(dir, "2", "key.pem")))
	changed(true, "its removal")
	write("kolo.d/c.hcl")
	changed(true, "a file more")
	must.NoError(t, os.Remove(filepath.Join(dir, "kolo.d", "c.hcl")))
	changed(true, "a file less")
	must.StrNotContains(t, now(), "note.txt")
	must.Eq(t, "", stamp("", nil))
}
