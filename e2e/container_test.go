// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// containersConf is what podman needs on a machine without systemd's cgroups.
const containersConf = `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"

[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
`

// podman is podman's command line with files of its own, and its environment.
func podman(t testing.TB) (command []string, env map[string]string) {
	t.Helper()
	program, err := exec.LookPath("podman")
	_, noRuntime := exec.LookPath("runc")
	if err != nil || noRuntime != nil || os.Geteuid() != 0 {
		t.Skip("needs podman, and root: apt-get install --no-install-recommends podman runc")
	}
	dir, err := os.MkdirTemp("", "kolo-podman-")
	must.NoError(t, err)
	config := filepath.Join(dir, "containers.conf")
	must.NoError(t, os.WriteFile(config, []byte(containersConf), 0o644))
	command = []string{program, "--root", filepath.Join(dir, "store"), "--runroot", filepath.Join(dir, "run")}
	t.Cleanup(func() {
		remove := exec.Command(command[0], append(command[1:], "rm", "--force", "--all")...)
		remove.Env = append(os.Environ(), "CONTAINERS_CONF="+config)
		_ = remove.Run()
		must.NoError(t, os.RemoveAll(dir))
	})
	return command, map[string]string{"CONTAINERS_CONF": config}
}

// Kolo-worker as the program of containers, as another user than root and without any
// capability: with podman's default seccomp profile, its own name and its own /dev/shm.
// Podman is started by raw_exec, which needs no plugin; its process namespace is the
// host's, because the record names processes by their numbers.
func TestContainer(t *testing.T) {
	ctx := testContext(t, 10*time.Minute)
	rootfs, err := filepath.EvalSymlinks(filepath.Join(root(t), "bin", "torch", "root"))
	if err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	command, env := podman(t)
	c := startCluster(t, cluster.Options{Clients: 2, Env: env})
	inContainer := func(job *api.Job) {
		task := job.TaskGroups[0].Tasks[0]
		args := []any{
			"run", "--rm", "--name=${NOMAD_ALLOC_ID}", "--pid=host", "--user=65534", "--cap-drop=all",
			"--network=host", "--hostname=${NOMAD_IP_kolo}",
			"--env=NOMAD_*", "--env=NOMAD_SECRETS_DIR=/secrets", "--env=NOMAD_TASK_DIR=/local",
			"--env=PYTHONPATH=" + filepath.Join(root(t), "python"),
			"--volume=${NOMAD_SECRETS_DIR}:/secrets", "--volume=${NOMAD_TASK_DIR}:/local",
			"--volume=" + filepath.Join(root(t), "bin", "kolo-worker") + ":/kolo-worker:ro",
		}
		for _, dir := range []string{"python", filepath.Join("e2e", "train")} {
			args = append(args, "--volume="+filepath.Join(root(t), dir)+":"+filepath.Join(root(t), dir)+":ro")
		}
		training := filepath.Join(c.Dir, "training")
		must.NoError(t, os.Chmod(filepath.Join(training, *job.ID), 0o777))
		args = append(args, "--volume="+training+":"+training, "--rootfs", rootfs+":O", "/kolo-worker")
		for _, arg := range task.Config["args"].([]any) {
			if arg == filepath.Join(root(t), train.Torch.Python) {
				arg = "/usr/bin/python3"
			}
			args = append(args, arg)
		}
		task.Config = map[string]any{"command": command[0], "args": append(anys(command[1:]), args...)}
	}
	tr := startWorker(ctx, t, c, train.Torch, trainingOptions{edit: inContainer})
	tr.waitSize(ctx, 1)
	alloc := tr.allocOf(ctx, 0).ID
	waitStderr(ctx, t, c, alloc, "/dev/shm: has 6") // 62 to 64 MB
	tr.scale(ctx, 2)
	tr.waitSize(ctx, 2)
	killSlot(ctx, t, tr, 2)
	tr.scale(ctx, 1)
	tr.waitSize(ctx, 1)
	for _, z := range tr.record().Resizes() {
		t.Logf("%d→%d: gap %s", z.From, z.To, z.Gap().Round(time.Millisecond))
	}
	tr.finish(ctx)
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
