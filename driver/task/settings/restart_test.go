// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestRestartReads(t *testing.T) {
	var r Restart
	must.SliceEmpty(t, r.Read(nil))
	must.Eq(t, Restart{Checkpoint: Checkpoint{Wait: Duration(time.Minute)}}, r)
	must.Eq(t, syscall.SIGTERM, r.Checkpoint.Number())

	must.SliceEmpty(t, r.Read(map[string]any{"mode": "restart", "spares": 1., "checkpoint": map[string]any{
		"signal": "SIGUSR1", "file": "local/../stop", "path": "/data/run1/", "wait": "90s"}}))
	want := Restart{Mode: ModeRestart, Spares: 1, Checkpoint: Checkpoint{Signal: "SIGUSR1", File: "stop", Path: "/data/run1", Wait: Duration(90 * time.Second)}}
	must.Eq(t, want, r)
	must.Eq(t, syscall.SIGUSR1, r.Checkpoint.Number())
	data, err := json.Marshal(r)
	must.NoError(t, err)
	var read Restart
	must.NoError(t, json.Unmarshal(data, &read))
	must.Eq(t, want, read)

	must.SliceEmpty(t, new(Restart).Read(map[string]any{"mode": "in-process", "spares": 0, "checkpoint": map[string]any{"signal": nil, "wait": "1s"}}))
	var inProcess Restart
	must.SliceEmpty(t, inProcess.Read(map[string]any{"spare_hosts": "2"}))
	must.Eq(t, 2, inProcess.SpareHosts)
	must.Eq(t, 0, Checkpoint{Path: "model.pt"}.Number(), must.Sprint("its next own checkpoint"))
	must.Eq(t, 0, Checkpoint{File: "stop"}.Number())
	must.Eq(t, syscall.SIGTERM, Checkpoint{File: "stop", Signal: "SIGTERM"}.Number())
}

func TestRestartNamesEveryMistake(t *testing.T) {
	checkpoint := func(name, value string) map[string]any {
		return map[string]any{"checkpoint": map[string]any{name: value}}
	}
	for want, given := range map[string]map[string]any{
		`mode = "elastic": must be "in-process" or "restart"`:                                                               {"mode": "elastic"},
		`spares = 2: must be 0 or 1`:                                                                                        {"spares": 2},
		`spares = -1: must be 0 or 1`:                                                                                       {"spares": -1},
		`spares = 0.5: must be 0 or 1`:                                                                                      {"spares": 0.5},
		`checkpoint.signal = "SIGFOO": is not the name of a signal; write it like "SIGUSR1"`:                                checkpoint("signal", "SIGFOO"),
		`checkpoint.signal = "usr1": is not the name of a signal; write it like "SIGUSR1"`:                                  checkpoint("signal", "usr1"),
		`checkpoint.signal = "10": is not the name of a signal; write it like "SIGUSR1"`:                                    checkpoint("signal", "10"),
		`checkpoint.signal = "SIGKILL": no process can react to it; use one that the script handles, such as SIGUSR1`:       checkpoint("signal", "SIGKILL"),
		`checkpoint.signal = "SIGSTOP": no process can react to it; use one that the script handles, such as SIGUSR1`:       checkpoint("signal", "SIGSTOP"),
		`checkpoint.file = "../other/stop": leads out of the task's directory; use an absolute path for a file on a volume`: checkpoint("file", "../other/stop"),
		`checkpoint.path = "local/../..": leads out of the task's directory; use an absolute path for a file on a volume`:   checkpoint("path", "local/../.."),
		`checkpoint.file = "/": must name a file`:                                                                           checkpoint("file", "/"),
		`checkpoint.file = "local/..": must name a file`:                                                                    checkpoint("file", "local/.."),
		"checkpoint.path = \"a\\x00b\": has a zero byte":                                                                    checkpoint("path", "a\x00b"),
		`checkpoint.wait = "0s": must be at least 1s`:                                                                       checkpoint("wait", "0s"),
		`checkpoint.wait = "long": not a duration; write it like "90s" or "10m"`:                                            checkpoint("wait", "long"),
		`spares = 1: has no effect with mode = "in-process", where processes stay; leave it out, or set mode = "restart"`:   {"mode": "in-process", "spares": 1},
		`spare_hosts = -1: must be at least 0`:                                                                              {"spare_hosts": -1},
		`spare_hosts = 1: has no effect with mode = "restart", where a process is started for one rank; leave it out; spares = 1 keeps processes ready on the hosts of the ring`: {"mode": "restart", "spare_hosts": 1},
		`checkpoint: has no effect with mode = "in-process", where processes stay; leave it out, or set mode = "restart"`:                                                        {"mode": "in-process", "checkpoint": map[string]any{"file": "stop"}},
	} {
		must.Eq(t, []string{want}, new(Restart).Read(given).Strings())
	}
}
