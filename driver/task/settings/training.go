// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/driver/task/problem"
)

// Training configures the training of a job, whatever its framework. The agent's
// configuration embeds it.
type Training struct {
	// Slots is the number of training processes of a host; 0 until it is decided.
	Slots int `json:"slots"`
	// NP is the number of processes to wait for before the first ring, MinNP before later
	// ones. More than MaxNP are never used (0: no limit). NP is 0 until it is decided.
	NP    int `json:"np"`
	MinNP int `json:"min_np"`
	MaxNP int `json:"max_np"`
	// Replica is how many processes share one copy of a sharded model; a ring has whole
	// replicas only. With 0 or 1, each process has the whole model. See BindReplica.
	Replica int `json:"replica,omitempty"`

	// ElasticTimeout bounds each wait for NP or MinNP processes.
	ElasticTimeout Duration `json:"elastic_timeout"`
	// Debounce is how long the leader waits for more newcomers before it starts
	// the ones it has.
	Debounce Duration `json:"debounce"`
	// FinishTimeout bounds the wait for the other slots after one exits with 0.
	FinishTimeout Duration `json:"finish_timeout"`
	// StallTimeout bounds the time without a step, for a script that reports steps. It
	// counts from the last step, or from when the ring was connected. After that the ring
	// is broken and formed again without the processes that hang. With 0, a stall is only
	// reported, after a minute or the time of thirty steps. With Auto, the time follows from
	// the ring's own steps; see package stall.
	StallTimeout Duration `json:"stall_timeout,omitempty"`
	// CommitTimeout bounds how long a process that was notified of a change may be busy
	// before it leaves its ring. It counts once others have left the ring or have run out
	// of time to leave. 0 means the default, see CommitLimit.
	CommitTimeout Duration `json:"commit_timeout,omitempty"`
	// LeaveTimeout is the time between the task's stop signal and its kill, if Nomad does
	// not provide it.
	LeaveTimeout Duration `json:"leave_timeout"`

	// ResetLimit is the most rings after the first; 0 is no limit.
	ResetLimit int `json:"reset_limit"`
	// SlotRestarts is how often a slot is restarted in place before its host is given back.
	// One restart is forgiven every ten minutes.
	SlotRestarts int `json:"slot_restarts"`
	// OnRingLost is "fail" or "restart". It decides what to do when no process with the
	// training state is left.
	OnRingLost string `json:"on_ring_lost"`
}

// Auto is the StallTimeout of a job whose own steps show how long one may take.
const Auto Duration = -1

// CommitLimit returns CommitTimeout if it is set. Otherwise it returns StallTimeout, within
// which a healthy script makes a step, or ten minutes if that is not set either, or Auto.
func (t *Training) CommitLimit() time.Duration {
	return time.Duration(cmp.Or(t.CommitTimeout, max(t.StallTimeout, 0), Duration(10*time.Minute)))
}

// Bind sets every field to its default and returns the settings that fill them.
func (t *Training) Bind() []Setting { return append(t.counts(), t.others()...) }

func (t *Training) counts() []Setting {
	return []Setting{
		Count(&t.Slots, "slots", 0, 1,
			"training processes per allocation").shown("number of reserved GPUs, else 1"),
		Count(&t.MinNP, "min_np", 1, 1, "fewest processes to train with"),
		Count(&t.NP, "np", 0, 1, "processes that the first ring waits for").shown("min_np"),
		Count(&t.MaxNP, "max_np", 0, 0, "most processes that are used").shown("no limit"),
		Count(&t.ResetLimit, "reset_limit", 0, 0, "most rings after the first").shown("0: none"),
		Count(&t.SlotRestarts, "slot_restarts", 3, 0, "how often a slot is started again in place"),
	}
}

func (t *Training) others() []Setting {
	span := func(p *Duration) *time.Duration { return (*time.Duration)(p) }
	return []Setting{
		Time(span(&t.ElasticTimeout), "elastic_timeout", 10*time.Minute, time.Second,
			"bound for each wait for enough processes"),
		Time(span(&t.Debounce), "debounce", time.Second, 0,
			"how long to wait for more newcomers before a change"),
		Time(span(&t.FinishTimeout), "finish_timeout", 10*time.Minute, 0,
			"bound for the wait for the others once one slot has exited with 0"),
		stallTimeout(&t.StallTimeout),
		Time(span(&t.CommitTimeout), "commit_timeout", 0, time.Second,
			"how long a process that was notified of a change may be busy before its next commit, once others have left the ring").shown("stall_timeout, else 10m"),
		Time(span(&t.LeaveTimeout), "leave_timeout", 25*time.Second, time.Second,
			"time to reach a commit when something other than Nomad signals the agent"),
		OneOf(&t.OnRingLost, "on_ring_lost", []string{"fail", "restart"},
			"what to do when no process holds the training state"),
	}
}

// stallTimeout declares the setting of a Training's StallTimeout.
func stallTimeout(p *Duration) Setting {
	s := Time((*time.Duration)(p), "stall_timeout", 0, 0,
		`how long a script that reports steps may make none before the ring is formed again without the processes that hang; "auto" derives it from the ring's own steps`).shown("none")
	duration := s.set
	s.set = func(value any) error {
		switch text := textOf(value); text {
		case "auto":
			*p = Auto
		case "off":
			*p = 0
		default:
			if _, err := time.ParseDuration(text); err != nil {
				return problem.Problem{Text: `neither a duration nor "auto" or "off"`, Remedy: `write it like "90s", or "auto"`}
			}
			return duration(value)
		}
		return nil
	}
	return s
}

// Renamed maps earlier names of settings to the current ones.
var Renamed = map[string]string{"settle": "debounce"}

// Read sets t from a jobspec's values. slots is the number of slots if the jobspec has
// none.
func (t *Training) Read(given map[string]any, slots int) (problems problem.List) {
	for _, old := range slices.Sorted(maps.Keys(Renamed)) {
		if value := given[old]; value != nil {
			problems.Add("config."+old, value, "this setting is named "+Renamed[old], "rename it")
		}
	}
	counts := t.counts()
	if given["replica"] != nil { // only frameworks that support it have it; see package taskconfig
		counts = append(counts, t.BindReplica())
	}
	wrong := Read(counts, given, "config")
	if given["min_np"] == nil {
		t.MinNP = t.replica()
	}
	if len(wrong) == 0 { // comparing values that are wrong by themselves would only confuse
		wrong = t.complete(slots)
	}
	return slices.Concat(problems, wrong, Read(t.others(), given, "config"))
}

// complete fills in the counts that are left open, and returns the contradictions between
// them.
func (t *Training) complete(slots int) (problems problem.List) {
	const above = "is more than max_np = %d"
	add := func(name string, value int, format string, limit int, remedy string) {
		problems.Add("config."+name, value, fmt.Sprintf(format, limit), remedy)
	}
	t.Slots = cmp.Or(t.Slots, slots)
	given := t.NP > 0
	t.NP = cmp.Or(t.NP, t.MinNP)
	limited := t.MaxNP > 0
	if limited && t.MinNP > t.MaxNP {
		add("min_np", t.MinNP, above, t.MaxNP, "lower min_np or raise max_np")
	}
	if t.NP < t.MinNP {
		add("np", t.NP, "is less than min_np = %d", t.MinNP, "raise np, or leave it out to start with min_np")
	}
	if given && limited && t.NP > t.MaxNP {
		add("np", t.NP, above, t.MaxNP, "lower np or raise max_np")
	}
	if limited && t.Slots > t.MaxNP {
		add("slots", t.Slots, above+", so some could never train", t.MaxNP, "lower slots (or the device count) or raise max_np")
	}
	return append(problems, t.Uneven()...)
}

// Duration is a time.Duration that is encoded as text ("1m30s"), or Auto ("auto").
type Duration time.Duration

// MarshalText returns d in the format of time.Duration.
func (d Duration) MarshalText() ([]byte, error) {
	if d == Auto {
		return []byte("auto"), nil
	}
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText parses the format of time.ParseDuration.
func (d *Duration) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*d = Auto
		return nil
	}
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
