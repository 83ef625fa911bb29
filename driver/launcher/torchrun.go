// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/driver/framework/torch/options"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

const torchrunUsage = `usage: PROGRAM run [flags] -- <command> [arguments]

Trains elastically on this machine, without Nomad: a script that uses kolo.torch, or
one for torchrun, whose processes are replaced when their number changes. torchrun's
flags for numbers of nodes, processes and restarts are taken too, and those for its
rendezvous are ignored; all nodes are this machine.

  PROGRAM run -np 2 -- python train.py
  PROGRAM run --nnodes 1:4 --nproc-per-node 2 -- python train.py
  PROGRAM run -np 2 --min-np 1 --max-np 4 \
      --host-discovery-script ./hosts.sh -- python train.py

The discovery script prints one host a line, "name" or "name:slots". It is run
every second, and the job grows and shrinks with what it prints.

NCCL's and PyTorch's own settings are taken from the environment:
NCCL_DEBUG=INFO, TORCH_DISTRIBUTED_DEBUG=DETAIL, OMP_NUM_THREADS=1 and so on.

flags:
`

// Torchrun accepts the flags of PyTorch's launcher, in addition to the flags of `run`.
var Torchrun = Dialect{
	usage:    torchrunUsage,
	launcher: "torchrun",
	bind:     bindTorch,
	unknown:  "the command is given whole (python -m train), and settings of NCCL and PyTorch in the environment (NCCL_DEBUG)",
	extra: func(o *flags, f *flag.FlagSet) {
		f.Func("nnodes", "hosts, as a number or as MIN:MAX; with -slots-per-host they bound -np, -min-np and -max-np", o.setNodes)
	},
}

// bindTorch declares PyTorch's settings: those of its block that PyTorch and NCCL do not
// read from variables of their own, and those for scripts without kolo.torch.
func bindTorch(o *flags) []settings.Setting {
	fields, checkpoint := o.restart.Bind()
	for i := range checkpoint {
		checkpoint[i].Name = settings.CheckpointBlock + "_" + checkpoint[i].Name
	}
	block := slices.DeleteFunc(options.BlockSettings(o.env), func(s settings.Setting) bool { return s.Name != "backend" && s.Name != "timeout" })
	return slices.Concat(block, fields, checkpoint, []settings.Setting{o.BindReplica()})
}

// setNodes parses torchrun's number of nodes.
func (o *flags) setNodes(text string) error {
	least, most, ranged := strings.Cut(text, ":")
	if !ranged {
		most = least
	}
	a, errA := strconv.Atoi(least)
	b, errB := strconv.Atoi(most)
	if errA != nil || errB != nil || a < 1 || b < a {
		return errors.New("must be a number, or two with the smaller first: 1:4")
	}
	o.nodes = [2]int{a, b}
	return nil
}
