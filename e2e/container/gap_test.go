// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// BenchmarkContainerGap compares the time in which no rank trains when a ring of one
// grows to two and shrinks again: the same kolo-worker and script in podman's containers
// and under Nomad's exec driver, by turns. It also reports what kolo-worker itself takes.
//
//	go test -tags e2e -run '^$' -bench ContainerGap -benchtime 10x -timeout 30m ./e2e/container
func BenchmarkContainerGap(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 25*time.Minute)
	defer cancel()
	e := podman
	e.clientHCL = chrootOf(b)
	w := e.startCluster(ctx, b)
	if info, err := w.Nodes[0].Info(ctx); err != nil || !info.Drivers["exec"].Healthy {
		b.Skipf("needs Nomad's exec driver: %v, %+v", err, info.Drivers["exec"])
	}
	gaps := map[string][]time.Duration{}
	for b.Loop() {
		for name, edit := range map[string]func(*api.Job){"podman": nil, "exec": w.underExec} {
			b.Logf("%s", name)
			gaps[name] = append(gaps[name], w.gaps(ctx, b, name, edit)...)
		}
	}
	for name, list := range gaps {
		b.ReportMetric(median(list).Seconds()*1e3, "ms/gap-"+name)
	}
	b.ReportMetric(median(gaps["podman"]).Seconds()/median(gaps["exec"]).Seconds(), "podman/exec")
	b.ReportMetric(0, "ns/op")
}

// gaps returns the gaps of a job that grows and shrinks a few times.
func (w *world) gaps(ctx context.Context, b *testing.B, name string, edit func(*api.Job)) []time.Duration {
	b.Helper()
	tr := w.start(ctx, b, 1, edit)
	tr.waitSize(ctx, 1)
	alloc := tr.allocs(ctx)[0].ID
	for i := range 3 {
		tr.scale(ctx, 2)
		tr.waitSize(ctx, 2)
		if name == "podman" && i == 0 { // two, which share the program's pages
			reportWorker(b, tr, alloc)
		}
		tr.scale(ctx, 1)
		tr.waitSize(ctx, 1)
	}
	tr.stop.Do(tr.cleanUp)
	var list []time.Duration
	for _, z := range tr.record().Resizes() {
		list = append(list, z.Gap())
	}
	must.NoError(b, os.RemoveAll(filepath.Join(tr.dir, "records")))
	return list
}

func (tr *training) allocs(ctx context.Context) []*api.AllocationListStub {
	running, err := tr.w.Running(ctx, tr.id)
	must.NoError(tr.t, err)
	must.SliceNotEmpty(tr.t, running)
	return running
}

// reportWorker measures kolo-worker: its file, its memory, and the time from its start to
// the leader's answer.
func reportWorker(b *testing.B, tr *training, alloc string) {
	b.Helper()
	info, err := os.Stat(filepath.Join(root(b), "bin", "kolo-worker"))
	must.NoError(b, err)
	b.ReportMetric(float64(info.Size())/1e6, "MB-file")
	p := tr.workerOf(alloc)
	_, own, err := p.Memory()
	must.NoError(b, err)
	b.ReportMetric(float64(own)/1e6, "MB-memory")
	began := started(b, p)
	log, err := tr.w.log(alloc, "train")
	must.NoError(b, err)
	for line := range strings.Lines(log) {
		stamp, _, _ := strings.Cut(line, " ") // podman's
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && strings.Contains(line, "host joined") {
			b.ReportMetric(at.Sub(began).Seconds()*1e3, "ms-to-hello")
		}
	}
}

// started returns when a process was started, to the hundredth of a second.
func started(b *testing.B, p cluster.Process) time.Time {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	must.NoError(b, err)
	// pid (name) state …: the 22nd field is the start, in ticks since the machine's.
	ticks, err := strconv.ParseFloat(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[19], 64)
	must.NoError(b, err)
	uptime, err := os.ReadFile("/proc/uptime")
	must.NoError(b, err)
	now, err := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	must.NoError(b, err)
	return time.Now().Add(-time.Duration((now - ticks/100) * float64(time.Second)))
}

// chrootOf gives Nomad's exec driver the root file system of the image, of which /usr
// comes by a volume.
func chrootOf(t testing.TB) string {
	torch, err := filepath.EvalSymlinks(filepath.Join(root(t), "bin", "torch"))
	if err != nil {
		t.Skip("needs bin/torch: make torch")
	}
	var hcl strings.Builder
	fmt.Fprintf(&hcl, "chroot_env {\n %q = \"/etc\"\n}\n", filepath.Join(torch, "root", "etc"))
	for _, dir := range merged {
		fmt.Fprintf(&hcl, "host_volume %q {\n path = %q\n read_only = true\n}\n", dir, filepath.Join(torch, "root", "usr", dir))
	}
	return hcl.String()
}

// merged are directories that are links into /usr on a merged root.
var merged = []string{"bin", "lib", "lib64"}

// underExec makes a job one for Nomad's exec driver.
func (w *world) underExec(job *api.Job) {
	group := job.TaskGroups[0]
	task := group.Tasks[0]
	task.Driver, task.User = "exec", "nobody"
	task.Config = map[string]any{"command": "/kolo/kolo-worker", "args": task.Config["args"]}
	for _, dir := range merged {
		group.Volumes[dir] = &api.VolumeRequest{Name: dir, Type: "host", Source: dir, ReadOnly: true}
		task.VolumeMounts = append(task.VolumeMounts, &api.VolumeMount{Volume: ptr(dir), Destination: ptr("/" + dir), ReadOnly: ptr(true)})
	}
}

func median(list []time.Duration) time.Duration {
	list = slices.Sorted(slices.Values(list))
	return cmp.Or(list[len(list)/2], 1)
}
