// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// copyTree copies a git repository in its current state, including uncommitted
// changes. The copy is a repository at the same commit, because go build writes
// that into programs.
func copyTree(ctx context.Context, from, to string) error {
	head, err := git(ctx, from, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	path, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	if _, err := git(ctx, from, "clone", "--quiet", "--shared", "--no-checkout", path, to); err != nil {
		return err
	}
	if _, err := git(ctx, to, "checkout", "--quiet", "--detach", strings.TrimSpace(head)); err != nil {
		return err
	}
	list, err := git(ctx, from, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyFile makes a file equal to another, or removes it if the other does not
// exist. Links and directories stay as they were checked out.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) {
		return os.RemoveAll(to)
	}
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// git returns the output of git.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := command(ctx, dir, "git", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(out), nil
}
