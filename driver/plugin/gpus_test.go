// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	"github.com/kolo-nomad/kolo/driver/plugin/jobmap"
)

// TestJobsEnvironmentNamesNoDevices has a job that writes another job's GPU into
// its own env block.
func TestJobsEnvironmentNamesNoDevices(t *testing.T) {
	h := newHost()
	h.env["KOLO_GPUS_x"], h.env[nvidiaVisible] = "GPU-a", "GPU-b"
	pl, err := validate(taskdriver.Horovod{}, goodTask(), h.environment())
	must.NoError(t, err)
	must.SliceEmpty(t, pl.gpus)
	must.StrNotContains(t, strings.Join(pl.environment(h.env, "/c"), " "), "GPU-")
}

// TestIsolatedTaskHasItsGPUsAlone has device nodes of two GPUs on the host, one
// of them another tenant's, which the job names in its own environment.
func TestIsolatedTaskHasItsGPUsAlone(t *testing.T) {
	isolated(t)
	for _, node := range []string{"/dev/nvidia990", "/dev/nvidia991"} {
		if err := syscall.Mknod(node, syscall.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("cannot make device nodes here: %v", err)
		}
		t.Cleanup(func() { _ = os.Remove(node) })
		must.NoError(t, os.Chmod(node, 0o666))
	}
	information := func(uuid, minor string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("GPU UUID: \t " + uuid + "\nDevice Minor: \t " + minor + "\n")}
	}
	h := newHarness(t, noIsolation())
	h.driver.host = fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:18:00.0/information": information("GPU-mine", "990"),
		"proc/driver/nvidia/gpus/0000:2a:00.0/information": information("GPU-other", "991"),
	}
	c := newTaskConfig(t, isolationExec, `ls /dev | grep nvidia; : > /dev/nvidia990 && echo opened; env | grep GPU- | sort`)
	c.DeviceEnv = map[string]string{"KOLO_GPUS_1": "GPU-mine", nvidiaVisible: "GPU-mine"}
	for key, value := range map[string]string{
		"KOLO_GPUS_1": "GPU-other", "KOLO_GPUS_x": "GPU-other", nvidiaVisible: "GPU-other", cudaVisible: "GPU-other",
	} {
		c.Env[key] = value
	}
	h.start(t, c)
	h.end(t, c.ID)
	must.Eq(t, "nvidia990\nopened\nCUDA_VISIBLE_DEVICES=GPU-mine\nKOLO_GPUS_1=GPU-mine\nNVIDIA_VISIBLE_DEVICES=GPU-mine\n", output(t, c))

	c = newTaskConfig(t, isolationExec, `true`)
	c.DeviceEnv = map[string]string{nvidiaVisible: "GPU-unknown"}
	_, _, err := h.StartTask(c)
	must.ErrorContains(t, err, "cannot determine which device nodes belong to GPU-unknown")

	c = newTaskConfig(t, isolationExec, `ls /dev | grep nvidia; env | grep GPU-; true`)
	c.Env[nvidiaVisible], c.Env["KOLO_GPUS_x"] = "GPU-other", "GPU-other"
	h.start(t, c)
	h.end(t, c.ID)
	must.Eq(t, "", output(t, c), must.Sprint("nothing is reserved"))
}

// TestJobMapping has a task with two GPUs, whose plugin is replaced while it runs.
func TestJobMapping(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	listed := func() map[string]string {
		files, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
		must.NoError(t, err)
		out := map[string]string{}
		for _, f := range files {
			text, err := os.ReadFile(f)
			must.NoError(t, err)
			out[filepath.Base(f)] = string(text)
		}
		return out
	}
	config := noIsolation()
	config.JobMappingDir = dir
	first := newHarness(t, config)
	c := newTaskConfig(t, isolationNone, `while ! test -e $NOMAD_TASK_DIR/end; do sleep 0.02; done`)
	c.Namespace, c.JobID = "team", "the \"job"
	c.DeviceEnv = map[string]string{"KOLO_GPUS_1": "GPU-a,GPU-b", "KOLO_GPU_NUMBERS_1": "3,0"}
	handle := first.start(t, c)
	line := jobmap.Line("team", "the \"job") + "\n"
	must.Eq(t, map[string]string{"0": line, "3": line}, listed())
	first.kill()

	second := newHarness(t, config)
	must.NoError(t, second.RecoverTask(handle))
	t.Cleanup(func() { _ = second.driver.DestroyTask(c.ID, true) })
	must.Eq(t, map[string]string{"0": line, "3": line}, listed())
	must.NoError(t, os.WriteFile(filepath.Join(c.TaskDir().LocalDir, "end"), nil, 0o600))
	second.end(t, c.ID)
	must.MapEmpty(t, listed(), must.Sprint("the task has ended"))

	t.Log("a task without GPUs is in no list, and no directory is one")
	c = newTaskConfig(t, isolationNone, `true`)
	second.start(t, c)
	second.end(t, c.ID)
	must.MapEmpty(t, listed())
}

// TestJobMapping_Locked has a process that never releases the lock of the list.
func TestJobMapping_Locked(t *testing.T) {
	config := noIsolation()
	config.JobMappingDir = filepath.Join(t.TempDir(), "jobs")
	h := newHarness(t, config)
	lock, err := os.Create(filepath.Join(config.JobMappingDir, ".lock"))
	must.NoError(t, err)
	defer lock.Close()
	must.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	c := newTaskConfig(t, isolationNone, `true`)
	c.DeviceEnv = map[string]string{"KOLO_GPUS_1": "GPU-a", "KOLO_GPU_NUMBERS_1": "3"}
	h.start(t, c)
	h.end(t, c.ID)
	must.FileNotExists(t, filepath.Join(config.JobMappingDir, "3"))
}
