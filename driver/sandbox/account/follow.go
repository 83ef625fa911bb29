// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package account

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the number of links that the kernel follows at most.
const maxLinks = 40

// Follow resolves the links of a task's absolute path as the kernel will for the task, and
// returns the resulting path. locate returns where a path lies on the client. It returns
// given for mount points and the directories above them: every user of the task can enter
// these. link is an account's Link.
//
// The error is a *fs.PathError. Its operation is "enter" with the first directory on the
// way that the account cannot enter, or "open" with the missing path.
func Follow(path string, locate func(path string) (at Path, given bool), link func(Path) (target string, err error)) (end string, err error) {
	end = "/"
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(end, name)
		at, given := locate(next)
		if name == ".." || next == end || given {
			end = next
			continue
		}
		target, err := link(at)
		whole := filepath.Join(append([]string{next}, rest...)...)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return whole, &fs.PathError{Op: "enter", Path: end, Err: unix.EACCES}
		case err != nil:
			return whole, &fs.PathError{Op: "open", Path: whole, Err: err}
		case target == "":
			end = next
		case links == maxLinks:
			return whole, &fs.PathError{Op: "open", Path: whole, Err: unix.ELOOP}
		default:
			links++
			if filepath.IsAbs(target) {
				end = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		}
	}
	return end, nil
}

// Link returns the target of a link, "" for a file that is not a link. It follows links in
// the path's directories.
func (a Account) Link(file Path) (target string, err error) {
	err = a.below(file, func(base int) error {
		buffer := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(base, file.Rel, buffer)
		if errors.Is(err, unix.EINVAL) {
			return nil
		}
		if err == nil {
			target = string(buffer[:n])
		}
		return err
	})
	return target, err
}
