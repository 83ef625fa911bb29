// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// errInUse is returned if another autoscaler serves the socket.
var errInUse = errors.New("another autoscaler serves this socket")

// longest is the length of the longest socket path that the system accepts, without
// the final NUL.
const longest = len(unix.RawSockaddrUnix{}.Path) - 1

// Listener accepts connections on a Unix socket. Close removes the socket.
type Listener struct {
	*net.UnixListener
	Gate Gate

	lock *os.File
	once sync.Once
}

// Listen serves a socket at path for this user, for root, and for group unless that
// is "". It removes the socket of an autoscaler that has ended; anything else at the
// path is an error.
func Listen(path, group string) (*Listener, error) {
	l, err := listen(path, group)
	if err != nil {
		return nil, fmt.Errorf("listening at the Unix socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path, group string) (_ *Listener, err error) {
	if len(path) > longest {
		return nil, fmt.Errorf("the path has %d bytes, and a socket's name may have %d; name a shorter one", len(path), longest)
	}
	g := Gate{UID: os.Getuid()}
	if group != "" {
		if g.Group, err = user.LookupGroup(group); err != nil {
			return nil, err
		}
	}
	if err := directory(filepath.Dir(path), g); err != nil {
		return nil, err
	}
	lock, err := acquire(path + ".lock")
	if err != nil {
		return nil, err
	}
	ul, err := bind(path, g)
	if err != nil {
		return nil, errors.Join(err, release(lock))
	}
	return &Listener{UnixListener: ul, Gate: g, lock: lock}, nil
}

// bind creates the socket. The lock must be held, so a socket that exists at the
// path belongs to a process that has ended.
func bind(path string, g Gate) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket || owner(info) != g.UID:
		return nil, fmt.Errorf("%s of uid %d is in its place; remove it, or name another path", fileType(info), owner(info))
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if g.Group != nil {
		err = grantGroup(path, g, 0o660)
	} else {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close ends the listener, removes the socket, and frees the path for another
// autoscaler.
func (l *Listener) Close() (err error) {
	l.once.Do(func() { err = errors.Join(l.UnixListener.Close(), release(l.lock)) })
	return err
}

// acquire locks a file until this process ends. If the previous owner removed the
// file between opening and locking, acquire tries again.
func acquire(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(errInUse, f.Close())
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Lstat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// release removes the file while it is still locked.
func release(f *os.File) error { return errors.Join(os.Remove(f.Name()), f.Close()) }
