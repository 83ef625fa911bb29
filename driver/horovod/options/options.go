// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kolo-nomad/kolo/driver/settings"
)

// Block is the name of the block that holds the settings of Env.Block.
const Block = "horovod"

// Env are Horovod's environment variables, filled by the settings bound to them.
type Env map[string]string

// Read returns the variables for what a jobspec gives, in its block and outside of
// it. The problems are a sentence each.
func Read(given map[string]any) (e, outside Env, problems []string) {
	e, outside = Env{}, Env{}
	problems = settings.Read([]settings.Setting{outside.GlooTimeout()}, given, "")
	block, _ := given[Block].(map[string]any)
	problems = append(problems, settings.Read(e.Block(), block, Block+".")...)
	if mark, ok := e["HOROVOD_TIMELINE_MARK_CYCLES"]; ok && e["HOROVOD_TIMELINE"] == "" {
		problems = append(problems, fmt.Sprintf("%s.timeline_mark_cycles = %t: has no effect without timeline_filename; set that too", Block, mark == "1"))
	}
	return e, outside, problems
}

// GlooTimeout binds gloo_timeout, which stands outside of the block, and sets its
// default.
func (e Env) GlooTimeout() settings.Setting {
	const variable = "HOROVOD_GLOO_TIMEOUT_SECONDS"
	var timeout time.Duration
	s := settings.Time(&timeout, "gloo_timeout", 30*time.Second, time.Second,
		"after this long without a word, Horovod takes a peer for dead")
	e[variable] = seconds(timeout)
	return settings.Func(s.Name, s.Kind, s.Default, s.Doc, func(text string) error {
		if err := s.Set(text); err != nil {
			return err
		}
		if timeout%time.Second != 0 {
			return errors.New("must be whole seconds, as Horovod counts")
		}
		e[variable] = seconds(timeout)
		return nil
	})
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// Block binds the settings of the horovod block.
func (e Env) Block() []settings.Setting {
	return []settings.Setting{
		e.megabytes("fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD", "size of the buffer that tensors are fused in"),
		e.amount("cycle_time_ms", "HOROVOD_CYCLE_TIME", "time between two looks for tensors to reduce"),
		e.count("cache_capacity", "HOROVOD_CACHE_CAPACITY", "responses that are cached"),

		e.flag("hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "reduce within each host first"),
		e.flag("hierarchical_allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "gather within each host first"),
		e.flag("torus_allreduce", "HOROVOD_TORUS_ALLREDUCE", "reduce along a torus of hosts and local ranks"),

		e.flag("autotune", "HOROVOD_AUTOTUNE", "tune the settings above while training"),
		e.word("autotune_log_file", "HOROVOD_AUTOTUNE_LOG", "file for what autotune tries"),
		e.count("autotune_warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "samples to discard first"),
		e.count("autotune_steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "steps of one sample"),
		e.count("autotune_bayes_opt_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "most samples to take"),
		e.fraction("autotune_gaussian_process_noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "noise to assume of samples"),

		e.word("timeline_filename", "HOROVOD_TIMELINE", "file for the timeline"),
		e.flag("timeline_mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "mark cycles in the timeline"),

		e.inverse("stall_check", "HOROVOD_STALL_CHECK_DISABLE", "look for ranks that lag behind"),
		e.count("stall_check_warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", "time before it warns"),
		e.count("stall_check_shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "time before it ends the job"),

		e.count("num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS", "streams for NCCL"),
		e.word("thread_affinity", "HOROVOD_THREAD_AFFINITY", "cores of the background threads"),

		e.level("log_level", "HOROVOD_LOG_LEVEL", "least level that is logged"),
		e.inverse("log_with_timestamp", "HOROVOD_LOG_HIDE_TIME", "log the time, too"),
	}
}
