// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package pack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/lint"
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
	"autoscaler, TLS":      {"kolo", Vars{"tls": true, "http": "read_token = true", "count": 1}},
	"autoscaler in docker": {"kolo", Vars{"driver": "docker", "image": image, "tls": true}},
	"autoscaler in podman": {"kolo", Vars{"driver": "podman", "image": image, "user": "1000", "namespace": "ops", "job_name": "scaler"}},
}

func parse(t *testing.T, text string) *api.Job {
	t.Helper()
	job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: "job.hcl", Body: []byte(text), Strict: true})
	must.NoError(t, err, must.Sprint(text))
	return job
}

// What packs render is a job in which lint finds nothing.
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

// What the variables decide.
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

	text, err = Render(filepath.Join(packs, "kolo-train"), cases["Horovod, scaled"].vars)
	must.NoError(t, err)
	group = parse(t, text).TaskGroups[0]
	must.MapContainsKey(t, group.Scaling.Policy, "kolo")
	must.Eq(t, "bert", group.Services[0].Name)
}

// TestPools_NoQueueIsOpen reads the pools that the pack and the jobspec of the autoscaler
// have by default: a job cannot make up a queue.
func TestPools_NoQueueIsOpen(t *testing.T) {
	text, err := Render(filepath.Join(packs, "kolo"), nil)
	must.NoError(t, err)
	jobs := map[string]*api.Job{"the pack": parse(t, text)}
	raw, err := os.ReadFile("../../jobspecs/kolo.nomad.hcl")
	must.NoError(t, err)
	jobs["the jobspec"] = parse(t, string(raw))
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			written := *job.TaskGroups[0].Tasks[0].Templates[0].EmbeddedTmpl
			written = strings.NewReplacer(`{{ env "NOMAD_IP_http" }}`, "127.0.0.1", `{{ env "NOMAD_PORT_http" }}`, "8648").Replace(written)
			c, err := config.Parse(map[string][]byte{"kolo.hcl": []byte(written)})
			must.NoError(t, err, must.Sprint(written))
			p := c.Pool("default")
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

// A mistake in the variables is refused with its remedy, before Nomad is asked.
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
