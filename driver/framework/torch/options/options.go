// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"regexp"
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Block is the name of the block that holds the settings.
const Block = "torch"

// foreignField and foreignBlock are Horovod's names, which Read refuses with their
// counterparts.
const (
	foreignField, fieldCounterpart = "gloo_timeout", "set timeout in the torch block"
	foreignBlock, blockCounterpart = "horovod", "PyTorch's settings are in the torch block (backend, timeout and others)"
)

// Foreign returns the names of Horovod's settings, which Read refuses.
func Foreign() (fields, blocks []string) { return []string{foreignField}, []string{foreignBlock} }

// Read returns the variables for the settings of a jobspec.
func Read(given map[string]any) (e settings.Env, problems problem.List) {
	const text = "is Horovod's"
	e = settings.Env{}
	block, _ := given[Block].(map[string]any)
	problems = settings.Read(BlockSettings(e), block, "config."+Block)
	if value, _ := given[foreignField].(string); value != "" {
		problems.Add("config."+foreignField, value, text, fieldCounterpart)
	}
	if block, _ := given[foreignBlock].(map[string]any); len(block) > 0 {
		problems.Add("config."+foreignBlock, nil, text, blockCounterpart)
	}
	return e, problems
}

// backend matches a backend of torch.distributed, or one for each kind of device.
var backend = regexp.MustCompile(`^[a-z0-9_]+(:[a-z0-9_]+(,[a-z0-9_]+:[a-z0-9_]+)*)?$`)

// BlockSettings declares the settings of the torch block.
func BlockSettings(e settings.Env) []settings.Setting {
	return []settings.Setting{
		e.Match("backend", "KOLO_TORCH_BACKEND", "backend of the process group", backend,
			`must be a backend such as "gloo" or "nccl", or one for each device: "cpu:gloo,cuda:nccl"`),
		e.Seconds("timeout", "KOLO_TORCH_TIMEOUT", "", "longest time that a collective, or the forming of a group, may take", "kolo.torch"),

		e.OneOf("nccl_debug", "NCCL_DEBUG", "what NCCL logs", []string{"version", "warn", "info", "trace"}, strings.ToUpper),
		e.Word("nccl_debug_subsys", "NCCL_DEBUG_SUBSYS", "subsystems of NCCL that log, separated by commas"),
		e.Word("nccl_algo", "NCCL_ALGO", "algorithms that NCCL may use"),
		e.Word("nccl_proto", "NCCL_PROTO", "protocols that NCCL may use"),
		e.Inverse("nccl_p2p", "NCCL_P2P_DISABLE", "copy between GPUs directly"),
		e.Inverse("nccl_shm", "NCCL_SHM_DISABLE", "copy between GPUs by shared memory"),
		e.Inverse("nccl_ib", "NCCL_IB_DISABLE", "use InfiniBand and RoCE"),
		e.Count("nccl_trace_buffer_size", "TORCH_NCCL_TRACE_BUFFER_SIZE", "collectives that PyTorch's flight recorder keeps"),

		e.OneOf("distributed_debug", "TORCH_DISTRIBUTED_DEBUG", "checks and logs of torch.distributed", []string{"off", "info", "detail"}, strings.ToUpper),
		e.OneOf("cpp_log_level", "TORCH_CPP_LOG_LEVEL", "least level that PyTorch's C++ logs", []string{"info", "warning", "error", "fatal"}, strings.ToUpper),
		e.Count("omp_num_threads", "OMP_NUM_THREADS", "threads of one process for computing on CPUs"),
	}
}
