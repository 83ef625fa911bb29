// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// directory creates the directory of a socket if it is missing. It refuses a
// directory in which another user could replace the socket.
func directory(dir string, g Gate) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case err == nil && g.Group != nil:
		if err := grantGroup(dir, g, 0o750); err != nil {
			return err
		}
	case err != nil && !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w; make the directory, or name another path", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is %s, not a directory; name another path", dir, fileType(info))
	}
	return trusted(dir, g.UID)
}

// trusted refuses a directory that a user other than root and uid could change,
// directly or through a parent directory. A sticky parent is safe: only the owner
// of an entry can rename it.
func trusted(dir string, uid int) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if by := owner(info); by != 0 && by != uid {
			return fmt.Errorf("%s belongs to uid %d, which could replace the socket; name a path below a directory of your own", at, by)
		}
		others := info.Mode().Perm()&0o022 != 0
		if others && (at == real || info.Mode()&fs.ModeSticky == 0) {
			return fmt.Errorf("%s can be written by other users (%s), who could replace the socket; chmod go-w it, or name a path in a directory of its own", at, info.Mode())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func grantGroup(path string, g Gate, mode os.FileMode) error {
	gid, err := strconv.Atoi(g.Group.Gid)
	if err != nil {
		return fmt.Errorf("group %s: %w", g.Group.Name, err)
	}
	if err := os.Lchown(path, -1, gid); err != nil {
		return fmt.Errorf("%w; the autoscaler's user must be in the group %s", err, g.Group.Name)
	}
	return os.Chmod(path, mode)
}

func fileType(info os.FileInfo) string {
	text, ok := map[fs.FileMode]string{
		fs.ModeSymlink: "a symbolic link", fs.ModeDir: "a directory", fs.ModeSocket: "a socket", 0: "a file",
	}[info.Mode().Type()]
	if !ok {
		return "a special file"
	}
	return text
}
