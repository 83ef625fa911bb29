// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package options

import (
	"strings"

	"github.com/kolo-nomad/kolo/driver/task/problem"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// Block is the name of the block that holds the settings of BlockSettings.
const Block = "horovod"

// foreignSettings is the block with most of PyTorch's settings.
const foreignSettings = "torch"

// foreignFields are fields of PyTorch's driver, with the reason why Horovod does not need
// them. foreignBlock is a block about processes that can't change their ring.
var (
	foreignFields = []struct{ name, why string }{{"mode", staying}, {"spares", staying}, {"spare_hosts", "a process of Horovod is started for one rank, so it can't take another"}, {"replica", "each process of Horovod holds the whole model"}}
	foreignBlock  = settings.CheckpointBlock
)

const staying = "processes of Horovod stay when the ring changes"

// Foreign returns the names of PyTorch's settings, which Read refuses.
func Foreign() (fields, blocks []string) {
	for _, f := range foreignFields {
		fields = append(fields, f.name)
	}
	return fields, []string{foreignSettings, foreignBlock}
}

// Read returns the variables for the settings of a jobspec, in the horovod block and
// outside of it.
func Read(given map[string]any) (e, outside settings.Env, problems problem.List) {
	e, outside = settings.Env{}, settings.Env{}
	Presets(outside)
	problems = settings.Read([]settings.Setting{GlooTimeout(outside)}, given, "config")
	block, _ := given[Block].(map[string]any)
	problems = append(problems, settings.Read(BlockSettings(e), block, "config."+Block)...)
	if mark, ok := e["HOROVOD_TIMELINE_MARK_CYCLES"]; ok && e["HOROVOD_TIMELINE"] == "" {
		problems.Add("config."+Block+".timeline_mark_cycles", mark == "1", "has no effect without timeline_filename", "set that too")
	}
	return e, outside, append(problems, refuse(given)...)
}

// refuse returns a problem for each of PyTorch's settings that is given.
func refuse(given map[string]any) (problems problem.List) {
	const text = "is for PyTorch"
	if block, _ := given[foreignSettings].(map[string]any); len(block) > 0 {
		problems.Add("config."+foreignSettings, nil, text, "Horovod's settings are in the "+Block+" block")
	}
	for _, f := range foreignFields {
		if value, _ := given[f.name].(string); value != "" {
			problems.Add("config."+f.name, value, text, f.why+"; leave it out")
		}
	}
	if block, _ := given[foreignBlock].(map[string]any); len(block) > 0 {
		problems.Add("config."+foreignBlock, nil, text, staying+"; leave it out")
	}
	return problems
}

// Presets sets variables that the job's configuration may override, but the environment of
// an image may not.
//
// HOROVOD_CACHE_CAPACITY = 0 avoids a bug of Horovod 0.28.1. A process that continues in
// the next ring keeps its cache of responses, while a newcomer starts with an empty one.
// (ResponseCache::set_capacity clears the cache only if the capacity changes;
// ProcessSet::Finalize never does.) Ranks then fuse cached tensors in different orders, and
// either abort or sum up tensors that do not belong together.
func Presets(e settings.Env) { e["HOROVOD_CACHE_CAPACITY"] = "0" }

// GlooTimeout declares the setting gloo_timeout, which is a key of config and not of the
// horovod block, and sets its default.
func GlooTimeout(e settings.Env) settings.Setting {
	const variable = "HOROVOD_GLOO_TIMEOUT_SECONDS"
	e[variable] = "30"
	return e.Seconds("gloo_timeout", variable, "30s", "time without an answer after which Horovod considers a peer dead", "Horovod")
}

// BlockSettings declares the settings of the horovod block.
func BlockSettings(e settings.Env) []settings.Setting {
	return []settings.Setting{
		megabytes(e, "fusion_threshold_mb", "HOROVOD_FUSION_THRESHOLD", "size of the buffer that tensors are fused in"),
		amount(e, "cycle_time_ms", "HOROVOD_CYCLE_TIME", "time between two looks for tensors to reduce"),
		e.Count("cache_capacity", "HOROVOD_CACHE_CAPACITY", "responses that are cached"),

		e.Flag("hierarchical_allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE", "reduce within each host first"),
		e.Flag("hierarchical_allgather", "HOROVOD_HIERARCHICAL_ALLGATHER", "gather within each host first"),
		e.Flag("torus_allreduce", "HOROVOD_TORUS_ALLREDUCE", "reduce along a torus of hosts and local ranks"),

		e.Flag("autotune", "HOROVOD_AUTOTUNE", "tune the settings above while training"),
		e.Word("autotune_log_file", "HOROVOD_AUTOTUNE_LOG", "file for what autotune tries"),
		e.Count("autotune_warmup_samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "samples to discard first"),
		e.Count("autotune_steps_per_sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "steps of one sample"),
		e.Count("autotune_bayes_opt_max_samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "most samples to take"),
		fraction(e, "autotune_gaussian_process_noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "noise to assume of samples"),

		e.Word("timeline_filename", "HOROVOD_TIMELINE", "file for the timeline"),
		e.Flag("timeline_mark_cycles", "HOROVOD_TIMELINE_MARK_CYCLES", "mark cycles in the timeline"),

		e.Inverse("stall_check", "HOROVOD_STALL_CHECK_DISABLE", "look for ranks that lag behind"),
		e.Count("stall_check_warning_time_seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS", "time before it warns"),
		e.Count("stall_check_shutdown_time_seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "time before it ends the job"),

		e.Count("num_nccl_streams", "HOROVOD_NUM_NCCL_STREAMS", "streams for NCCL"),
		e.Word("thread_affinity", "HOROVOD_THREAD_AFFINITY", "cores of the background threads"),

		e.OneOf("log_level", "HOROVOD_LOG_LEVEL", "least level that is logged", levels, strings.ToLower),
		e.Inverse("log_with_timestamp", "HOROVOD_LOG_HIDE_TIME", "log the time, too"),
	}
}
