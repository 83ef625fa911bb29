// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// outputs are a task's standard output and error, opened so that nothing can
// replace them. Nomad puts the pipes into a directory that the allocation's tasks
// may write to. The executor opens them by name, as root, and gives them to the
// task's user.
type outputs struct {
	stdout, stderr string
	fds            []int
}

// open finds both below the allocation's directory without following links. The
// names are valid until close.
func (o *outputs) open(allocDir, stdout, stderr string) error {
	for from, to := range map[string]*string{stdout: &o.stdout, stderr: &o.stderr} {
		*to = from
		if from == "" || from == os.DevNull {
			continue
		}
		fd, err := openBeneath(allocDir, from)
		if err != nil {
			return fmt.Errorf("output of the task: %s: %w", from, err)
		}
		o.fds = append(o.fds, fd)
		*to = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	}
	return nil
}

func (o *outputs) close() {
	for _, fd := range o.fds {
		_ = unix.Close(fd)
	}
}

// openBeneath opens a pipe or a regular file for a later open by its descriptor.
func openBeneath(dir, path string) (int, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return -1, fmt.Errorf("does not lie in the allocation's directory %s", dir)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(rel, "/") {
		if err != nil {
			return -1, err
		}
		parent := fd
		fd, err = unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(parent)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && (kind != unix.S_IFREG || st.Nlink != 1) {
		_ = unix.Close(fd)
		return -1, errors.New("is not a pipe: something has replaced it")
	}
	return fd, nil
}
