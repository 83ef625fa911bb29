// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// BenchmarkScale measures the autoscaler in another process against a stand-in for Nomad
// with thousands of nodes and jobs. Each node has 8 GPUs. There are enough jobs to fill
// them, and one more arrives, which makes others shrink. It prints
//
//	first-ms   from the autoscaler's start to a complete view
//	event-ms   from the arrival of a job to the last write it causes
//	busy-calls/min, idle-calls/min   requests to the stand-in
//	idle-cpu-%  processor time of the autoscaler while nothing happens
//	rss-MB     memory of the autoscaler's process
//
// Run it with KOLO_SCALE=1; it takes minutes, and gigabytes of memory for the stand-in.
func BenchmarkScale(b *testing.B) {
	if os.Getenv("KOLO_SCALE") == "" {
		b.Skip("set KOLO_SCALE=1 to measure")
	}
	for _, size := range []struct{ jobs, nodes int }{{100, 500}, {1000, 5000}, {10000, 10000}} {
		b.Run(fmt.Sprintf("%d_jobs_%d_nodes", size.jobs, size.nodes), func(b *testing.B) {
			for b.Loop() {
				measureScale(b, size.jobs, size.nodes)
			}
		})
	}
}

// childEnv makes the test binary run an autoscaler instead of tests.
const childEnv = "KOLO_SCALE_CHILD"

func TestMain(m *testing.M) {
	if at := os.Getenv(childEnv); at != "" {
		scaleChild(at)
		return
	}
	m.Run()
}

func measureScale(b *testing.B, jobs, nodes int) {
	nomad := nomadtest.New()
	nomad.AddNodes(nodes, 8)
	slots := nodes * 8
	share := max(1, slots/jobs)
	for i := range jobs {
		nomad.Register(nomadtest.Job{ID: fmt.Sprintf("job-%05d", i), Count: share, Max: 2 * share, GPUs: 1, CPU: 100, Priority: 50,
			Elastic: map[string]any{"kolo": []any{map[string]any{"min": 1}}}})
	}
	srv := httptest.NewServer(nomad)
	defer srv.Close()
	defer srv.CloseClientConnections()
	runtime.GC()

	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childEnv+"="+srv.URL)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must.NoError(b, err)
	start := time.Now()
	must.NoError(b, child.Start())
	defer func() {
		_ = child.Process.Kill() // it has nothing to save
		_ = child.Wait()
	}()
	buf := make([]byte, 64)
	_, err = out.Read(buf) // "ready"
	must.NoError(b, err)
	b.ReportMetric(float64(time.Since(start).Milliseconds()), "first-ms")
	quiet(nomad, 3*time.Second)

	calls0, _ := nomad.Calls()
	cpu0, idle := cpuTime(b, child.Process.Pid), 10*time.Second
	time.Sleep(idle)
	calls1, _ := nomad.Calls()
	b.ReportMetric(100*(cpuTime(b, child.Process.Pid)-cpu0).Seconds()/idle.Seconds(), "idle-cpu-%")
	b.ReportMetric(float64(calls1-calls0)*6, "idle-calls/min")

	_, writes0 := nomad.Calls()
	start = time.Now()
	nomad.Register(nomadtest.Job{ID: "arrival", Max: 2 * share, GPUs: 1, CPU: 100, Priority: 50,
		Elastic: map[string]any{"kolo": []any{map[string]any{"min": 1}}}})
	last := quiet(nomad, 5*time.Second)
	calls2, writes1 := nomad.Calls()
	must.Greater(b, writes0, writes1)
	b.ReportMetric(float64(last.Sub(start).Milliseconds()), "event-ms")
	b.ReportMetric(float64(writes1-writes0), "writes")
	b.ReportMetric(float64(calls2-calls1), "event-calls")
	b.ReportMetric(rss(b, child.Process.Pid), "rss-MB")
}

// quiet waits until nothing was written for a while, and returns when the
// last write was seen.
func quiet(nomad *nomadtest.Cluster, d time.Duration) time.Time {
	_, before := nomad.Calls()
	last := time.Now()
	for time.Since(last) < d {
		time.Sleep(5 * time.Millisecond)
		if _, now := nomad.Calls(); now != before {
			before, last = now, time.Now()
		}
	}
	return last
}

// rss returns the resident memory of a process in MB.
func rss(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			must.NoError(b, err)
			return kb / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// cpuTime returns the processor time that a process has used.
func cpuTime(b *testing.B, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must.NoError(b, err)
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name
	f := strings.Fields(rest)
	ticks := 0
	for _, at := range []int{11, 12} { // utime and stime
		n, err := strconv.Atoi(f[at])
		must.NoError(b, err)
		ticks += n
	}
	const hz = 100 // USER_HZ
	return time.Duration(ticks) * (time.Second / hz)
}

// scaleChild runs the autoscaler that is measured, until it is killed.
func scaleChild(at string) {
	c := config.Default()
	c.Name, c.Nomad.Address = "measured", at
	c.Planner.Hold, c.Planner.Progress = 0, 0
	c.Nomad.WritesPerSecond, c.Planner.MaxWrites = 10000, 0
	c.Pools["default"] = config.Pool{Name: "default", Policy: "elastic-fifo", Device: "gpu"}
	a, err := New(c, nil, hclog.NewNullLogger())
	if err != nil {
		panic(err)
	}
	go func() {
		for !a.Status().Ready || !a.Status().Leading {
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Println("ready")
	}()
	if err := a.Run(context.Background()); err != nil {
		panic(err)
	}
}
