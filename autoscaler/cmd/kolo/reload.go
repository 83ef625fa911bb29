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

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// reloadOnChange reloads on SIGHUP, and when the stamp of the files has changed and
// stayed so. The files are polled: notifications would have to follow each directory
// on the way of a symbolic link, and miss what another machine writes to a network
// file system.
func reloadOnChange(ctx context.Context, stamp func() string, reload func(why string)) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	before := stamp()
	changed := "" // the stamp that was another the last time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hup:
			before = stamp() // what changes meanwhile is read again
			reload("signal SIGHUP")
		case <-tick.C:
			switch now := stamp(); now {
			case before:
				changed = ""
			case changed: // it is no more being written
				before, changed = now, ""
				reload("the configuration, or a file that it names, changed on disk")
			default:
				changed = now
			}
		}
	}
}

// stamp is a text that changes when a file of the configuration at a path does,
// or one of more files. Symbolic links are followed.
func stamp(path string, more []string) string {
	var out strings.Builder
	files := more
	if path != "" {
		own, err := config.Files(path)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
		files = append(own, more...)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil {
			fmt.Fprintln(&out, err)
		} else {
			fmt.Fprintln(&out, f, info.ModTime().UnixNano(), info.Size())
		}
	}
	return out.String()
}
