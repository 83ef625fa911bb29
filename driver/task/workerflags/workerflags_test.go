// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package workerflags

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	horovod "github.com/kolo-nomad/kolo/driver/framework/horovod/options"
	torch "github.com/kolo-nomad/kolo/driver/framework/torch/options"
)

var both = []Framework{torch.Task{}, horovod.Task{}}

func TestFlags(t *testing.T) {
	o, err := Parse(both, []string{
		"--framework=torch", "--min_np=2", "-max-np", "4", "--torch.backend=gloo", "--torch.nccl-p2p=false",
		"--checkpoint.wait=5m", "--kill-timeout=30s", "--", "python3", "train.py", "--batch-size=4",
	})
	must.NoError(t, err)
	must.Eq(t, 30*time.Second, o.Kill)
	must.Eq(t, map[string]any{
		"command": "python3", "args": []any{"train.py", "--batch-size=4"}, "service": "resnet", "min_np": 2.0, "max_np": 4.0,
		"torch": map[string]any{"backend": "gloo", "nccl_p2p": false}, "checkpoint": map[string]any{"wait": "5m"},
	}, o.Given(map[string]string{"NOMAD_JOB_NAME": "resnet"}))

	// Another framework's settings are refused with the driver's own message.
	o, err = Parse(both, []string{"--framework=horovod", "--spares=1", "--service=s", "--", "x"})
	must.NoError(t, err)
	given := o.Given(nil)
	must.Eq(t, "s", given["service"].(string))
	_, _, problems := o.Framework.Environment(given)
	must.Eq(t, []string{`spares = "1": is for PyTorch; processes of Horovod stay when the ring changes; leave it out`}, problems.Strings())
}

func TestFlags_Wrong(t *testing.T) {
	for want, args := range map[string]string{
		`framework = "": must be horovod or torch`:                                                                                                                 "-- x",
		`framework = "tf": must be horovod or torch`:                                                                                                               "--framework=tf -- x",
		"no command given; write it after the flags: kolo-worker --framework=torch -- python3 train.py":                                                            "--framework=torch",
		"leave_timeout: there is no such flag; give the task's kill_timeout as --kill_timeout":                                                                     "--leave_timeout=3s",
		"work_dir: there is no such flag; set it in the task's config (docker, exec, raw_exec: work_dir, podman: working_dir), slots start where kolo-worker does": "--work-dir=/src -- x",
		"nproc: there is no such flag; kolo-worker -help lists the flags, the command follows --":                                                                  "--nproc=3",
		`kill_timeout = "soon": not a duration; write it like "90s" or "10m"`:                                                                                      "--framework=torch --kill_timeout=soon -- x",
		"flag needs an argument: -min_np; kolo-worker -help lists the flags, the command follows --":                                                               "--framework=torch --min_np",
		"bad flag syntax: ---np=2; kolo-worker -help lists the flags, the command follows --":                                                                      "---np=2 -- x",
		"bad flag syntax: --=2; kolo-worker -help lists the flags, the command follows --":                                                                         "--max_np 2 --=2 -- x",
		`kill_timeout = "-1s": must be at least 0s`:                                                                                                                "--framework=torch --kill_timeout=-1s -- x",
		`"nosuch" is not a flag; give values of flags with =, and the command after --`:                                                                            "--framework=torch --torch.nccl_p2p nosuch -- python3 train.py",
		`"python3" is not a flag; give values of flags with =, and the command after --`:                                                                           "--framework=torch python3 train.py --batch-size=4",
		`"train.py" is not a flag; give values of flags with =, and the command after --`:                                                                          "--framework=torch train.py -- --batch-size=4",
	} {
		_, err := Parse(both, strings.Fields(args))
		must.EqError(t, err, want)
	}
}

// The help lists every flag.
func TestUsage(t *testing.T) {
	var out bytes.Buffer
	Usage(&out, both)
	for _, name := range []string{"service", "min_np", "gloo_timeout", "horovod.cycle_time_ms", "mode", "checkpoint.wait", "torch.backend"} {
		must.StrContains(t, out.String(), "\n  --"+name+"\n")
	}
	must.StrNotContains(t, out.String(), "leave_timeout")
}
