// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package examples

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// An example is a directory of docs/examples, and how it is run here.
type example struct {
	name string
	// python has what the script imports, setup is the target that makes it.
	python, setup string
	// epochs are long enough for all changes, steps those of one.
	epochs, steps int
	// noise is by how much the loss in the end may differ from that of a fixed size: the
	// range of the losses of the seeds 1 to 3 with a fixed size (trainer, fsdp, hsdp and
	// deepspeed: of 1 and 2). Both make the same steps, so they differ by rounding only.
	// classification leaves a plateau at the beginning, where rounding makes a difference:
	// two processes instead of one made 0.06, three seeds 0.13.
	noise float64
	// replica is the number of processes of an allocation.
	replica int
	// often: in every make e2e.
	often bool
	// args are added to those of the script, env to its environment; @DIR@ stands for a
	// directory of the run, @ROOT@ for the project's.
	args []string
	env  map[string]string
	// torchrun: the script needs torchrun's variables.
	torchrun bool
	// compile is a script that compiles what the example needs, unless it is there.
	compile string
}

var examples = []example{
	{name: "classification", python: "bin/torch/python3", setup: "torch", epochs: 6, steps: 50, noise: 0.25, often: true},
	{name: "trainer", python: "bin/integrations/bin/python3", setup: "test-python-integrations", epochs: 8, steps: 40, noise: 0.05},
	{name: "accelerate", python: "bin/integrations/bin/python3", setup: "test-python-integrations", epochs: 6, steps: 50, noise: 0.04, often: true},
	{name: "lightning", python: "bin/integrations/bin/python3", setup: "test-python-integrations", epochs: 6, steps: 50, noise: 0.007},
	{name: "fsdp", python: "bin/torch-newest/bin/python3", setup: "torch-newest", epochs: 8, steps: 40, noise: 0.04, args: []string{"--shards", "@DIR@/shards"}},
	{name: "hsdp", python: "bin/torch-newest/bin/python3", setup: "torch-newest", epochs: 8, steps: 40, noise: 0.04, replica: 2, args: []string{"--shards", "/nonexistent/kolo"}},
	{name: "deepspeed", torchrun: true, python: "bin/frameworks/bin/python3", setup: "frameworks", epochs: 6, steps: 50, noise: 0.07, args: []string{"--checkpoint", "@DIR@/checkpoint"},
		env: map[string]string{"TORCH_EXTENSIONS_DIR": cmp.Or(os.Getenv("TORCH_EXTENSIONS_DIR"), "@ROOT@/bin/frameworks/torch-extensions")}, compile: "e2e/train/frameworks/deepspeed_compile.py"},
}

// dir is the directory of the example.
func (e example) dir(root string) string {
	return filepath.Join(root, "docs", "examples", strings.Replace(e.name, "hsdp", "fsdp", 1))
}

// skip skips the test if the example is not to be run, or cannot be.
func (e example) skip(t *testing.T, root string) {
	t.Helper()
	if !e.often && os.Getenv("KOLO_E2E_EXAMPLES") == "" {
		t.Skip("takes a minute or two: make examples")
	}
	if _, err := os.Stat(filepath.Join(root, e.python)); err != nil {
		t.Skipf("%v; make %s sets it up", err, e.setup)
	}
}

// The examples grow from one allocation to three, lose a process by SIGKILL, shrink to one
// and finish. Their steps, samples and loss are those of a training of a fixed size.
func TestExamples(t *testing.T) {
	root, err := filepath.Abs("../../..")
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Minute)
	defer cancel()
	driver, config := train.Torch.Plugin(root)
	c, err := cluster.Start(ctx, cluster.Options{Nomad: cluster.Binary(root), Log: t.Logf, Plugins: map[string]string{driver: config}, Grace: cluster.Patient})
	must.NoError(t, err)
	c.StopAfter(t, filepath.Join(root, "e2e", ".work", t.Name()))
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			e.skip(t, root)
			ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
			defer cancel()
			tr := training{T: t, example: e, root: root, cluster: c, dir: t.TempDir()}
			tr.compiled(ctx)
			fixed := tr.fixed(ctx)
			tr.elastic(ctx)
			record, loss := fixed()
			must.NoError(t, audit(tr.record(), record, e.steps))
			must.Eq(t, e.epochs*e.steps, len(record))
			t.Logf("loss %.4f, with a fixed size %.4f", tr.loss, loss)
			must.InDelta(t, loss, tr.loss, e.noise)
		})
	}
}

// A training is a run of an example.
type training struct {
	*testing.T
	example
	root, dir string
	cluster   *cluster.Cluster
	// loss is that in the end.
	loss float64
}

// arguments are those of the script in a run.
func (tr *training) arguments(run string) []string {
	args := []string{"--epochs", strconv.Itoa(tr.epochs)}
	for _, a := range tr.args {
		args = append(args, tr.path(a, run))
	}
	return args
}

// path is a path in which the directories of a run have their names.
func (tr *training) path(p, run string) string {
	return strings.NewReplacer("@DIR@", filepath.Join(tr.dir, run), "@ROOT@", tr.root).Replace(p)
}

// compiled compiles what the example needs, which may take minutes, or skips the test.
func (tr *training) compiled(ctx context.Context) {
	if tr.compile == "" {
		return
	}
	cmd := exec.CommandContext(ctx, filepath.Join(tr.root, tr.python), filepath.Join(tr.root, tr.compile))
	cmd.Env = os.Environ()
	for name, value := range tr.environment("") {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		tr.Skipf("%s could not compile what it needs: %s\n%s", tr.name, err, output)
	}
}

// audit is the script that records what the example's does.
func (tr *training) audit() string {
	return filepath.Join(tr.root, "e2e", "frameworks", "examples", "audit.py")
}

// environment is that of the training processes of a run.
func (tr *training) environment(run string) map[string]string {
	env := map[string]string{"OMP_NUM_THREADS": "1", "KOLO_AUDIT_RECORDS": filepath.Join(tr.dir, run)}
	maps.Copy(env, train.Torch.Env(tr.root))
	for name, value := range tr.env {
		env[name] = tr.path(value, run)
	}
	return env
}

// fixed starts a training with one process, without Kolo's driver. The function that it
// returns waits for it, and returns its record and its loss.
func (tr *training) fixed(ctx context.Context) func() (train.Record, float64) {
	script := filepath.Join(tr.example.dir(tr.root), "train.py")
	cmd := exec.CommandContext(ctx, filepath.Join(tr.root, tr.python), append([]string{tr.audit(), script}, tr.arguments("fixed")...)...)
	cmd.Dir = tr.dir
	cmd.Env = os.Environ()
	for name, value := range tr.environment("fixed") {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if tr.torchrun {
		cmd.Env = append(cmd.Env, "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=0")
	}
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	must.NoError(tr, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tr.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test has failed
	})
	return func() (train.Record, float64) {
		must.NoError(tr, <-ended, must.Sprint(printed.String()))
		record, err := train.Read(filepath.Join(tr.dir, "fixed"))
		must.NoError(tr, err)
		return record, lastLoss(tr, printed.String())
	}
}

// job is the example's job, with this machine's Python and with audit.py before the script.
func (tr *training) job() *api.Job {
	path := filepath.Join(tr.example.dir(tr.root), "job.nomad.hcl")
	text, err := os.ReadFile(path)
	must.NoError(tr, err)
	vars := []string{"count=1", "isolation=none", "python=" + filepath.Join(tr.root, tr.python)}
	if tr.replica > 1 {
		vars = append(vars, "replica="+strconv.Itoa(tr.replica))
	}
	job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: path, Body: text, ArgVars: vars, AllowFS: true, Strict: true})
	must.NoError(tr, err)
	job.ID, job.Name = &tr.name, &tr.name
	group := job.TaskGroups[0]
	group.Services[0].Name = tr.name
	group.Volumes = nil
	task := group.Tasks[0]
	task.VolumeMounts = nil
	task.Config["service"] = tr.name
	var args []string
	for _, a := range task.Config["args"].([]any) {
		if a == "local/train.py" {
			args = append(args, tr.audit(), "local/train.py")
			break
		}
		args = append(args, a.(string))
	}
	task.Config["args"] = append(args, tr.arguments("elastic")...)
	task.Env = tr.environment("elastic")
	task.Env["KOLO_AUDIT_PACE"] = filepath.Join(tr.dir, "pace")
	return job
}

// elastic trains as a job of Nomad.
func (tr *training) elastic(ctx context.Context) {
	c := tr.cluster
	slots := cmp.Or(tr.replica, 1)
	since := tr.slowDown()
	must.NoError(tr, c.RegisterJob(ctx, tr.job()))
	tr.wait(ctx, slots, since)

	since = tr.slowDown()
	must.NoError(tr, c.Scale(ctx, tr.name, "workers", 3))
	last := tr.wait(ctx, 3*slots, since)

	since = tr.slowDown()
	must.NoError(tr, syscall.Kill(last.PID, syscall.SIGKILL))
	tr.Logf("process %d killed after step %d", last.PID, last.Step)
	tr.wait(ctx, 3*slots, since)

	since = tr.slowDown()
	must.NoError(tr, c.Scale(ctx, tr.name, "workers", 1))
	tr.wait(ctx, slots, since)

	running, err := c.WaitRunning(ctx, tr.name, 1)
	must.NoError(tr, err)
	must.NoError(tr, os.Remove(filepath.Join(tr.dir, "pace")))
	must.NoError(tr, c.WaitStatus(ctx, tr.name, "dead"))
	allocs, err := c.Allocs(ctx, tr.name)
	must.NoError(tr, err)
	for _, a := range allocs {
		must.Eq(tr, api.AllocClientStatusComplete, a.ClientStatus, must.Sprintf("%s: %s", a.Name, cluster.Events(a)))
	}
	printed, err := c.Logs(running[0].ID, "train", "stdout")
	must.NoError(tr, err)
	tr.loss = lastLoss(tr, printed)
}

// slowDown lets steps take longer and longer from now on, and returns now.
func (tr *training) slowDown() time.Time {
	must.NoError(tr, os.WriteFile(filepath.Join(tr.dir, "pace"), nil, 0o600))
	info, err := os.Stat(filepath.Join(tr.dir, "pace"))
	must.NoError(tr, err)
	return info.ModTime()
}

// wait waits for two steps of a ring of a size that has formed since, and returns the last
// of the highest rank.
func (tr *training) wait(ctx context.Context, size int, since time.Time) train.Event {
	var last train.Event
	must.NoError(tr, cluster.Until(ctx, fmt.Sprintf("two steps of a new ring of %d", size), func(ctx context.Context) error {
		job, _, err := tr.cluster.API.Jobs().Info(tr.name, new(api.QueryOptions).WithContext(ctx))
		if err == nil && *job.Status == "dead" {
			return &cluster.FatalError{Reason: "the job has ended"}
		}
		steps := numbered(tr.record())
		var before, now, made int
		for _, e := range steps {
			if e.Time().Before(since) {
				before = max(before, e.Generation)
			}
			now = max(now, e.Generation)
		}
		for _, e := range steps {
			if e.Generation == now && e.Size == size && e.Rank == size-1 {
				last = e
				made++
			}
		}
		if now <= before || made < 2 {
			return fmt.Errorf("%d steps of %d ranks, in ring %d after ring %d", made, size, now, before)
		}
		return nil
	}))
	tr.Logf("step %d with %d processes", last.Step, size)
	return last
}

// record is what the processes of the job have recorded.
func (tr *training) record() train.Record {
	record, err := train.Read(filepath.Join(tr.dir, "elastic"))
	must.NoError(tr, err)
	return record
}

var lossPrinted = regexp.MustCompile(`(?:test loss |'eval_loss': ')([0-9.]+)`)

// lastLoss is the last loss that a script has printed.
func lastLoss(t testing.TB, printed string) float64 {
	found := lossPrinted.FindAllStringSubmatch(printed, -1)
	must.SliceNotEmpty(t, found, must.Sprint(printed))
	loss, err := strconv.ParseFloat(found[len(found)-1][1], 64)
	must.NoError(t, err)
	return loss
}
