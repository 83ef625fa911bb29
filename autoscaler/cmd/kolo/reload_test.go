// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// TestReloadOnChange_ReadsAgainWhatChangesMeanwhile changes the file after it was
// read and before the reload has ended.
func TestReloadOnChange_ReadsAgainWhatChangesMeanwhile(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
