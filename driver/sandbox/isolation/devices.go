// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// gpuNode matches the device nodes of GPUs and of MIG instances. A task gets only those
// that it has reserved.
var gpuNode = regexp.MustCompile(`^/dev/(nvidia[0-9]+|nvidia-caps/.*)$`)

// CheckDevice returns nil if a pattern may list devices for isolated tasks. The pattern
// must be a path below /dev whose first element does not begin with a wildcard, so that no
// pattern matches all devices.
func CheckDevice(pattern string) error {
	rest, below := strings.CutPrefix(pattern, "/dev/")
	if !below || rest == "" || path.Clean(pattern) != pattern {
		return errors.New("must be a path below /dev, with no . or .. in it")
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("is no pattern: %w", err)
	}
	first, _, _ := strings.Cut(rest, "/")
	if i := strings.IndexAny(first, `*?[\`); i == 0 {
		return errors.New("must begin with a name after /dev/, as /dev/infiniband/* does")
	}
	for _, gpu := range []string{"/dev/nvidia0", "/dev/nvidia7", "/dev/nvidia-caps/nvidia-cap1"} {
		if matched, _ := path.Match(pattern, gpu); matched {
			return fmt.Errorf("lists GPUs (%s); tasks get those that they reserve with a device block", gpu)
		}
	}
	return nil
}

// Devices returns the character devices of this client that match the patterns, each once.
// left lists the matches that it leaves out, with the reason: a link may lead to a place
// that no pattern names, and a GPU must be reserved instead. root is prepended to /dev.
func Devices(root string, patterns []string) (paths, left []string) {
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", pattern, err)) // CheckDevice refuses such a pattern
		}
		for _, match := range matches {
			name := strings.TrimPrefix(match, strings.TrimSuffix(root, "/"))
			if err := checkNode(root, name); err != nil {
				left = append(left, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), left
}

// checkNode returns nil for a character device that is not a GPU and whose path has no
// link.
func checkNode(root, name string) error {
	if gpuNode.MatchString(name) {
		return errors.New("is a GPU's; tasks get those that they reserve")
	}
	full := filepath.Join(root, name)
	info, err := os.Lstat(full)
	if err != nil {
		return err
	}
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	switch target, err := filepath.EvalSymlinks(full); {
	case err != nil:
		return err
	case target != filepath.Join(base, name):
		return errors.New("is a link, or lies behind one")
	case info.Mode()&fs.ModeCharDevice == 0:
		return errors.New("is not a character device")
	}
	return nil
}
