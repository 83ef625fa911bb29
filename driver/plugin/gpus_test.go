// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// TestJobsEnvironmentNamesNoDevices is about a job that writes another's GPU
// into its own env block.
func TestJobsEnvironmentNamesNoDevices(t *testing.T) {
	h := newHost()
	h.env["KOLO_GPUS_x"], h.env[nvidiaVisible] = "GPU-a", "GPU-b"
	pl, err := validate(goodTask(), h.surroundings())
	must.NoError(t, err)
	must.SliceEmpty(t, pl.gpus)
	must.StrNotContains(t, strings.Join(pl.environment(h.env, "/c"), " "), "GPU-")
}
