// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package release

import (
	"testing"

	"github.com/shoenig/test/must"
)

func TestCheck(t *testing.T) {
	for version, ok := range map[string]bool{
		"2.1": true, "2.6.0+debian": true, "2.15.0a0+git1234": true, "3.0": true, "10.0.0": true, "": true, "nightly": true,
		"2.0.1": false, "1.13.1": false, "0.4": false,
	} {
		must.Eq(t, ok, Check(version) == nil, must.Sprint(version))
	}
	must.EqError(t, Check("1.13.1"), "PyTorch 1.13.1 is too old: kolo.torch needs 2.1")
}
