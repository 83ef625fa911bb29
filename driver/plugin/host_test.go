// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

// gpuHost is the file system of a host with three GPUs whose minor numbers do
// not follow the order of their bus ids, one of them cut into MIG instances.
func gpuHost() fstest.MapFS {
	info := func(uuid, minor string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Model: \t\t NVIDIA H200\nIRQ:   \t\t 101\nGPU UUID: \t " + uuid +
			"\nVideo BIOS: \t 96.00\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n")}
	}
	return fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:18:00.0/information": info("GPU-a", "2"),
		"proc/driver/nvidia/gpus/0000:2a:00.0/information": info("GPU-b", "0"),
		"proc/driver/nvidia/gpus/0000:3b:00.0/information": info("GPU-c", "1"),
		"dev/nvidia0": {}, "dev/nvidia1": {}, "dev/nvidia2": {},
		"dev/nvidiactl": {}, "dev/nvidia-uvm": {}, "dev/nvidia-caps/nvidia-cap1": {}, "dev/null": {},
	}
}

func TestGPUNodes(t *testing.T) {
	cases := map[string]struct {
		gpus, nodes, unknown []string
		given                []string
	}{
		"none": {},
		"by their minor numbers": {
			[]string{"GPU-a", "GPU-c"}, []string{"/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidiactl"}, nil, nil,
		},
		"MIG instance whose nodes the device plugin has named": {
			[]string{"MIG-x"}, []string{"/dev/nvidia-uvm", "/dev/nvidiactl"}, nil,
			[]string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1"},
		},
		"MIG instance": {[]string{"GPU-b", "MIG-x"}, nil, []string{"MIG-x"}, []string{"/dev/nvidiactl"}},
		"GPU of no host beside one whose nodes are named": {[]string{"MIG-x", "GPU-y"}, nil, []string{"MIG-x", "GPU-y"}, []string{"/dev/nvidia0"}},
		"GPUs whose nodes the device plugin has named": {
			[]string{"GPU-y", "GPU-z"}, []string{"/dev/nvidia-uvm", "/dev/nvidiactl"}, nil, []string{"/dev/nvidia4", "/dev/nvidia5"},
		},
		"one of two device blocks whose plugin names no nodes": {[]string{"GPU-y", "GPU-z"}, nil, []string{"GPU-y", "GPU-z"}, []string{"/dev/nvidia4"}},
		"a node that is another's":                             {[]string{"GPU-a", "GPU-y"}, nil, []string{"GPU-y"}, []string{"/dev/nvidia2"}},
		"GPU of no host":                                       {[]string{"GPU-b", "GPU-y"}, nil, []string{"GPU-y"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var given []*drivers.DeviceConfig
			for _, path := range c.given {
				given = append(given, &drivers.DeviceConfig{HostPath: path})
			}
			nodes, unknown := gpuNodes(gpuHost(), c.gpus, given)
			must.Eq(t, c.nodes, nodes)
			must.Eq(t, c.unknown, unknown)
		})
	}
}

func TestMergeDevices(t *testing.T) {
	given := []*drivers.DeviceConfig{{TaskPath: "/dev/nvidia0", HostPath: "/dev/nvidia0", Permissions: "r"}}
	got := mergeDevices(given, []string{"/dev/nvidia0", "/dev/nvidiactl"})
	must.Eq(t, []*drivers.DeviceConfig{
		{TaskPath: "/dev/nvidia0", HostPath: "/dev/nvidia0", Permissions: "r"},
		{TaskPath: "/dev/nvidiactl", HostPath: "/dev/nvidiactl", Permissions: "rwm"},
	}, got)
}

func TestHostsFile(t *testing.T) {
	host := "127.0.0.1 localhost vm\n# 127.0.1.1 vm\n127.0.1.1 vm\n::1 localhost"
	must.Eq(t, "10.0.0.7 vm\n127.0.0.1 localhost\n# 127.0.1.1 vm\n::1 localhost\n", string(hostsFile(host, "vm", "10.0.0.7")))
}

func TestResolvConf(t *testing.T) {
	const host = "# a comment\nnameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch corp\noptions ndots:1\n"
	cases := map[string]struct {
		dns  drivers.DNSConfig
		want string
	}{
		"all of the job":     {drivers.DNSConfig{Servers: []string{"1.1.1.1", "8.8.8.8"}, Searches: []string{"a", "b"}, Options: []string{"rotate"}}, "nameserver 1.1.1.1\nnameserver 8.8.8.8\nsearch a b\noptions rotate\n"},
		"servers of the job": {drivers.DNSConfig{Servers: []string{"1.1.1.1"}}, "nameserver 1.1.1.1\nsearch corp\noptions ndots:1\n"},
		"search of the job":  {drivers.DNSConfig{Searches: []string{"a"}}, "nameserver 10.0.0.1\nnameserver 10.0.0.2\nsearch a\noptions ndots:1\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, c.want, string(resolvConf(&c.dns, host)))
		})
	}
}

// TestAgentFilesAreNotWrittenThroughLinks is about a task that, before its
// restart, leaves links where the driver will write as root.
func TestAgentFilesAreNotWrittenThroughLinks(t *testing.T) {
	self := account{uid: os.Geteuid(), gid: os.Getegid()}
	outside := filepath.Join(t.TempDir(), "passwd")
	must.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
	task := func() string {
		dir := t.TempDir()
		must.NoError(t, os.MkdirAll(filepath.Join(dir, "secrets"), 0o755))
		must.NoError(t, os.MkdirAll(filepath.Join(dir, agentDir), 0o755))
		return dir
	}

	dir := task()
	for _, path := range []string{configPath, eventPath} {
		must.NoError(t, os.Symlink(outside, filepath.Join(dir, path)))
	}
	must.NoError(t, writeAgentFiles(&plan{}, dir, dir, self))
	for _, path := range []string{configPath, eventPath} {
		fi, err := os.Lstat(filepath.Join(dir, path))
		must.NoError(t, err)
		must.True(t, fi.Mode().IsRegular(), must.Sprint(path))
	}

	dir = task()
	must.NoError(t, os.Remove(filepath.Join(dir, agentDir)))
	must.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, agentDir)))
	must.Error(t, writeAgentFiles(&plan{}, dir, dir, self))

	left, err := os.ReadDir(filepath.Dir(outside))
	must.NoError(t, err)
	must.Len(t, 1, left)
	data, err := os.ReadFile(outside)
	must.NoError(t, err)
	must.Eq(t, "precious", string(data))
}

func TestTokensGoToFiles(t *testing.T) {
	self := account{uid: os.Geteuid(), gid: os.Getegid()}
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "secrets"), 0o755))
	path := filepath.Join(dir, "secrets/kolo_nomad_token")
	must.NoError(t, writeAgentFiles(&plan{tokens: map[string]string{path: "ey"}}, dir, "/", self))
	fi, err := os.Stat(path)
	must.NoError(t, err)
	must.Eq(t, fs.FileMode(0o600), fi.Mode().Perm())
}

// TestAccessIsThatOfTheUser needs root to look with another user's eyes.
func TestAccessIsThatOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	nobody, err := lookupAccount("nobody")
	must.NoError(t, err)
	dir := t.TempDir()
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		must.NoError(t, os.Chmod(p, 0o755))
	}
	must.NoError(t, os.Mkdir(filepath.Join(dir, "closed"), 0o700))
	must.NoError(t, os.Mkdir(filepath.Join(dir, "closed/below"), 0o755))
	for name, mode := range map[string]fs.FileMode{"open": 0o644, "mine": 0o600, "program": 0o755, "closed/open": 0o755, "closed/mine": 0o600, "closed/below/open": 0o644} {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		must.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	at := func(rel string) place { return place{"/", filepath.Join(dir, rel)[1:]} }
	must.NoError(t, nobody.readable(at("open")))
	must.ErrorIs(t, nobody.readable(at("mine")), fs.ErrPermission)
	must.ErrorIs(t, nobody.readable(at("closed/open")), fs.ErrPermission)
	must.ErrorIs(t, nobody.readable(at("missing")), fs.ErrNotExist)
	must.NoError(t, nobody.readable(place{filepath.Join(dir, "closed/below"), "open"}), must.Sprint("bound elsewhere, the directory above does not matter"))
	must.NoError(t, nobody.readable(place{filepath.Join(dir, "closed/open"), "."}), must.Sprint("a bound file"))
	must.ErrorIs(t, nobody.readable(place{filepath.Join(dir, "closed/mine"), "."}), fs.ErrPermission)
	must.NoError(t, nobody.executable(place{filepath.Join(dir, "closed/open"), "."}))
	must.NoError(t, nobody.executable(at("program")))
	must.ErrorIs(t, nobody.executable(at("open")), syscall.EACCES)
	must.ErrorIs(t, nobody.executable(at("closed/open")), syscall.EACCES)
	must.ErrorIs(t, nobody.executable(at(".")), syscall.EISDIR)
	// What a link leads to is not shown to those who may not look there.
	for name, target := range map[string]string{"to file": "closed/open", "to nothing": "closed/missing", "to directory": "closed/below"} {
		must.NoError(t, os.Symlink(filepath.Join(dir, target), filepath.Join(dir, name)))
		must.ErrorIs(t, nobody.executable(at(name)), syscall.EACCES, must.Sprint(name))
	}

	// None of it must stick to this process.
	must.NoError(t, os.WriteFile(filepath.Join(dir, "closed/own"), nil, 0o600))
	must.Eq(t, 0, os.Geteuid())
}

func TestUnknownUser(t *testing.T) {
	_, err := lookupAccount("no-such-user-" + strconv.Itoa(os.Getpid()))
	must.ErrorContains(t, err, "user = ")
}

func TestUsersWithRootsRights(t *testing.T) {
	cases := map[string]struct {
		who     account
		refused string
	}{
		"ordinary":         {account{name: "alice", uid: 1000, gid: 1000, groups: []int{1000, 27}}, ""},
		"root":             {account{name: "root"}, "has uid 0"},
		"a second name":    {account{name: "toor", gid: 1000, groups: []int{1000}}, `user = "toor": has uid 0`},
		"primary group":    {account{name: "operator", uid: 11}, "gid 0"},
		"member of groups": {account{name: "alice", uid: 1000, gid: 1000, groups: []int{1000, 0}}, "gid 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.who.checkRoot()
			if c.refused == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, c.refused)
			must.ErrorContains(t, err, "allow_root = true")
		})
	}
}

func TestUsersByNumber(t *testing.T) {
	root, err := lookupAccount("0")
	must.NoError(t, err)
	must.Eq(t, 0, root.uid)
	must.Eq(t, "root", root.name)
	_, err = lookupAccount("root:video")
	must.ErrorContains(t, err, "name the user alone")
	_, err = lookupAccount("4294967294")
	must.ErrorContains(t, err, `user = "4294967294"`)
}

func TestPluginConfig(t *testing.T) {
	c := Config{BindPaths: []string{"/", "usr", "/data/"}, FingerprintPeriod: "1s", FingerprintTimeout: "long", ExecutorLogLevel: "loud"}
	var bad *ConfigError
	must.True(t, errors.As(c.complete(), &bad))
	must.Eq(t, []string{
		`executor_log_level = "loud": must be "trace", "debug", "info", "warn", "error" or "off"`,
		`bind_paths[0] = "/": must be an absolute path below /`,
		`bind_paths[1] = "usr": must be an absolute path below /`,
		`fingerprint_period = "1s": must be at least 10s`,
		`fingerprint_timeout = "long": not a duration; write it like "90s" or "10m"`,
	}, bad.Problems)
	good := Config{}
	must.NoError(t, good.complete())
	must.Eq(t, "python3", good.Python)
	must.Eq(t, defaultBindPaths, good.BindPaths)

	// What is configured comes on top; to name a default again changes nothing.
	more := Config{BindPaths: []string{"/usr/", "/srv/venv/"}, ExecutorLogLevel: "off"}
	must.NoError(t, more.complete())
	must.Eq(t, append(slices.Clone(defaultBindPaths), "/srv/venv"), more.BindPaths)
}

func TestSetConfigNamesThePlugin(t *testing.T) {
	h := newHarness(t, noIsolation())
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, &Config{DeniedHostUids: "9-1"}))
	must.ErrorContains(t, h.SetConfig(&base.Config{PluginConfig: data}), "denied_host_uids")
}
