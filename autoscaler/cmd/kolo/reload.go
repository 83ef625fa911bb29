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
// is stable again. It polls the files. Notifications would have to follow every
// directory on the path of a symbolic link, and would miss changes made on a network
// file system by other machines.
func reloadOnChange(ctx context.Context, stamp func() string, reload func(why string)) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	before := stamp()
	changed := "" // the new stamp at the last tick
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hup:
			before = stamp() // later changes are read again
			reload("signal SIGHUP")
		case <-tick.C:
			switch now := stamp(); now {
			case before:
				changed = ""
			case changed: // writing has finished
				before, changed = now, ""
				reload("the configuration, or a file that it names, changed on disk")
			default:
				changed = now
			}
		}
	}
}

// stamp returns a text that changes with any file of the configuration at path, or
// any of the other files. It follows symbolic links.
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
