// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/api/recording"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// TestLogs reads and follows the logs of a job's allocations through a real Nomad with access
// control, and records what the page shows of the job.
func TestLogs(t *testing.T) {
	w := startWith(t, cluster.Options{Clients: 1, CPU: 2000, MemoryMB: 2048, ACL: true})
	d := w.agent(t, "one", w.Address)
	waitFor(t, time.Minute, "leadership", d.leads)
	job := strings.ReplaceAll(strings.Replace(jobHCL, "kolo { KOLO }", "kolo { min = 1 }", 1), "NAME", "a")
	job = strings.Replace(job, "/bin/sleep", "/bin/sh", 1)
	job = strings.Replace(job, `["100000"]`, `["-c", "i=0; while true; do i=$((i+1)); echo \"[0] step $i\"; sleep 1; done"]`, 1)
	w.register(t, job)
	w.eventually(t, time.Minute, map[string]int{"a": 2})

	t.Setenv("NOMAD_ADDR", w.Address)
	out, err := d.kolo("logs", "a") // its token may not read logs
	must.Error(t, err)
	must.StrContains(t, out, "Permission denied")

	d.token = w.Token
	waitFor(t, time.Minute, "a line of each allocation", func() bool {
		out, err := d.kolo("logs", "-n=3", "a")
		t.Log(out)
		return err == nil && strings.Count(out, "[0] step ") >= 2
	})

	follow := exec.CommandContext(t.Context(), d.binary, "logs", "-f", "-n=1", "a")
	follow.Env = append(os.Environ(), "KOLO_ADDR="+d.address, "NOMAD_TOKEN="+d.token)
	pipe, err := follow.StdoutPipe()
	must.NoError(t, err)
	must.NoError(t, follow.Start())
	lines := bufio.NewScanner(pipe)
	for range 6 { // one of the past and two new ones of each allocation
		must.True(t, lines.Scan())
		must.StrContains(t, lines.Text(), "[0] step ")
	}
	must.NoError(t, follow.Process.Signal(os.Interrupt))
	must.NoError(t, follow.Wait())

	path := filepath.Join(t.TempDir(), "real.kolo")
	out, err = d.kolo("record", "-page", "-every=500ms", "-for=5s", path)
	must.NoError(t, err, must.Sprint(out))
	text, err := os.ReadFile(path)
	must.NoError(t, err)
	must.False(t, bytes.Contains(text, []byte(d.token)))
	rec, err := recording.Open(bytes.NewReader(text), int64(len(text)))
	must.NoError(t, err)
	answer, there, err := rec.Answer(rec.To(), "/v1/job?id=a&namespace=default")
	must.NoError(t, err)
	must.True(t, there)
	var j koloapi.Job
	must.NoError(t, json.Unmarshal(answer, &j))
	must.Len(t, 2, j.Allocations)
	t.Logf("%d answers of each kind in %d bytes", rec.Frames(), len(text))
}
