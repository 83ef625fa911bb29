// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
)

func TestController_TopologyBeforeTheFirstRound(t *testing.T) {
	_, err := new(Controller).Topology()
	must.ErrorIs(t, err, cluster.ErrNotReady)
}
