// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package statusapi

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestNoOneHoldsTheStatusForLong(t *testing.T) {
	web := NewServer(nil)
	must.Positive(t, web.ReadHeaderTimeout)
	must.Positive(t, web.ReadTimeout)
	must.Positive(t, web.WriteTimeout)
	must.Positive(t, web.IdleTimeout)
}
