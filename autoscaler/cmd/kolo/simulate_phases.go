// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"path/filepath"

	"github.com/kolo-nomad/kolo/autoscaler/sim/trace"
)

// mostNoiseError is the largest -noise-error, for the reason of mostLengthError.
const mostNoiseError = 10

// adaptive reads the file of -phases; nil is no file.
func (a *simulateArgs) adaptive() (*trace.Phases, error) {
	if a.phases == "" {
		return nil, nil
	}
	gradients := ""
	if a.noiseError > 0 {
		gradients = filepath.Join(filepath.Dir(a.phases), "gradients.csv")
	}
	return trace.OpenPhases(a.phases, gradients)
}

// checkPhases checks the options for jobs that adapt their batch size.
func (a *simulateArgs) checkPhases() error {
	switch {
	case !(a.noiseError >= 0 && a.noiseError <= mostNoiseError):
		return badFlag("-noise-error: want a number from 0 to %d, got %g", mostNoiseError, a.noiseError)
	case a.phases == "" && a.noiseError > 0:
		return badFlag("-noise-error %g: only jobs that adapt their batch size measure their noise scale; name their -phases", a.noiseError)
	case a.phases == "":
		return nil
	case a.trace == "":
		return badFlag("-phases: a generated workload has no applications; name a -trace")
	case a.tick > 0:
		return badFlag("-phases: step times do not change in ticks; leave out -tick")
	case a.placements != "":
		return badFlag("-phases and -placements: goodput by placement is not known; leave out one of them")
	}
	return nil
}
