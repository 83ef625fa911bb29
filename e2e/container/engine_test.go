// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// An engine runs containers for a task driver of Nomad.
type engine struct {
	// driver is the task driver's name.
	driver string
	// missing is the name of a missing command, empty if none is missing. install states
	// what to do about it.
	missing func(root string) string
	install string
	// options are what the cluster needs for the driver.
	options func(root string, o *cluster.Options)
	// start starts the engine of a node.
	start func(ctx context.Context, n *cluster.Node, registry string) error
	// command is the engine's command line for a node.
	command func(n *cluster.Node) []string
	// clientHCL is added to the client block of the nodes.
	clientHCL string
	// config is the part of a task's config that drivers write in different ways.
	config map[string]any
}

// noProxy keeps the engines' requests to the registry on this machine.
const noProxy = "10.213.0.0/16,127.0.0.1,localhost"

var podman = engine{
	driver: "podman",
	missing: func(root string) string {
		return firstMissing("podman", "runc", filepath.Join(root, "bin", "nomad-driver-podman"))
	},
	install: "make podman",
	options: func(root string, o *cluster.Options) {
		o.Plugins[filepath.Join(root, "bin", "nomad-driver-podman")] = `socket_path = "unix://@NODE@/podman/socket"`
	},
	start: startPodman,
	command: func(n *cluster.Node) []string {
		return []string{"podman", "--remote", "--url=unix://" + filepath.Join(n.Dir(), "podman", "socket")}
	},
	config: map[string]any{"shm_size": "256m", "readonly_rootfs": true},
}

// containersConf is what podman needs on a machine without systemd's cgroups, and
// without the right to raise limits.
const containersConf = `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file" # the other kind is one for the whole machine

[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
`

func startPodman(ctx context.Context, n *cluster.Node, registry string) error {
	dir := filepath.Join(n.Dir(), "podman")
	files := map[string]string{
		"containers.conf": containersConf,
		"registries.conf": fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", registry),
		"policy.json":     `{"default": [{"type": "insecureAcceptAnything"}]}`,
	}
	if err := writeFiles(dir, files); err != nil {
		return err
	}
	env := []string{
		"CONTAINERS_CONF=" + filepath.Join(dir, "containers.conf"),
		"CONTAINERS_REGISTRIES_CONF=" + filepath.Join(dir, "registries.conf"),
		"NO_PROXY=" + noProxy, "no_proxy=" + noProxy,
	}
	err := n.Service("podman", env, "podman", "--root", filepath.Join(dir, "store"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp"),
		"system", "service", "--time=0", "unix://"+filepath.Join(dir, "socket"))
	if err != nil {
		return err
	}
	return waitFile(ctx, filepath.Join(dir, "socket"))
}

var docker = engine{
	driver:  "docker",
	missing: func(string) string { return firstMissing("docker", "dockerd", "containerd", "runc") },
	install: "make podman",
	options: func(_ string, o *cluster.Options) {
		o.Plugins["docker"] = `endpoint = "unix://@NODE@/docker/socket"
    infra_image_pull_timeout = "1m"`
	},
	start: startDocker,
	command: func(n *cluster.Node) []string {
		return []string{"docker", "--host=unix://" + filepath.Join(n.Dir(), "docker", "socket")}
	},
	config: map[string]any{"shm_size": 256 << 20, "readonly_rootfs": true},
}

// startDocker starts a daemon that leaves the machine's network alone.
func startDocker(ctx context.Context, n *cluster.Node, registry string) error {
	dir := filepath.Join(n.Dir(), "docker")
	if err := writeFiles(dir, map[string]string{"daemon.json": "{}"}); err != nil {
		return err
	}
	env := []string{"NO_PROXY=" + noProxy, "no_proxy=" + noProxy}
	err := n.Service("dockerd", env, "dockerd", "--data-root="+filepath.Join(dir, "data"), "--exec-root="+filepath.Join(dir, "run"),
		"--pidfile="+filepath.Join(dir, "pid"), "--host=unix://"+filepath.Join(dir, "socket"), "--insecure-registry="+registry,
		"--iptables=false", "--ip6tables=false", "--bridge=none", "--exec-opt=native.cgroupdriver=cgroupfs", "--config-file="+filepath.Join(dir, "daemon.json"))
	if err != nil {
		return err
	}
	return waitFile(ctx, filepath.Join(dir, "socket"))
}

// run runs the engine's command on a node.
func (e engine) run(ctx context.Context, n *cluster.Node, args ...string) error {
	all := append(e.command(n), args...)
	out, err := exec.CommandContext(ctx, all[0], all[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(all, " "), err, out)
	}
	return nil
}

// firstMissing returns the first of the commands that can't be run, empty if there is none.
func firstMissing(commands ...string) string {
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			return c
		}
	}
	return ""
}

func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func waitFile(ctx context.Context, path string) error {
	return cluster.Until(ctx, path, func(context.Context) error {
		_, err := os.Stat(path)
		return err
	})
}

// startCluster starts two nodes with the engine, and a registry. It skips the test
// where that can't be.
func (e engine) startCluster(ctx context.Context, t testing.TB) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces and containers")
	}
	if what := e.missing(root(t)); what != "" {
		t.Skipf("needs %s: %s", what, e.install)
	}
	return e.startWorld(ctx, t)
}
