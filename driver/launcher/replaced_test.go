// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/wire"
	protocol "github.com/kolo-nomad/kolo/driver/framework/torch/worker"
)

// scriptMode is the variable that makes this test binary a process of a script for
// torchrun, with the file of its checkpoint.
const scriptMode = "KOLO_TEST_CHECKPOINT"

// How such a process behaves: how long it loads after its group has formed, and whether
// it reports its steps by "numbers", "touch" (as kolo.launch does) or not at all.
const (
	scriptLoads   = "KOLO_TEST_LOADS"
	scriptReports = "KOLO_TEST_REPORTS"
)

// scriptMain is such a process, simplified: rank and size from the environment, the agent's
// store, and a checkpoint every 50 steps and on SIGUSR1.
func scriptMain() int {
	w := &torchWorker{limit: envInt(workerMode)}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	p := protocol.Place{Generation: 1, Rank: envInt("RANK"), Size: envInt("WORLD_SIZE")}
	peers, err := w.form(p, func(io.Closer) {})
	if err != nil {
		return 1
	}
	loads, _ := time.ParseDuration(os.Getenv(scriptLoads))
	time.Sleep(loads)
	file := os.Getenv(scriptMode)
	if text, err := os.ReadFile(file); err == nil {
		w.step, _ = strconv.Atoi(string(text))
	}
	replaceFile(filepath.Join(os.Getenv(pidDir), fmt.Sprintf("rank.%d.pid", p.Rank)), strconv.Itoa(os.Getpid()))
	for {
		time.Sleep(5 * time.Millisecond)
		select {
		case <-asked:
			w.change = p.Generation
		default:
		}
		leave, err := w.collective(p, peers)
		if err != nil {
			return 1
		}
		w.step++
		over := w.limit > 0 && w.step >= w.limit
		if p.Rank == 0 {
			w.save(file, leave || over)
		}
		if leave || over {
			return 0
		}
	}
}

// save reports the step, and writes the checkpoint.
func (w *torchWorker) save(file string, now bool) {
	switch os.Getenv(scriptReports) {
	case "numbers":
		w.report()
	case "touch":
		_ = os.WriteFile(os.Getenv("KOLO_STEP_FILE"), []byte("now"), 0o600)
	}
	if now || w.step%50 == 0 {
		replaceFile(file, strconv.Itoa(w.step))
	}
}

func (w *torchWorker) report() {
	if f, err := os.OpenFile(os.Getenv("KOLO_PROGRESS_FILE"), os.O_APPEND|os.O_WRONLY, 0); err == nil {
		_, _ = fmt.Fprintf(f, "{\"step\": %d}\n", w.step)
		_ = f.Close()
	}
}

// replaceFile replaces a file as a whole.
func replaceFile(file, text string) {
	part := fmt.Sprintf("%s.%d", file, os.Getpid())
	_ = os.WriteFile(part, []byte(text), 0o600)
	_ = os.Rename(part, file)
}

// startScript is startJobOf for a script for torchrun.
func startScript(t *testing.T, steps int, hosts string, flags ...string) *job {
	t.Helper()
	flags = append([]string{"--checkpoint-signal", "SIGUSR1"}, flags...)
	return startJobOf(t, torchrun, map[string]string{scriptMode: filepath.Join(t.TempDir(), "checkpoint"), scriptReports: "numbers"}, steps, hosts, flags...)
}

// resizes returns the resizes of a status as readers of its JSON see them.
func resizes(t *testing.T, s *wire.Status) (list []map[string]any) {
	t.Helper()
	text, err := json.Marshal(s.Resizes)
	must.NoError(t, err)
	must.NoError(t, json.Unmarshal(text, &list))
	return list
}

// The next processes of a script load its checkpoint after they got their places. Training
// stands still until their first step. The statistics omit that time if no steps are
// reported.
func TestTheGapOfAScriptForTorchrunEndsWithAStep(t *testing.T) {
	t.Parallel()
	const loads = 1500 * time.Millisecond
	for reports, wants := range map[string]struct{ gap, planned, failed bool }{
		"numbers": {gap: true, planned: true, failed: true},
		"touch":   {gap: true},
		"nothing": {},
	} {
		t.Run(reports, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{scriptMode: filepath.Join(t.TempDir(), "checkpoint"), scriptReports: reports, scriptLoads: loads.String()}
			j := startJobOf(t, torchrun, env, 0, "a:1", "--checkpoint-signal", "SIGUSR1")
			j.size(1)
			time.Sleep(2 * loads) // there is no other sign of steps where none is reported
			j.list("a:1 b:1")
			s := j.size(2)
			time.Sleep(2 * loads)
			must.NoError(t, syscall.Kill(j.torchPID(1), syscall.SIGKILL))
			s = j.until("the next ring", func(now *wire.Status) bool {
				return now.Resets > s.Resets && now.Phase == "training" && now.Resizes[len(now.Resizes)-1].Generation == now.Generation
			})
			list := resizes(t, s)
			must.Len(t, 3, list)
			for i, r := range list[1:] {
				lost := []bool{wants.planned, wants.failed}[i]
				if gap, known := r["gap_seconds"].(float64); wants.gap {
					must.GreaterEq(t, loads.Seconds(), gap, must.Sprint(r))
				} else {
					must.False(t, known, must.Sprint(r))
				}
				if steps, known := r["lost_steps"].(float64); lost {
					must.True(t, known, must.Sprint(r))
					must.Less(t, []float64{1, 50}[i], steps, must.Sprint(r, " the script saves when it is asked, and else every 50 steps"))
				} else {
					must.False(t, known, must.Sprint(r))
				}
				must.Nil(t, r["rendezvous_seconds"], must.Sprint("when they have connected is not known ", r))
			}
		})
	}
}

func TestAScriptForTorchrunGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "restart"} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if mode != "" {
				flags = []string{"--mode", mode}
			}
			j := startScript(t, 0, "a:2", append(flags, "-np", "2")...)
			j.size(2)
			j.list("a:2 b:2")
			s := j.size(4)
			for _, r := range s.Ranks {
				must.Less(t, 2, r.Slot, must.Sprint("a host has two slots"))
			}
			j.list("a:2 b:2 c:1")
			j.size(5)
			j.list("a:2")
			s = j.until("steps of two", func(s *wire.Status) bool { return s.Size == 2 && s.Step != nil && s.Phase == "training" })
			for _, r := range s.Resizes {
				must.Eq(t, new(float64), r.LostSteps, must.Sprintf("%+v", r))
				must.NotEq(t, "failure", r.Cause, must.Sprintf("%+v", r))
			}
		})
	}
}

// The host uses new processes for another number of slots, as for any change: they start
// while the current ones train.
func TestAHostOfAScriptForTorchrunGetsMoreSlots(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][2]string{{"a:1 b:1", "a:1 b:2"}, {"a:2", "a:3"}} {
		t.Run(hosts[0], func(t *testing.T) {
			t.Parallel()
			j := startScript(t, 0, hosts[0], "-np", "2")
			j.size(2)
			j.until("a step", func(s *wire.Status) bool { return s.Step != nil })
			j.list(hosts[1])
			asked := time.Now()
			s := j.size(3)
			must.Less(t, 10*time.Second, time.Since(asked), must.Sprint("a host that leaves does not wait for others than its successor"))
			must.Eq(t, new(float64), s.Resizes[len(s.Resizes)-1].LostSteps)
		})
	}
}

func TestAHostOfAScriptForTorchrunChangesTwiceAtOnce(t *testing.T) {
	t.Parallel()
	j := startScript(t, 0, "a:2", "-np", "2", "--min-np", "1")
	j.size(2)
	for _, hosts := range []string{"a:3", "a:1", "a:4"} {
		j.list(hosts)
		time.Sleep(300 * time.Millisecond)
	}
	j.size(4)
}

func TestAScriptForTorchrunSurvivesDeaths(t *testing.T) {
	t.Parallel()
	for _, spares := range []string{"0", "1"} {
		t.Run("spares "+spares, func(t *testing.T) {
			t.Parallel()
			j := startScript(t, 0, "a:1 b:1", "-np", "2", "--spares", spares)
			j.size(2)
			s := j.until("a step", func(s *wire.Status) bool { return s.Step != nil })
			for _, rank := range []int{1, 0} {
				resets := s.Resets
				must.NoError(t, syscall.Kill(j.torchPID(rank), syscall.SIGKILL))
				s = j.until("the next ring", func(s *wire.Status) bool {
					return s.Resets > resets && s.Phase == "training" && s.Size == 2 && s.Resizes[len(s.Resizes)-1].Generation == s.Generation
				})
				must.Eq(t, "failure", s.Resizes[len(s.Resizes)-1].Cause)
			}
		})
	}
}

func TestAScriptForTorchrunCompletes(t *testing.T) {
	t.Parallel()
	j := startScript(t, 100, "a:1 b:1", "-np", "2")
	r := <-j.result
	must.Eq(t, 0, r.Code, must.Sprint(r.Reason))
	must.StrContains(t, strings.ToLower(r.Reason), "complete")
}
