// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package problem

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shoenig/test/must"
)

func TestError(t *testing.T) {
	for want, p := range map[string]Problem{
		`work_dir = "a\x00b": has a zero byte`:                    New("config.work_dir", "a\x00b", "has a zero byte", ""),
		`np = 9: is more than max_np = 2; lower np`:               New("config.np", 9, "is more than max_np = 2", "lower np"),
		`max_np = 100000000000000000000: is too many`:             New("config.max_np", 1e20, "is too many", ""),
		`resources.device: none is reserved`:                      New("resources.device", nil, "none is reserved", ""),
		`framework = "": is not set`:                              New("framework", "", "is not set", ""),
		`plugin "x": config.interface = "ib0": no such interface`: New(`plugin "x": config.interface`, "ib0", "no such interface", ""),
		`there are 3 more problems; correct those above first`:    New("", nil, "there are 3 more problems", "correct those above first"),
		`wait = "long": not a duration; write it like "90s"`:      Of("config.wait", "long", fmt.Errorf("set: %w", Problem{Text: "not a duration", Remedy: `write it like "90s"`})),
		`memlock = "lots": no number`:                             Of("config.memlock", "lots", errors.New("no number")),
		`not a duration; write it like "90s"`:                     {Text: "not a duration", Remedy: `write it like "90s"`},
	} {
		must.EqError(t, p, want)
	}
}

func TestList(t *testing.T) {
	var l List
	must.NoError(t, l.Err())
	must.SliceEmpty(t, l.Strings())
	l.Add("config.np", 9, "is too many", "lower it")
	l.Add("identity", nil, "there is none", "")
	must.EqError(t, l.Err(), "np = 9: is too many; lower it; identity: there is none")
	must.Eq(t, "np = 9: is too many; lower it\nidentity: there is none", l.Text())
}
