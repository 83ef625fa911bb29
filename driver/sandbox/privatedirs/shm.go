// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package privatedirs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// shmRoot is the client's shared memory, where every user may create files.
const shmRoot = "/dev/shm"

// shmPrefix begins the name of the directory in shmRoot. shmName is the file in the
// private directory that records the rest of the name.
const (
	shmPrefix = "kolo-"
	shmName   = "shm"
)

// shmDir returns the directory for the shared memory of this client's tasks, where
// no other user may create files. Its name is random, because another user could
// create a predictable one first. Its entries are kept until their allocation is
// gone.
func (d Dirs) shmDir() (string, error) {
	// The client's other drivers use the same note.
	private, err := os.Open(filepath.Dir(d.shmNote()))
	if err != nil {
		return "", err
	}
	defer func() { _ = private.Close() }()
	if err := unix.Flock(int(private.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", private.Name(), err)
	}
	if dir := d.ownShmDir(); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp(shmRoot, shmPrefix)
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(d.shmNote(), []byte(filepath.Base(dir)), 0o600)
}

func (d Dirs) shmNote() string { return filepath.Join(d.allocs, privateName, shmName) }

// ownShmDir returns the directory that was made before, empty if there is none.
// After a reboot of the client it makes the directory again, unless another user,
// who can know the name by then, has created it.
func (d Dirs) ownShmDir() string {
	name, err := os.ReadFile(d.shmNote())
	if err != nil || !strings.HasPrefix(string(name), shmPrefix) || strings.Contains(string(name), "/") {
		return ""
	}
	dir := filepath.Join(shmRoot, string(name))
	if makeOwn(dir) != nil {
		return ""
	}
	return dir
}

// MakeShm makes the directory that an isolated task sees as /dev/shm, for the given
// user. It lies in the client's /dev/shm, so it is in memory and has no limit of
// its own. Its content counts as the task's memory.
func (d Dirs) MakeShm(uid, gid int) (string, error) {
	all, err := d.shmDir()
	dir := filepath.Join(all, filepath.Base(filepath.Dir(d.Root)), filepath.Base(d.Root))
	if err == nil {
		err = os.RemoveAll(dir) // from an earlier run
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.Lchown(dir, uid, gid)
	}
	if err != nil {
		return "", fmt.Errorf("shared memory of the task: %w", err)
	}
	return dir, nil
}
