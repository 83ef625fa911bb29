// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"syscall"
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestParseMemlock(t *testing.T) {
	for text, want := range map[string]uint64{
		"": 0, "unlimited": unix.RLIM_INFINITY, "64KiB": 64 << 10, "512MiB": 512 << 20, "64 GiB": 64 << 30,
	} {
		got, err := parseMemlock(text)
		must.NoError(t, err)
		must.Eq(t, want, got, must.Sprint(text))
	}
	for _, text := range []string{"0GiB", "64", "64GB", "-1GiB", "1.5GiB", "GiB", "99999999999GiB", "infinity"} {
		_, err := parseMemlock(text)
		must.ErrorContains(t, err, `must be "unlimited"`, must.Sprint(text))
	}
}

// An isolated task can open the devices that the client lists, and lock as much memory as
// the client allows. No other device has a node, and a node that the job creates itself
// does not work.
func TestIsolatedTaskHasTheListedDevices(t *testing.T) {
	isolated(t)
	must.NoError(t, os.MkdirAll("/dev/kolo-test", 0o755))
	t.Cleanup(func() { _ = os.RemoveAll("/dev/kolo-test") })
	for _, node := range []string{"/dev/kolo-test/uverbs0", "/dev/kolo-test/other"} {
		if err := syscall.Mknod(node, syscall.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("cannot make device nodes here: %v", err)
		}
		must.NoError(t, os.Chmod(node, 0o666))
	}
	must.NoError(t, os.Symlink("other", "/dev/kolo-test/uverbs1"))
	config := noIsolation()
	// Less than a process has by default: not every root may raise it.
	config.Devices, config.Memlock = []string{"/dev/kolo-test/uverbs*"}, "48KiB"
	c := newTaskConfig(t, isolationExec, `
		ls /dev/kolo-test
		: > /dev/kolo-test/uverbs0 && echo opened
		mknod /tmp/other c 1 3 2>/dev/null && echo made a node
		ulimit -l; ulimit -H -l`)
	must.Eq(t, "uverbs0\nopened\n48\n48\n", ran(t, config, c))

	c = newTaskConfig(t, isolationExec, `ls /dev/kolo-test 2>/dev/null; true`)
	must.Eq(t, "", ran(t, noIsolation(), c), must.Sprint("nothing is listed"))
}
