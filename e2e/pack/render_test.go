// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package pack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/lint"
)

const packs = "../../packs"

const image = "example/torch@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// cases are uses of the packs.
var cases = map[string]struct {
	pack string
	vars Vars
}{
	"docker":          {"kolo-train", Vars{"image": image, "command": []any{"python3", "/w/train.py"}}},
	"docker, GPUs":    {"kolo-train", Vars{"image": image, "command": []any{"python3", "train.py", "--name=\"a b\""}, "workers": 2, "max_workers": 8, "gpus": 4}},
	"podman":          {"kolo-train", Vars{"image": image, "command": []any{"python3", "/w/train.py"}, "driver": "podman", "gpus": 1}},
	"podman, GPUs":    {"kolo-train", Vars{"image": image, "command": []any{"x"}, "driver": "podman", "gpus": 2, "devices": []any{"nvidia.com/gpu=all"}}},
	"Horovod, scaled": {"kolo-train", Vars{"image": image, "command": []any{"x"}, "framework": "horovod", "autoscaler": true, "max_workers": 4, "flags": []any{"--gloo_timeout=20s"}, "job_name": "bert"}},
	"all of it": {"kolo-train", Vars{"image": image, "command": []any{"x"}, "kolo_volume": "", "volumes": map[string]any{"/data": "data", "/ckpt": "ckpt"},
		"env": map[string]any{"A": "b \"c\""}, "user": "1000", "namespace": "ml", "node_pool": "gpu", "datacenters": []any{"dc1", "dc2"}, "memory": 9000, "shm_mb": 2048, "kill_timeout": "20s"}},
	"autoscaler":           {"kolo", nil},
	"autoscaler, TLS":      {"kolo", Vars{"tls": true, "http": "debug = true", "count": 1}},
	"autoscaler in docker": {"kolo", Vars{"driver": "docker", "image": image, "tls": true}},
	"autoscaler in podman": {"kolo", Vars{"driver": "podman", "image": image, "user": "1000", "namespace": "ops", "job_name": "scaler", "read_token": false, "pids_limit": 0}},
}

func parse(t *testing.T, text string) *api.Job {
	t.Helper()
	job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: "job.hcl", Body: []byte(text), Strict: true})
	must.NoError(t, err, must.Sprint(text))
	return job
}

// Lint finds no problem in the jobs that packs render.
func TestRender(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := Render(filepath.Join(packs, c.pack), c.vars)
			must.NoError(t, err)
			job := parse(t, text)
			findings, err := lint.Check(lint.Options{Path: name, Text: []byte(text), MaxKillTimeout: lint.MaxKillTimeout})
			must.NoError(t, err)
			must.SliceEmpty(t, findings, must.Sprint(text))
			for _, task := range job.TaskGroups[0].Tasks {
				must.SliceNotContains(t, []string{"", "root", "0"}, task.User)
			}
		})
	}
}

// The variables have the documented effects.
func TestTrainingPack(t *testing.T) {
	text, err := Render(filepath.Join(packs, "kolo-train"), cases["docker, GPUs"].vars)
	must.NoError(t, err)
	group := parse(t, text).TaskGroups[0]
	must.Eq(t, 2, *group.Count)
	must.Eq(t, int64(8), *group.Scaling.Max)
	task := group.Tasks[0]
	must.Eq(t, 4, *task.Resources.Devices[0].Count)
	must.Eq(t, []any{"--framework=torch", "--service=train", "--kill_timeout=30s", "--max_np=32", "--", "python3", "train.py", `--name="a b"`}, task.Config["args"].([]any))
	must.Eq(t, 1<<30, task.Config["shm_size"].(int))
	must.Eq(t, 16384, task.Config["pids_limit"].(int))

	text, err = Render(filepath.Join(packs, "kolo-train"), cases["Horovod, scaled"].vars)
	must.NoError(t, err)
	group = parse(t, text).TaskGroups[0]
	must.MapContainsKey(t, group.Scaling.Policy, "kolo")
	must.Eq(t, "bert", group.Services[0].Name)

	text, err = Render(filepath.Join(packs, "kolo-train"), Vars{"image": image, "command": []any{"x"}, "pids_limit": 0})
	must.NoError(t, err)
	must.MapNotContainsKey(t, parse(t, text).TaskGroups[0].Tasks[0].Config, "pids_limit")
}

// TestAutoscalerPack_ClosedByDefault checks the defaults of the autoscaler's pack, and what
// its variables open: who may read, the user that it runs as, and the number of processes.
func TestAutoscalerPack_ClosedByDefault(t *testing.T) {
	rendered := func(name string) *api.Task {
		t.Helper()
		text, err := Render(filepath.Join(packs, cases[name].pack), cases[name].vars)
		must.NoError(t, err)
		return parse(t, text).TaskGroups[0].Tasks[0]
	}
	task := rendered("autoscaler")
	c := configuration(t, task)
	must.True(t, c.HTTP.ReadToken)
	must.False(t, c.HTTP.Open)
	must.Eq(t, "nobody", task.User, must.Sprint("exec knows users by name"))
	must.MapNotContainsKey(t, task.Config, "pids_limit")

	task = rendered("autoscaler in docker")
	uid, group, given := strings.Cut(task.User, ":")
	must.Eq(t, "65520", uid)
	must.NotEq(t, rendered("docker").User, uid, must.Sprint("training has another user"))
	must.True(t, given && group != "0", must.Sprint("docker takes root's group for a user that the image does not know"))
	must.Eq(t, 1024, task.Config["pids_limit"].(int))
	at := slices.IndexFunc(task.Templates, func(file *api.Template) bool { return *file.DestPath == "secrets/key.pem" })
	must.Eq(t, 65520, *task.Templates[at].Uid)
	must.Eq(t, "0400", *task.Templates[at].Perms)

	task = rendered("autoscaler in podman")
	c = configuration(t, task)
	must.False(t, c.HTTP.ReadToken)
	must.Eq(t, "ops", c.Leader.Namespace, must.Sprint("its variables are where only operators submit jobs"))
	must.MapNotContainsKey(t, task.Config, "pids_limit")
}

// configuration returns what the autoscaler reads in its task.
func configuration(t *testing.T, task *api.Task) *config.Config {
	t.Helper()
	written := strings.NewReplacer(`{{ env "NOMAD_IP_http" }}`, "127.0.0.1", `{{ env "NOMAD_PORT_http" }}`, "8648").Replace(*task.Templates[0].EmbeddedTmpl)
	c, err := config.Parse(map[string][]byte{"kolo.hcl": []byte(written)})
	must.NoError(t, err, must.Sprint(written))
	return c
}

// The commands that a pack prints at the end fit the job as it runs.
func TestOutput(t *testing.T) {
	for name, c := range cases {
		_, err := Output(filepath.Join(packs, c.pack), c.vars)
		must.NoError(t, err, must.Sprint(name))
	}
	for name, want := range map[string][]string{
		"autoscaler":           {"info -t 'http://", " kolo)\n", "policy apply -namespace default -job kolo ", "--var read_token=false"},
		"autoscaler, TLS":      {"info -t 'https://"},
		"autoscaler in podman": {"info -namespace ops -t 'http://", " scaler)\n", "policy apply -namespace ops -job scaler "},
	} {
		text, err := Output(filepath.Join(packs, "kolo"), cases[name].vars)
		must.NoError(t, err)
		for _, part := range want {
			must.StrContains(t, text, part, must.Sprint(name))
		}
	}
}

// TestPools_NoQueueIsOpen checks the default pools of the autoscaler's pack and jobspec: a
// job cannot make up a queue.
func TestPools_NoQueueIsOpen(t *testing.T) {
	text, err := Render(filepath.Join(packs, "kolo"), nil)
	must.NoError(t, err)
	jobs := map[string]*api.Job{"the pack": parse(t, text)}
	raw, err := os.ReadFile("../../jobspecs/kolo.nomad.hcl")
	must.NoError(t, err)
	jobs["the jobspec"] = parse(t, string(raw))
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			p := configuration(t, job.TaskGroups[0].Tasks[0]).Pool("default")
			for queue, namespace := range map[string]string{"default": "team-a", "team-a": "team-a", "made-up": "default"} {
				rule, ok := p.Rule(queue)
				must.True(t, ok)
				must.False(t, rule.Admits(namespace), must.Sprint(queue))
			}
			rule, _ := p.Rule("default")
			must.True(t, rule.Admits("default"))
		})
	}
}

// A wrong variable is refused with its remedy, before Nomad is asked.
func TestRefused(t *testing.T) {
	command := []any{"x"}
	for want, c := range map[string]struct {
		pack string
		vars Vars
	}{
		`variable "image" is required`:                              {"kolo-train", Vars{"command": command}},
		`command: name the program that trains`:                     {"kolo-train", Vars{"image": image, "command": []any{}}},
		`driver = "exec": must be docker or podman`:                 {"kolo-train", Vars{"image": image, "command": command, "driver": "exec"}},
		`framework = "jax": must be torch or horovod`:               {"kolo-train", Vars{"image": image, "command": command, "framework": "jax"}},
		`podman takes several GPUs by their CDI names; set devices`: {"kolo-train", Vars{"image": image, "command": command, "driver": "podman", "gpus": 2}},
		`driver = "java": must be exec, docker or podman`:           {"kolo", Vars{"driver": "java"}},
		`image: name the image with kolo, for driver = "docker"`:    {"kolo", Vars{"driver": "docker"}},
		`user: the autoscaler needs no root; name another`:          {"kolo", Vars{"user": "0:0"}},
		`http: read_token is a variable of its own`:                 {"kolo", Vars{"http": "debug = true\nread_token = true"}},
	} {
		_, err := Render(filepath.Join(packs, c.pack), c.vars)
		must.ErrorContains(t, err, want)
	}
}

// Nomad-pack renders the same jobs.
func TestNomadPack(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	program, err := Program(root)
	if err != nil {
		t.Skip(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(packs, c.pack)
			ours, err := Render(dir, c.vars)
			must.NoError(t, err)
			args := []string{"render", dir}
			for key, value := range c.vars {
				arg, err := Argument(key, value)
				must.NoError(t, err)
				args = append(args, arg)
			}
			render := exec.CommandContext(t.Context(), program, args...)
			render.Env = append(os.Environ(), "HOME="+t.TempDir()) // it keeps a cache
			out, err := render.CombinedOutput()
			must.NoError(t, err, must.Sprint(string(out)))
			theirs := string(out[len(c.pack+"/"+c.pack+".nomad:\n"):])
			must.Eq(t, parse(t, ours), parse(t, theirs))
		})
	}
}
