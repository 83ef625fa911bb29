// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// TestShow_AJobCannotSteerTheTerminal has a tenant name a job so that it would
// hide itself from the operator.
func TestShow_AJobCannotSteerTheTerminal(t *testing.T) {
	ui := cli.NewMockUi()
	c := &apiCommand{meta: meta{UI: ui}}
	c.show(nil, func() string {
		return drawStatus(&api.Status{Ready: true, Jobs: []api.JobStatus{{JobKey: planner.JobKey{ID: "x\x1b[2K\x1b[1A"}, Reason: "\x1b]0;title\x07"}}})
	})
	must.StrNotContains(t, ui.OutputWriter.String(), "\x1b")
	must.StrContains(t, ui.OutputWriter.String(), "x�[2K")
}
