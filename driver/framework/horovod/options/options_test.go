// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/task/settings"
)

func TestRead(t *testing.T) {
	env, outside, problems := Read(map[string]any{
		"gloo_timeout": "2m",
		"horovod": map[string]any{
			"fusion_threshold_mb": 0.5, "cycle_time_ms": 2.5, "cache_capacity": 0, "autotune": true, "stall_check": false,
			"stall_check_warning_time_seconds": nil, "log_level": "DEBUG", "log_with_timestamp": true, "thread_affinity": "",
			"timeline_filename": "/alloc/t.json", "timeline_mark_cycles": true, "num_nccl_streams": 2,
		},
	})
	must.SliceEmpty(t, problems)
	must.Eq(t, settings.Env{"HOROVOD_GLOO_TIMEOUT_SECONDS": "120", "HOROVOD_CACHE_CAPACITY": "0"}, outside)
	must.Eq(t, settings.Env{
		"HOROVOD_FUSION_THRESHOLD": "524288", "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_CACHE_CAPACITY": "0",
		"HOROVOD_AUTOTUNE": "1", "HOROVOD_STALL_CHECK_DISABLE": "1", "HOROVOD_LOG_LEVEL": "debug",
		"HOROVOD_LOG_HIDE_TIME": "0", "HOROVOD_TIMELINE": "/alloc/t.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1",
		"HOROVOD_NUM_NCCL_STREAMS": "2",
	}, env)
}

func TestReadNamesEveryMistake(t *testing.T) {
	_, _, problems := Read(map[string]any{
		"gloo_timeout": "1500ms",
		"horovod": map[string]any{
			"cycle_time_ms": -1, "cache_capacity": 0.5, "log_level": "loud",
			"autotune_gaussian_process_noise": 1.5, "timeline_mark_cycles": false,
		},
	})
	must.Eq(t, []string{
		`gloo_timeout = "1500ms": must be whole seconds, as Horovod counts`,
		"horovod.cycle_time_ms = -1: must not be negative",
		"horovod.cache_capacity = 0.5: must be a whole number",
		"horovod.autotune_gaussian_process_noise = 1.5: must be between 0 and 1",
		`horovod.log_level = "loud": must be one of trace, debug, info, warning, error, fatal`,
		"horovod.timeline_mark_cycles = false: has no effect without timeline_filename; set that too",
	}, problems.Strings())
}

// TestNamesAreUnique makes sure that no two settings share a name or a variable.
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range BlockSettings(settings.Env{}) {
		must.False(t, seen[s.Name], must.Sprint(s.Name))
		seen[s.Name] = true
	}
	e := settings.Env{}
	for _, s := range BlockSettings(e) {
		before := len(e)
		for _, value := range []string{"1", "true", "info"} {
			if s.Set(value) == nil {
				break
			}
		}
		must.Eq(t, before+1, len(e), must.Sprint(s.Name))
	}
}
