// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package entrypoint

import (
	"bytes"
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	horovodtask "github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	torchtask "github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
	"github.com/kolo-nomad/kolo/driver/task/workerflags"
)

var both = []Framework{{Task: torchtask.PyTorch{}}, {Task: horovodtask.Horovod{}}}

// nomadTask returns the environment of a task on this machine, with its directories.
func nomadTask(t *testing.T) map[string]string {
	secrets, local := t.TempDir(), t.TempDir()
	for _, name := range []string{"nomad_token", "nomad_kolo.jwt", "api.sock"} {
		must.NoError(t, os.WriteFile(filepath.Join(secrets, name), []byte("ey"), 0o600))
	}
	return map[string]string{
		"PATH": os.Getenv("PATH"), "NOMAD_SECRETS_DIR": secrets, "NOMAD_TASK_DIR": local, "NOMAD_NAMESPACE": "default", "NOMAD_JOB_ID": "resnet",
		"NOMAD_JOB_NAME": "resnet", "NOMAD_GROUP_NAME": "workers", "NOMAD_TASK_NAME": "train", "NOMAD_ALLOC_ID": "a1", "NOMAD_ALLOC_INDEX": "3",
		"NOMAD_PORT_kolo": "25000", "NOMAD_ADDR_kolo": "127.0.0.1:25000",
	}
}

func configured(t *testing.T, env map[string]string, args ...string) (*config.Config, problem.List, error) {
	t.Helper()
	o, err := workerflags.Parse(tasksOf(both), append(args, "--", "sh", "-c", "train"))
	must.NoError(t, err)
	return configure(o, env)
}

func TestConfigure(t *testing.T) {
	env := nomadTask(t)
	c, _, err := configured(t, env, "--framework=torch", "--kill_timeout=30s", "--torch.backend=gloo")
	must.NoError(t, err)
	must.Eq(t, "torch", c.Framework)
	must.Eq(t, "sh", filepath.Base(c.Command))
	must.Eq(t, []string{"-c", "train"}, c.Args)
	must.Eq(t, map[string]string{"KOLO_TORCH_BACKEND": "gloo"}, c.Env)
	must.Eq(t, settings.Duration(28*time.Second), c.LeaveTimeout)
	must.Eq(t, ":25000", c.Listen)
	must.Eq(t, "resnet", c.Service)
	must.Eq(t, "unix://"+env["NOMAD_SECRETS_DIR"]+"/api.sock", c.NomadAddr)
	must.Eq(t, env["NOMAD_SECRETS_DIR"]+"/nomad_token", c.TokenFile)
	must.Eq(t, env["NOMAD_TASK_DIR"]+"/kolo/progress", c.ProgressDir)
	must.DirExists(t, c.ProgressDir)
	must.DirExists(t, c.LogDir)
	must.Eq(t, "", c.EventFile)
	must.Eq(t, 1, c.Slots)

	// An image may claim GPUs by a word; only Nomad names them by their UUIDs.
	env["NVIDIA_VISIBLE_DEVICES"] = "GPU-a,GPU-b"
	c, _, err = configured(t, env, "--framework=torch")
	must.NoError(t, err)
	must.Eq(t, 2, c.Slots)
	must.Eq(t, "GPU-a,GPU-b", c.RunEnv["CUDA_VISIBLE_DEVICES"])
	must.Eq(t, settings.Duration(4*time.Second), c.LeaveTimeout)
	must.MapEmpty(t, reservation(map[string]string{"NVIDIA_VISIBLE_DEVICES": "all"}))

	// Identities that are in the environment alone stay there.
	maps.Copy(env, map[string]string{"NOMAD_TOKEN": "ey1", "NOMAD_TOKEN_kolo": "ey2"})
	for _, name := range []string{"nomad_token", "nomad_kolo.jwt"} {
		must.NoError(t, os.Remove(filepath.Join(env["NOMAD_SECRETS_DIR"], name)))
	}
	c, _, err = configured(t, env, "--framework=torch")
	must.NoError(t, err)
	must.Eq(t, "", c.TokenFile+c.PeerTokenFile)
}

// Nothing is writable except the task's own directories.
func TestGiveTemporary(t *testing.T) {
	writable, missing := t.TempDir(), filepath.Join(t.TempDir(), "tmp")
	for name, c := range map[string]struct {
		env   map[string]string
		usual []string
		given bool
	}{
		"a usual place":          {nil, []string{missing, writable}, false},
		"no usual place":         {nil, []string{missing}, true},
		"a place of the image's": {map[string]string{"TMPDIR": "/scratch"}, []string{missing}, false},
		"as TMP":                 {map[string]string{"TMP": "/scratch"}, []string{missing}, false},
	} {
		t.Run(name, func(t *testing.T) {
			local := t.TempDir()
			env := map[string]string{"NOMAD_TASK_DIR": local}
			maps.Copy(env, c.env)
			conf := &config.Config{RunEnv: map[string]string{}}
			must.NoError(t, giveTemporary(conf, env, c.usual...))
			if !c.given {
				must.MapEmpty(t, conf.RunEnv)
				return
			}
			must.Eq(t, filepath.Join(local, "kolo/tmp"), conf.RunEnv["TMPDIR"])
			info, err := os.Stat(conf.RunEnv["TMPDIR"])
			must.NoError(t, err)
			must.Eq(t, os.ModeDir|0o700, info.Mode())
		})
	}
}

// Most images have no user 65534. Docker gives it / as its home, podman the home of the
// client's user.
func TestGiveHome(t *testing.T) {
	there := t.TempDir()
	file := filepath.Join(there, "file")
	must.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct{ home, want string }{
		"one that is there":          {there, there},
		"one that can be made":       {filepath.Join(there, "job/home"), filepath.Join(there, "job/home")},
		"none":                       {"", "kolo/home"},
		"one that cannot be made":    {"/proc/nonexistent", "kolo/home"},
		"a file":                     {file, "kolo/home"},
		"one below a file":           {filepath.Join(file, "home"), "kolo/home"},
		"one of no certain location": {"home", "kolo/home"},
	} {
		t.Run(name, func(t *testing.T) {
			env := nomadTask(t)
			if c.home != "" {
				env["HOME"] = c.home
			}
			conf, _, err := configured(t, env, "--framework=torch")
			must.NoError(t, err)
			home := cmp.Or(conf.RunEnv["HOME"], env["HOME"])
			if !filepath.IsAbs(c.want) {
				c.want = filepath.Join(env["NOMAD_TASK_DIR"], c.want)
			}
			must.Eq(t, c.want, home)
			info, err := os.Stat(home)
			must.NoError(t, err)
			must.True(t, info.IsDir())
			if home != there {
				must.Eq(t, os.ModeDir|0o700, info.Mode())
			}
		})
	}
}

func TestConfigure_Refuses(t *testing.T) {
	cases := map[string]struct {
		change func(env map[string]string)
		args   []string
		says   string
	}{
		"by hand": {
			func(env map[string]string) { clear(env) }, nil,
			"not started by Nomad, as NOMAD_ALLOC_ID is not set: it is the program of a Nomad task; nomad-driver-horovod run and nomad-driver-torch run train without Nomad",
		},
		"the driver's checks": {
			func(map[string]string) {},
			[]string{"--min_np=4", "--max_np=2", "--gloo_timeout=5s"},
			`min_np = 4: is more than max_np = 2; lower min_np or raise max_np; gloo_timeout = "5s": is Horovod's; set timeout in the torch block`,
		},
		"a bridge": {
			func(env map[string]string) { env["NOMAD_ADDR_kolo"] = "203.0.113.9:25000" }, nil,
			`network_mode: the task is not in the host's network, as none of its interfaces has 203.0.113.9, the address of port "kolo", and processes of a ring listen at ports of their own choice; ` +
				`set network_mode = "host" in the task's config, and no mode, or mode = "host", in the group's network block`,
		},
		"a bridge with a mapped port": {
			func(env map[string]string) {
				env["NOMAD_ADDR_kolo"], env["NOMAD_HOST_PORT_kolo"] = "203.0.113.9:31000", "31000"
			}, nil,
			`port: port "kolo" is 31000 on the client and 25000 in the task, and the task must be in the client's network, where others call the first; remove to from the group's port block; ` +
				`network_mode: the task is not in the host's network, as none of its interfaces has 203.0.113.9, the address of port "kolo", and processes of a ring listen at ports of their own choice; ` +
				`set network_mode = "host" in the task's config, and no mode, or mode = "host", in the group's network block`,
		},
		"no identity": {
			func(env map[string]string) { _ = os.Remove(env["NOMAD_SECRETS_DIR"] + "/nomad_token") }, nil,
			"identity: the task has no workload identity; add identity { file = true } to the task: with it the agent reads Nomad's services and proves itself to the others",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			env := nomadTask(t)
			c.change(env)
			_, _, err := configured(t, env, append(c.args, "--framework=torch")...)
			must.EqError(t, err, c.says)
		})
	}
}

// The user has another number in the image than on the client.
func TestConfigure_UnreadableToken(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	env := nomadTask(t)
	must.NoError(t, os.Chmod(filepath.Join(env["NOMAD_SECRETS_DIR"], "nomad_token"), 0))
	_, _, err := configured(t, env, "--framework=torch")
	must.ErrorContains(t, err, `; where the task's user is a name, which may have one number on the client and another in the image, set its number: user = "65534"`)
}

// Nomad replaces tasks that exit with a code other than 0.
func TestExitCode(t *testing.T) {
	must.Eq(t, 0, exitCode(host.Result{Completed: true}))
	must.Eq(t, 143, exitCode(host.Result{Reason: "the task was stopped"}))
	must.Eq(t, 1, exitCode(host.Result{Code: 1}))
}

// Each problem has a line of its own in the task's log.
func TestMain_Problems(t *testing.T) {
	for name, value := range nomadTask(t) {
		t.Setenv(name, value)
	}
	var out, log bytes.Buffer
	must.Eq(t, codeRefused, Main(t.Context(), both, []string{"--framework=torch", "--slots=0", "--interface=none7", "--", "sh"}, &out, &log))
	lines := strings.Split(log.String(), "\n")
	must.Eq(t, `kolo-worker: slots = 0: must be at least 1`, lines[0])
	must.StrContains(t, lines[1], `kolo-worker: interface = "none7": no such network interface; there are: lo`)
	must.Eq(t, codeUsage, Main(t.Context(), both, nil, &out, &log))
}

func TestHelp(t *testing.T) {
	var out, none bytes.Buffer
	must.Eq(t, 0, Main(t.Context(), both, []string{"-help"}, &out, &none))
	must.StrContains(t, out.String(), "\n  --min_np\n")
	must.Eq(t, "", none.String())
}
