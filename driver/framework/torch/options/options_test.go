// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestRead(t *testing.T) {
	env, problems := Read(map[string]any{
		"gloo_timeout": nil, "horovod": map[string]any{},
		"torch": map[string]any{
			"backend": "cpu:gloo,cuda:nccl", "timeout": "5m", "nccl_debug": "INFO", "nccl_ib": false, "nccl_p2p": true,
			"omp_num_threads": 4, "distributed_debug": "detail", "cpp_log_level": nil, "nccl_algo": "",
		},
	})
	must.SliceEmpty(t, problems)
	must.Eq(t, settings.Env{
		"KOLO_TORCH_BACKEND": "cpu:gloo,cuda:nccl", "KOLO_TORCH_TIMEOUT": "300", "NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1",
		"NCCL_P2P_DISABLE": "0", "OMP_NUM_THREADS": "4", "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
	}, env)
}

func TestReadNamesEveryMistake(t *testing.T) {
	_, problems := Read(map[string]any{
		"gloo_timeout": "30s", "horovod": map[string]any{"autotune": "true"},
		"torch": map[string]any{"backend": "gloo nccl", "timeout": "1500ms", "nccl_debug": "loud", "omp_num_threads": 1.5, "nccl_ib": "perhaps"},
	})
	must.Eq(t, []string{
		`torch.backend = "gloo nccl": must be a backend such as "gloo" or "nccl", or one for each device: "cpu:gloo,cuda:nccl"`,
		`torch.timeout = "1500ms": must be whole seconds, as kolo.torch counts`,
		`torch.nccl_debug = "loud": must be one of version, warn, info, trace`,
		`torch.nccl_ib = "perhaps": must be true or false`,
		`torch.omp_num_threads = 1.5: must be a whole number`,
		`gloo_timeout = "30s": is Horovod's; set timeout in the torch block`,
		`horovod: is Horovod's; PyTorch's settings are in the torch block (backend, timeout and others)`,
	}, problems.Strings())
}

// TestNamesAreUnique makes sure that no two settings share a name or a variable.
func TestNamesAreUnique(t *testing.T) {
	e, seen := settings.Env{}, map[string]bool{}
	for _, s := range BlockSettings(e) {
		must.False(t, seen[s.Name], must.Sprint(s.Name))
		seen[s.Name] = true
		before := len(e)
		for _, value := range []string{"1", "5s", "gloo", "info"} {
			if s.Set(value) == nil {
				break
			}
		}
		must.Eq(t, before+1, len(e), must.Sprint(s.Name))
	}
}
