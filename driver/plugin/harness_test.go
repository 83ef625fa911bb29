// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/client/lib/cgroupslib"
	"github.com/hashicorp/nomad/client/lib/idset"
	"github.com/hashicorp/nomad/client/lib/numalib"
	"github.com/hashicorp/nomad/client/lib/numalib/hw"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	agentconfig "github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	"github.com/kolo-nomad/kolo/driver/sandbox/confine"
)

// patience is how long tests wait for what should take no time.
const patience = time.Minute

// TestMain lets the test binary stand in for the driver's: as the executor
// (which the executor package does by itself) and as an agent.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "agent" {
		fakeAgent()
	}
	if len(os.Args) > 1 && os.Args[1] == confine.Subcommand {
		os.Exit(confine.Main(os.Args[2:])) //nolint:forbidigo // a process of its own
	}
	hclog.SetDefault(hclog.NewNullLogger()) // go-plugin's, of every connection
	os.Exit(m.Run())                        //nolint:forbidigo // this is the test's main
}

// fakeAgent runs the slot's command in its own place and in the slot's directory, with
// the agent's configuration in variables that scripts can use.
func fakeAgent() {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, "fake agent:", err)
		os.Exit(70) //nolint:forbidigo // a process of its own
	}
	data, err := os.ReadFile(os.Getenv(agentconfig.Variable))
	if err != nil {
		fail(err)
	}
	var c agentconfig.Config
	if err := json.Unmarshal(data, &c); err != nil {
		fail(err)
	}
	if err := os.Chdir(c.Dir); err != nil {
		fail(err)
	}
	env := append(os.Environ(), "EVENTS="+c.EventFile, "CONFIG="+os.Getenv(agentconfig.Variable), "LOGS="+c.LogDir, "STOP="+c.StopFile)
	fail(syscall.Exec(c.Command, append([]string{c.Command}, c.Args...), env))
}

// harness is a driver behind gRPC, as Nomad sees it.
type harness struct {
	drivers.DriverPlugin
	driver *Driver
	// kill ends the driver, but no task.
	kill context.CancelFunc
}

// newHarness starts a driver with the given configuration. An empty Python
// keeps it from looking for a real Horovod.
func newHarness(t *testing.T, config *Config) *harness {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr})
	d := New(ctx, logger, taskdriver.Horovod{Logger: logger})
	client, _ := goplugin.TestPluginGRPCConn(t, true, map[string]goplugin.Plugin{
		base.PluginTypeDriver: drivers.NewDriverPlugin(d, logger),
		base.PluginTypeBase:   &base.PluginBase{Impl: d},
	})
	raw, err := client.Dispense(base.PluginTypeDriver)
	must.NoError(t, err)
	h := &harness{DriverPlugin: raw.(drivers.DriverPlugin), driver: d}
	h.kill = func() { cancel(); _ = client.Close() } // closing stops the server too
	t.Cleanup(h.kill)

	if config.Python == "" {
		config.Python = "no-python-here"
	}
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, config))
	must.NoError(t, h.SetConfig(&base.Config{
		PluginConfig: data,
		AgentConfig:  &base.AgentConfig{Driver: &base.ClientDriverConfig{Topology: numalib.Scan(numalib.PlatformScanners(false))}},
	}))
	return h
}

func noIsolation() *Config { return &Config{Enabled: true, AllowIsolationNone: true} }

// newTaskConfig makes the directories and the environment that Nomad would.
// The script is run by /bin/sh.
func newTaskConfig(t *testing.T, isolation, script string) *drivers.TaskConfig {
	t.Helper()
	allocID := fmt.Sprintf("%08x-0000-4000-8000-%012x", os.Getpid(), time.Now().UnixNano()&0xffffffffffff)
	alloc := filepath.Join(t.TempDir(), allocID)
	must.NoError(t, os.Mkdir(alloc, 0o755))
	for p := alloc; p != "/" && p != "/tmp"; p = filepath.Dir(p) {
		must.NoError(t, os.Chmod(p, 0o755))
	}
	c := &drivers.TaskConfig{
		ID: allocID + "/train", Name: "train", JobName: "job", TaskGroupName: "workers",
		AllocID: allocID, AllocDir: alloc,
	}
	t.Cleanup(func() {
		if shm := shmOf(c); shm != "" {
			_ = os.RemoveAll(shm)
		}
	})
	dir := c.TaskDir()
	// Nomad gives all of these to any user, the task directory itself included.
	for _, d := range []string{dir.Dir, dir.SharedAllocDir, dir.LogDir, dir.LocalDir, dir.SecretsDir, filepath.Join(dir.Dir, "tmp")} {
		must.NoError(t, os.MkdirAll(d, 0o755))
		must.NoError(t, os.Chmod(d, 0o777))
	}
	c.StdoutPath, c.StderrPath = filepath.Join(dir.LogDir, "stdout"), filepath.Join(dir.LogDir, "stderr")
	for _, p := range []string{c.StdoutPath, c.StderrPath} {
		must.NoError(t, os.WriteFile(p, nil, 0o666))
	}
	must.NoError(t, os.WriteFile(filepath.Join(dir.SecretsDir, "nomad_token"), []byte("ey"), 0o644))
	must.NoError(t, os.WriteFile(filepath.Join(dir.SecretsDir, "api.sock"), nil, 0o666))
	c.Env = map[string]string{
		"PATH": os.Getenv("PATH"), "NOMAD_NAMESPACE": "default", "NOMAD_JOB_ID": "job", "NOMAD_GROUP_NAME": "workers",
		"NOMAD_TASK_NAME": "train", "NOMAD_ALLOC_ID": c.AllocID, "NOMAD_ALLOC_INDEX": "0", "NOMAD_PORT_kolo": "25000",
		"NOMAD_TASK_DIR": dir.LocalDir,
	}
	cgroups(t, c)
	must.NoError(t, c.EncodeConcreteDriverConfig(map[string]any{
		"command": "/bin/sh", "args": []string{"-c", script}, "isolation": isolation, "service": "ring",
	}))
	return c
}

// shmOf returns where the shared memory of the client's tasks lies, see package
// privatedirs.
func shmOf(c *drivers.TaskConfig) string {
	name, err := os.ReadFile(filepath.Join(filepath.Dir(c.AllocDir), ".kolo/shm"))
	if err != nil {
		return ""
	}
	return filepath.Join("/dev/shm", string(name))
}

// cgroups makes the task's, as the client does.
func cgroups(t *testing.T, c *drivers.TaskConfig) {
	t.Helper()
	c.Resources = &drivers.Resources{
		NomadResources: &structs.AllocatedTaskResources{
			Memory: structs.AllocatedMemoryResources{MemoryMB: 256},
			Cpu:    structs.AllocatedCpuResources{CpuShares: 100},
		},
		LinuxResources: &drivers.LinuxResources{CPUShares: 100},
	}
	if os.Geteuid() != 0 || cgroupslib.GetMode() == cgroupslib.OFF {
		return
	}
	cores, err := os.ReadFile("/sys/fs/cgroup/cpuset/cpuset.cpus")
	if err != nil {
		cores, err = os.ReadFile("/sys/fs/cgroup/cpuset.cpus.effective")
	}
	must.NoError(t, err)
	usable := strings.TrimSpace(string(cores))
	must.NoError(t, cgroupslib.Init(hclog.NewNullLogger(), usable))
	// As the client does with each allocation; until the first, tasks have no core to run on.
	must.NoError(t, cgroupslib.NewPartition(hclog.NewNullLogger(), idset.Parse[hw.CoreID](usable)).Release(idset.Empty[hw.CoreID]()))
	c.Resources.LinuxResources.CpusetCgroupPath = cgroupslib.LinuxResourcesPath(c.AllocID, c.Name, false)
	f := cgroupslib.Factory(c.AllocID, c.Name, false)
	must.NoError(t, f.Setup())
	t.Cleanup(func() { _ = f.Kill(); _ = f.Teardown() })
}

// start starts a task, and destroys it with the test.
func (h *harness) start(t *testing.T, c *drivers.TaskConfig) *drivers.TaskHandle {
	t.Helper()
	handle, _, err := h.StartTask(c)
	must.NoError(t, err)
	t.Cleanup(func() { _ = h.driver.DestroyTask(c.ID, true) })
	return handle
}

// end waits for a task's result.
func (h *harness) end(t *testing.T, id string) *drivers.ExitResult {
	t.Helper()
	ch, err := h.WaitTask(t.Context(), id)
	must.NoError(t, err)
	select {
	case r := <-ch:
		must.NotNil(t, r)
		return r
	case <-time.After(patience):
		t.Fatal("the task does not end")
		return nil
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(f), wait.Timeout(patience), wait.Gap(20*time.Millisecond)), must.Sprint(what))
}

// output returns what the task has printed so far.
func output(t *testing.T, c *drivers.TaskConfig) string {
	t.Helper()
	data, err := os.ReadFile(c.StdoutPath)
	must.NoError(t, err)
	errors, err := os.ReadFile(c.StderrPath)
	must.NoError(t, err)
	return string(data) + string(errors)
}
