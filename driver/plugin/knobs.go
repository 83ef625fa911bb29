// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/plugins/shared/hclspec"
)

// Knobs is the `horovod` block of a task: Horovod's own settings, under the
// names of horovodrun's flags with _ for -. What is not set is left to Horovod.
// Other HOROVOD_* variables can be given in the task's `env` block.
type Knobs struct {
	FusionThresholdMB *float64 `codec:"fusion_threshold_mb"`
	CycleTimeMS       *float64 `codec:"cycle_time_ms"`
	CacheCapacity     *float64 `codec:"cache_capacity"`

	HierarchicalAllreduce *bool `codec:"hierarchical_allreduce"`
	HierarchicalAllgather *bool `codec:"hierarchical_allgather"`
	TorusAllreduce        *bool `codec:"torus_allreduce"`

	Autotune                      *bool    `codec:"autotune"`
	AutotuneLogFile               string   `codec:"autotune_log_file"`
	AutotuneWarmupSamples         *float64 `codec:"autotune_warmup_samples"`
	AutotuneStepsPerSample        *float64 `codec:"autotune_steps_per_sample"`
	AutotuneBayesOptMaxSamples    *float64 `codec:"autotune_bayes_opt_max_samples"`
	AutotuneGaussianProcessNoise  *float64 `codec:"autotune_gaussian_process_noise"`
	TimelineFilename              string   `codec:"timeline_filename"`
	TimelineMarkCycles            *bool    `codec:"timeline_mark_cycles"`
	StallCheck                    *bool    `codec:"stall_check"`
	StallCheckWarningTimeSeconds  *float64 `codec:"stall_check_warning_time_seconds"`
	StallCheckShutdownTimeSeconds *float64 `codec:"stall_check_shutdown_time_seconds"`

	NumNCCLStreams *float64 `codec:"num_nccl_streams"`
	ThreadAffinity string   `codec:"thread_affinity"`

	LogLevel         string `codec:"log_level"`
	LogWithTimestamp *bool  `codec:"log_with_timestamp"`
}

// knobSpecs must name the fields of Knobs; a test compares the two.
func knobSpecs() map[string]*hclspec.Spec {
	specs := map[string]*hclspec.Spec{}
	for _, name := range []string{
		"fusion_threshold_mb", "cycle_time_ms", "cache_capacity",
		"autotune_warmup_samples", "autotune_steps_per_sample",
		"autotune_bayes_opt_max_samples", "autotune_gaussian_process_noise",
		"stall_check_warning_time_seconds", "stall_check_shutdown_time_seconds",
		"num_nccl_streams",
	} {
		specs[name] = number(name)
	}
	for _, name := range []string{
		"hierarchical_allreduce", "hierarchical_allgather", "torus_allreduce",
		"autotune", "timeline_mark_cycles", "stall_check", "log_with_timestamp",
	} {
		specs[name] = boolean(name)
	}
	for _, name := range []string{"autotune_log_file", "timeline_filename", "thread_affinity", "log_level"} {
		specs[name] = text(name)
	}
	return specs
}

// logLevels are those Horovod knows; it takes any case.
var logLevels = []string{"trace", "debug", "info", "warning", "error", "fatal"}

// environment turns the knobs into Horovod's variables, and notes what Horovod
// would refuse or silently ignore.
func (k *Knobs) environment(p *problems) map[string]string {
	env := map[string]string{}
	if k == nil {
		return env
	}
	amount := func(field, key string, v *float64, whole bool) {
		if v == nil {
			return
		}
		switch {
		case *v < 0:
			p.addf("horovod.%s = %v: must not be negative", field, *v)
		case whole && *v != float64(int64(*v)):
			p.addf("horovod.%s = %v: must be a whole number", field, *v)
		default:
			env[key] = strconv.FormatFloat(*v, 'f', -1, 64)
		}
	}
	flag := func(key string, v *bool, invert bool) {
		if v != nil {
			env[key] = map[bool]string{true: "1", false: "0"}[*v != invert]
		}
	}
	word := func(key, v string) {
		if v != "" {
			env[key] = v
		}
	}

	if k.FusionThresholdMB != nil {
		// Horovod reads bytes; a fraction of a MiB may still be whole bytes.
		amount("fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD", ptr(float64(int64(*k.FusionThresholdMB*(1<<20)))), true)
	}
	amount("cycle_time_ms", "HOROVOD_CYCLE_TIME", k.CycleTimeMS, false)
	amount("cache_capacity", "HOROVOD_CACHE_CAPACITY", k.CacheCapacity, true)
	flag("HOROVOD_HIERARCHICAL_ALLREDUCE", k.HierarchicalAllreduce, false)
	flag("HOROVOD_HIERARCHICAL_ALLGATHER", k.HierarchicalAllgather, false)
	flag("HOROVOD_TORUS_ALLREDUCE", k.TorusAllreduce, false)

	flag("HOROVOD_AUTOTUNE", k.Autotune, false)
	word("HOROVOD_AUTOTUNE_LOG", k.AutotuneLogFile)
	amount("autotune_warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", k.AutotuneWarmupSamples, true)
	amount("autotune_steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", k.AutotuneStepsPerSample, true)
	amount("autotune_bayes_opt_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", k.AutotuneBayesOptMaxSamples, true)
	amount("autotune_gaussian_process_noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", k.AutotuneGaussianProcessNoise, false)
	if n := k.AutotuneGaussianProcessNoise; n != nil && *n > 1 {
		p.addf("horovod.autotune_gaussian_process_noise = %v: must be between 0 and 1", *n)
	}

	word("HOROVOD_TIMELINE", k.TimelineFilename)
	flag("HOROVOD_TIMELINE_MARK_CYCLES", k.TimelineMarkCycles, false)
	if k.TimelineFilename == "" && k.TimelineMarkCycles != nil {
		p.addf("horovod.timeline_mark_cycles = %v: has no effect without timeline_filename; set that too", *k.TimelineMarkCycles)
	}

	flag("HOROVOD_STALL_CHECK_DISABLE", k.StallCheck, true)
	amount("stall_check_warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", k.StallCheckWarningTimeSeconds, true)
	amount("stall_check_shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", k.StallCheckShutdownTimeSeconds, true)

	amount("num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS", k.NumNCCLStreams, true)
	word("HOROVOD_THREAD_AFFINITY", k.ThreadAffinity)

	if k.LogLevel != "" && !slices.Contains(logLevels, strings.ToLower(k.LogLevel)) {
		p.addf("horovod.log_level = %q: must be one of %s", k.LogLevel, strings.Join(logLevels, ", "))
	}
	word("HOROVOD_LOG_LEVEL", strings.ToLower(k.LogLevel))
	flag("HOROVOD_LOG_HIDE_TIME", k.LogWithTimestamp, true)
	return env
}

func ptr[T any](v T) *T { return &v }
