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

// maxLinks is how many links the kernel follows.
const maxLinks = 40

// Follow follows the links of a task's absolute path as the task will, and returns the
// path that they lead to. locate returns where on the client a path lies, and given of
// mount points and the directories above them, which every user of the task can enter.
// link is an account's Link.
//
// The error is a *fs.PathError, of the operation "enter" with the first directory on the
// way that the account cannot enter, else of "open" with the path that is not there.
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

// Link returns what a link leads to, "" for a file that is none. The links of its
// directories are followed.
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
