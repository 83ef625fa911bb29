// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// reloadOnChange reloads on SIGHUP, and when the stamp of the files changed.
func reloadOnChange(ctx context.Context, stamp func() string, reload func(why string)) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	before := stamp()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hup:
			before = stamp() // what changes meanwhile is read again
			reload("signal SIGHUP")
		case <-tick.C:
			if now := stamp(); now != before {
				before = now
				reload("the configuration, or a file that it names, changed on disk")
			}
		}
	}
}

// stamp is a text that changes when a file or the *.hcl files of a directory
// do, or one of more files.
func stamp(path string, more []string) string {
	var out strings.Builder
	note := func(i os.FileInfo) { fmt.Fprintln(&out, i.Name(), i.ModTime().UnixNano(), i.Size()) }
	for _, f := range more {
		if i, err := os.Stat(f); err == nil {
			note(i)
		}
	}
	if path == "" {
		return out.String()
	}
	info, err := os.Stat(path)
	if err != nil {
		return out.String() + err.Error()
	}
	note(info)
	if !info.IsDir() {
		return out.String()
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return out.String() + err.Error()
	}
	for _, e := range entries {
		if i, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".hcl") {
			note(i)
		}
	}
	return out.String()
}
