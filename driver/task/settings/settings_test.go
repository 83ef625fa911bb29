// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package settings

import (
	"encoding/json"
	"flag"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

func TestReadSetsWhatIsGiven(t *testing.T) {
	var training Training
	must.SliceEmpty(t, training.Read(map[string]any{
		"min_np": int64(2), "max_np": 8., "slots": nil, "debounce": "0s", "stall_timeout": "90s", "elastic_timeout": "", "other": 1,
	}, 4))
	must.Eq(t, Training{
		Slots: 4, NP: 2, MinNP: 2, MaxNP: 8, SlotRestarts: 3, OnRingLost: "fail",
		ElasticTimeout: Duration(10 * time.Minute), FinishTimeout: Duration(10 * time.Minute),
		StallTimeout: Duration(90 * time.Second), LeaveTimeout: Duration(25 * time.Second),
	}, training)
}

func TestCommitLimitIsTheStallTimeoutUnlessGiven(t *testing.T) {
	for given, want := range map[Training]time.Duration{
		{}:                                    10 * time.Minute,
		{StallTimeout: Auto}:                  10 * time.Minute,
		{StallTimeout: Duration(time.Minute)}: time.Minute,
		{StallTimeout: Duration(time.Minute), CommitTimeout: Duration(20 * time.Minute)}: 20 * time.Minute,
	} {
		must.Eq(t, want, given.CommitLimit())
	}
}

func TestStallTimeoutIsADurationOrAWord(t *testing.T) {
	for given, want := range map[string]Duration{"auto": Auto, "off": 0, "0s": 0, "90s": Duration(90 * time.Second)} {
		var training, read Training
		must.SliceEmpty(t, training.Read(map[string]any{"stall_timeout": given}, 1))
		must.Eq(t, want, training.StallTimeout)
		text, err := json.Marshal(training)
		must.NoError(t, err)
		must.NoError(t, json.Unmarshal(text, &read))
		must.Eq(t, training, read, must.Sprint("as the plugin passes it to the agent"))
	}
	for given, want := range map[string]string{
		"soon": `stall_timeout = "soon": neither a duration nor "auto" or "off"; write it like "90s", or "auto"`,
		"Auto": `stall_timeout = "Auto": neither a duration nor "auto" or "off"; write it like "90s", or "auto"`,
		"-1ns": `stall_timeout = "-1ns": must be at least 0s`,
	} {
		must.Eq(t, []string{want}, new(Training).Read(map[string]any{"stall_timeout": given}, 1).Strings())
	}
}

func TestReadNamesEveryMistake(t *testing.T) {
	cases := map[string]struct {
		given map[string]any
		want  []string
	}{
		"values": {
			map[string]any{"np": 0.5, "slots": true, "reset_limit": -1, "leave_timeout": "soon", "on_ring_lost": "weep"},
			[]string{
				"slots = true: must be a whole number", "np = 0.5: must be a whole number", "reset_limit = -1: must be at least 0",
				`leave_timeout = "soon": not a duration; write it like "90s" or "10m"`, `on_ring_lost = "weep": must be "fail" or "restart"`,
			},
		},
		"contradictions and a wrong duration": {
			map[string]any{"np": 9, "min_np": 3, "max_np": 2, "leave_timeout": "0s"},
			[]string{
				"min_np = 3: is more than max_np = 2; lower min_np or raise max_np",
				"np = 9: is more than max_np = 2; lower np or raise max_np",
				`leave_timeout = "0s": must be at least 1s`,
			},
		},
		"counts that replicas don't make up": {
			map[string]any{"replica": 4, "slots": 6, "min_np": 3, "np": 8, "max_np": 10},
			[]string{
				"min_np = 3: is no multiple of replica = 4; set it to 4", "max_np = 10: is no multiple of replica = 4; set it to 8 or 12",
				"slots = 6: is no multiple of replica = 4; set it (or the device count) to a multiple or a divisor of replica, so that no two replicas share a host in part",
			},
		},
		"no replica":               {map[string]any{"replica": 0}, []string{"replica = 0: must be at least 1"}},
		"an earlier name":          {map[string]any{"settle": "1s"}, []string{`settle = "1s": this setting is named debounce; rename it`}},
		"a number that is too big": {map[string]any{"max_np": 1e300}, []string{"max_np = 1" + zeros(300) + ": must be a whole number"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			must.Eq(t, c.want, new(Training).Read(c.given, 1).Strings())
		})
	}
}

func TestOneReplicaIsEnoughByDefault(t *testing.T) {
	for _, slots := range []int{1, 2, 4, 8} {
		var training Training
		must.SliceEmpty(t, training.Read(map[string]any{"replica": 4}, slots))
		must.Eq(t, []int{4, 4, 0, slots}, []int{training.MinNP, training.NP, training.MaxNP, training.Slots})
	}
}

func zeros(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}

// TestDefaultsAreValid sets each setting to its displayed default, if that is a
// value.
func TestDefaultsAreValid(t *testing.T) {
	var training, again Training
	training.Bind()
	words := []string{"number of reserved GPUs, else 1", "min_np", "no limit", "none", "0: none", "stall_timeout, else 10m"}
	for _, s := range again.Bind() {
		if s.Set(s.Default) != nil {
			must.SliceContains(t, words, s.Default, must.Sprint(s.Name))
		}
	}
	must.Eq(t, training, again)
}

func TestSettingsAreFlags(t *testing.T) {
	var training Training
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	for _, s := range training.Bind() {
		f.Var(s, s.Name, s.Doc)
	}
	must.NoError(t, f.Parse([]string{"-min_np=2", "-debounce", "3s"}))
	must.Eq(t, 2, training.MinNP)
	must.Eq(t, Duration(3*time.Second), training.Debounce)
	must.Eq(t, "10m", f.Lookup("elastic_timeout").DefValue)
}

func TestTrainingSurvivesJSON(t *testing.T) {
	var training, read Training
	training.Bind()
	data, err := json.Marshal(training)
	must.NoError(t, err)
	must.NoError(t, json.Unmarshal(data, &read))
	must.Eq(t, training, read)
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 10 * time.Minute: "10m", time.Hour + time.Minute: "1h1m",
	} {
		must.Eq(t, want, short(d))
	}
}
