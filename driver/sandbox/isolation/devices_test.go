// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestCheckDevice(t *testing.T) {
	for pattern, want := range map[string]string{
		"/dev/infiniband/*":                       "",
		"/dev/infiniband/uverbs?":                 "",
		"/dev/gdrdrv":                             "",
		"/dev/nvidia-fs*":                         "",
		"/dev/nvidia-caps-imex-channels/channel*": "",
		"":                       "below /dev",
		"infiniband/*":           "below /dev",
		"/dev":                   "below /dev",
		"/dev/":                  "below /dev",
		"/etc/passwd":            "below /dev",
		"/dev/../etc/passwd":     "below /dev",
		"/dev/infiniband/../sda": "below /dev",
		"/dev//sda":              "below /dev",
		"/devices/x":             "below /dev",
		"/dev/*":                 "begin with a name",
		"/dev/?da":               "begin with a name",
		"/dev/[a-z]*":            "begin with a name",
		`/dev/\*`:                "begin with a name",
		"/dev/*/*":               "begin with a name",
		"/dev/infiniband/[":      "no pattern",
		"/dev/nvidia*":           "lists GPUs (/dev/nvidia0)",
		"/dev/nvidia[1-9]":       "lists GPUs (/dev/nvidia7)",
		"/dev/nvidia-caps/*":     "lists GPUs (/dev/nvidia-caps/nvidia-cap1)",
	} {
		err := CheckDevice(pattern)
		if want == "" {
			must.NoError(t, err, must.Sprint(pattern))
			continue
		}
		must.ErrorContains(t, err, want, must.Sprint(pattern))
	}
}

// TestDevicesOfThisMachine uses devices, links and directories that every machine has.
func TestDevicesOfThisMachine(t *testing.T) {
	paths, left := Devices("/", []string{"/dev/nul*", "/dev/zero", "/dev/null", "/dev/infiniband-of-no-one/*"})
	must.Eq(t, []string{"/dev/null", "/dev/zero"}, paths)
	must.SliceEmpty(t, left)

	paths, left = Devices("/", []string{"/dev/stdin", "/dev/fd/*", "/dev/shm"})
	must.SliceEmpty(t, paths, must.Sprint("links and directories"))
	must.SliceNotEmpty(t, left)
}

// A pattern makes only the listed devices available, and not the targets of links
// among them.
func TestDevicesAreThoseListed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "dev/infiniband")
	must.NoError(t, os.MkdirAll(dir, 0o755))
	must.NoError(t, os.MkdirAll(filepath.Join(root, "dev/secret"), 0o755))
	node := func(name string, kind uint32) {
		if err := syscall.Mknod(filepath.Join(root, "dev", name), kind|0o600, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("cannot make device nodes here: %v", err)
		}
	}
	node("infiniband/uverbs0", syscall.S_IFCHR)
	node("infiniband/disk", syscall.S_IFBLK)
	node("infiniband/pipe", syscall.S_IFIFO)
	node("secret/key0", syscall.S_IFCHR)
	node("nvidia12", syscall.S_IFCHR)
	must.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must.NoError(t, os.Mkdir(filepath.Join(dir, "by-path"), 0o755))
	must.NoError(t, os.Symlink("../secret/key0", filepath.Join(dir, "link")))
	must.NoError(t, os.Symlink("/dev/null", filepath.Join(dir, "elsewhere")))
	must.NoError(t, os.Symlink("gone", filepath.Join(dir, "dangling")))
	must.NoError(t, os.Symlink("secret", filepath.Join(root, "dev/alias")))

	paths, left := Devices(root, []string{"/dev/infiniband/*", "/dev/infiniband/uverbs0", "/dev/alias/*", "/dev/nvidia1*"})
	must.Eq(t, []string{"/dev/infiniband/uverbs0"}, paths)
	must.Len(t, 9, left, must.Sprint(strings.Join(left, "\n")))
	for _, what := range []string{
		"/dev/infiniband/link: is a link", "/dev/infiniband/elsewhere: is a link", "/dev/alias/key0: is a link",
		"/dev/infiniband/disk: is not a character device", "/dev/infiniband/pipe: is not", "/dev/infiniband/by-path: is not",
		"/dev/infiniband/file: is not", "/dev/nvidia12: is a GPU's",
	} {
		must.StrContains(t, strings.Join(left, "\n"), what)
	}
}
