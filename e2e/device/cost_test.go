// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package device

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

// The test measures the first fingerprint and one reading per second on an HGX
// H100, in NVML calls, CPU time and memory. It asserts only the calls.
func TestCost(t *testing.T) {
	path, err := binary()
	must.NoError(t, err)
	hw := nvmltest.New(t, "hgx-h100")
	ours, theirs := measureBoth(t, path, hw.Env(), hw.Calls)
	must.Between(t, 0.8, ours.statsRate, 1.2)
	// Five calls a second for each GPU, nine more every five seconds, and the
	// regular look at everything.
	must.Less(t, 80.0, ours.callRate)
	if theirs != nil {
		must.Less(t, theirs.callRate, ours.callRate)
	}
}
