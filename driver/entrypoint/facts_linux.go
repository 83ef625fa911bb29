// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/sandbox/remotecall"
	"github.com/kolo-nomad/kolo/driver/task/taskconfig"
	"github.com/kolo-nomad/kolo/driver/task/workerflags"
)

// environ returns the environment of this process.
func environ() map[string]string {
	env := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	return env
}

// reservation returns the variables by which Nomad's devices name reserved GPUs. An image
// may set NVIDIA_VISIBLE_DEVICES too, but it knows no UUIDs.
func reservation(env map[string]string) map[string]string {
	devices := map[string]string{}
	for name, value := range env {
		ids := strings.HasPrefix(value, "GPU-") || strings.HasPrefix(value, "MIG-")
		if strings.HasPrefix(name, "KOLO_GPUS_") || name == nvidiaVisible && ids {
			devices[name] = value
		}
	}
	return devices
}

const nvidiaVisible = "NVIDIA_VISIBLE_DEVICES"

// surroundings collects from this process what package taskconfig needs.
func surroundings(env map[string]string) (*taskconfig.Surroundings, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("the directory that it was started in: %w", err)
	}
	secrets := env["NOMAD_SECRETS_DIR"]
	return &taskconfig.Surroundings{
		Env: env, Devices: reservation(env), Dir: dir,
		Locate: func(path string) string {
			if filepath.IsAbs(path) {
				return filepath.Clean(path)
			}
			return filepath.Join(dir, path)
		},
		User: strconv.Itoa(os.Getuid()), Readable: readable, Executable: executable,
		Unreadable: `where the task's user is a name, which may have one number on the client and another in the image, set its number: user = "65534"`,
		Secrets:    secrets, SecretsOnClient: secrets,
		Exists:     func(path string) bool { _, err := os.Lstat(path); return err == nil },
		Interfaces: hostnet.Interfaces,
	}, nil
}

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return bare(err)
	}
	return f.Close()
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return bare(err)
	case info.IsDir():
		return unix.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}

// bare returns the error without the path, which messages already contain.
func bare(err error) error {
	if perr := (*os.PathError)(nil); errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// collect collects from this machine what check needs about a task. cuts is the result of
// mayCut.
func collect(o *workerflags.Flags, env map[string]string, t *taskconfig.Task, cuts error) *facts {
	c := &t.Agent
	f := &facts{
		framework: c.Framework, slots: c.Slots, maxNP: c.MaxNP, slotsGiven: o.Has("slots"), glooGiven: o.Has("gloo_timeout"), killGiven: o.Kill > 0,
		shm: sizeOf("/dev/shm"), cuts: cuts, root: os.Geteuid() == 0, visible: env[nvidiaVisible], gpus: t.GPUs, nodes: gpuNodes(),
	}
	f.name, _ = os.Hostname()
	label, service, err := taskconfig.ServiceAddress(env, c.Listen)
	if err == nil { // otherwise package taskconfig reports that there is no port
		f.label = label
		f.address, _, _ = net.SplitHostPort(service)
	}
	addresses, _ := net.InterfaceAddrs() // none if they can't be listed
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			f.addresses = append(f.addresses, n.IP.String())
		}
	}
	if f.address != "" && f.framework == "horovod" {
		f.resolved = hostnet.OwnAddresses()
		f.renames = hostnet.MayRename()
	}
	return f
}

// sizeOf returns the size of a file system in bytes, -1 if unknown.
func sizeOf(path string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return -1
	}
	return int64(st.Blocks) * st.Bsize
}

// noLimit is the smallest value that a cgroup of version 1 shows for an unset limit.
const noLimit = 1 << 60

// memoryLimit returns the memory limit, in bytes, of the topmost cgroup that this process
// sees, 0 if there is none. In a container that is the container's own.
func memoryLimit(cgroups string) int64 {
	for _, file := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(filepath.Join(cgroups, file))
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit < noLimit { // or "max"
			return limit
		}
	}
	return 0
}

// gpuNodes returns the number of GPUs with a device node here.
func gpuNodes() int {
	nodes, _ := filepath.Glob("/dev/nvidia[0-9]*") // the pattern is valid
	return len(nodes)
}

// mayCut returns nil if this process may cut connections of its child processes, as it does
// to end a ring that lost a member. The seccomp profile of a container, or Yama, may forbid
// that.
func mayCut() error {
	if err := mayTake(); err != nil {
		if callErr := remotecall.Possible(); callErr != nil {
			return fmt.Errorf("pidfd_getfd: %w, %w", err, callErr)
		}
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope") // empty without Yama
	if level := strings.TrimSpace(string(scope)); slices.Contains([]string{"2", "3"}, level) && (level == "3" || !ptraces()) {
		return yamaError(level)
	}
	return nil
}

// mayTake returns nil if this process may duplicate other processes' descriptors. It tries
// that on itself instead of a child process.
func mayTake() error {
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(pidfd) }()
	fd, err := unix.PidfdGetfd(pidfd, pidfd, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// ptraces reports whether this process has CAP_SYS_PTRACE.
func ptraces() bool {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && caps&(1<<unix.CAP_SYS_PTRACE) != 0
		}
	}
	return false
}
