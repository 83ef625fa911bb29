// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package commandline

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

func TestLauncher(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"python3 train.py":                                             "",
		"python3 -m train":                                             "",
		"python3 train.py --rdzv-backend=c10d":                         "",
		"/usr/bin/horovodrun -np 2 python3 train.py":                   "horovodrun",
		"mpirun --rdzv-backend=kolo":                                   "mpirun",
		"torchrun train.py":                                            "torchrun",
		"torchrun --rdzv-backend":                                      "torchrun",
		"torchrun --rdzv-backend=c10d train.py --rdzv-backend=kolo":    "torchrun",
		"/opt/venv/bin/torchrun --rdzv-backend=kolo train.py":          "",
		"torchrun --nnodes=1:8 --rdzv_backend kolo train.py":           "",
		"python3 -m torch.distributed.run train.py":                    "torchrun",
		"python3 -m torch.distributed.launch train.py":                 "torchrun",
		"python3.13 -m torch.distributed.run --rdzv-backend=kolo x.py": "",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(line)
			name, found := Launcher(words[0], words[1:])
			must.Eq(t, want, name)
			must.Eq(t, want != "", found)
		})
	}
}
