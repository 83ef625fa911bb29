// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package jobspecs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2/hclsimple"
	"github.com/shoenig/test/must"
)

// policies is a file of Nomad Autoscaler, as its documentation of scaling policies
// has it (developer.hashicorp.com/nomad/tools/autoscaling/policy): what is not in
// it is an error.
type policies struct {
	Scaling []struct {
		Name    string `hcl:"name,label"`
		Enabled bool   `hcl:"enabled,optional"`
		Type    string `hcl:"type,optional"`
		Min     int64  `hcl:"min,optional"`
		Max     int64  `hcl:"max"`
		Policy  struct {
			Cooldown           string `hcl:"cooldown,optional"`
			CooldownUp         string `hcl:"cooldown_on_scale_up,optional"`
			EvaluationInterval string `hcl:"evaluation_interval,optional"`
			OnCheckError       string `hcl:"on_check_error,optional"`
			Checks             []struct {
				Name        string `hcl:"name,label"`
				Group       string `hcl:"group,optional"`
				Source      string `hcl:"source,optional"`
				Query       string `hcl:"query,optional"`
				QueryWindow string `hcl:"query_window,optional"`
				OnError     string `hcl:"on_error,optional"`
				Strategy    plugin `hcl:"strategy,block"`
			} `hcl:"check,block"`
			Target plugin `hcl:"target,block"`
		} `hcl:"policy,block"`
	} `hcl:"scaling,block"`
}

type plugin struct {
	Name    string            `hcl:"name,label"`
	Options map[string]string `hcl:",remain"`
}

// strategies have the options that Nomad Autoscaler's own strategies take.
var strategies = map[string][]string{
	"pass-through": {"max_scale_up", "max_scale_down"},
	"threshold":    {"lower_bound", "upper_bound", "delta", "percentage", "value", "within_bounds_trigger"},
}

// metricName is that of a metric of Kolo in a query.
var metricName = regexp.MustCompile(`kolo_\w+`)

// TestScalingPolicies checks that the policies for Nomad Autoscaler follow its schema, use
// its strategies and selectors, and query existing metrics.
func TestScalingPolicies(t *testing.T) {
	paths, err := filepath.Glob("*.scaling.hcl")
	must.NoError(t, err)
	must.SliceNotEmpty(t, paths)
	reference, err := os.ReadFile("../docs/reference/metrics.md")
	must.NoError(t, err)
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			var file policies
			must.NoError(t, hclsimple.DecodeFile(path, nil, &file))
			must.SliceNotEmpty(t, file.Scaling)
			for _, s := range file.Scaling {
				must.Eq(t, "cluster", s.Type)
				must.LessEq(t, s.Max, s.Min)
				for _, d := range []string{s.Policy.Cooldown, s.Policy.EvaluationInterval} {
					_, err := time.ParseDuration(d)
					must.NoError(t, err)
				}
				must.SliceContains(t, []string{"fail", "ignore"}, s.Policy.OnCheckError)
				must.SliceContains(t, []string{"empty", "empty_ignore_system"}, s.Policy.Target.Options["node_selector_strategy"])
				must.SliceNotEmpty(t, s.Policy.Checks)
				for _, c := range s.Policy.Checks {
					must.Eq(t, "prometheus", c.Source)
					names := metricName.FindAllString(c.Query, -1)
					must.SliceNotEmpty(t, names)
					for _, name := range names {
						must.StrContains(t, string(reference), fmt.Sprintf("| `%s` | gauge |", name))
					}
					_, err := time.ParseDuration(c.QueryWindow)
					must.NoError(t, err)
					must.MapContainsKey(t, strategies, c.Strategy.Name)
					for option, value := range c.Strategy.Options {
						must.SliceContains(t, strategies[c.Strategy.Name], option)
						_, err := strconv.Atoi(value)
						must.NoError(t, err)
					}
				}
			}
		})
	}
}
