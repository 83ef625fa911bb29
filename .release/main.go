// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command release does the parts of a release of Kolo that GoReleaser cannot:
//
//	release stamp [-tagged]             prints version, commit and dates for .goreleaser.yaml
//	release stage <directory>           writes manual pages and licences, for archives and packages
//	release extras <directory> <dist>   writes images and the bill of materials, from built programs
//
// The command is a separate Go module, so that Kolo's programs do not depend on the
// packages that it imports.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	dir, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	c := checkout{dir}
	s, err := c.stamp(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(args) > 0 && args[0] == "stamp":
		if slices.Contains(args, "-tagged") && strings.Contains(string(s.version), "dev.") {
			return fmt.Errorf("%s is no release: check a tag out, named v1.2.3, and leave nothing uncommitted", s.version)
		}
		fmt.Printf("KOLO_VERSION=%s KOLO_COMMIT=%s KOLO_DATE=%s SOURCE_DATE_EPOCH=%d\n", s.version, s.commit, s.date(), s.at.Unix())
		return nil
	case len(args) == 2 && args[0] == "stage":
		return stage(ctx, c, s, args[1])
	case len(args) == 3 && args[0] == "extras":
		return extras(s, args[1], args[2])
	default:
		return errors.New("usage: release stamp [-tagged] | stage <directory> | extras <directory> <dist>")
	}
}

func say(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }
