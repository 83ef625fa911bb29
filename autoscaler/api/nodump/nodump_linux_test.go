// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nodump

import (
	"testing"

	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

func TestSet(t *testing.T) {
	must.NoError(t, Set())
	got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	must.NoError(t, err)
	must.Zero(t, got)
	must.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)) // as before
}
