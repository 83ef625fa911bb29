// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// The whole of `make bench ONLY=run` takes at most 90 minutes, and with FAST=1 ten, on a machine that
// does nothing else.
func TestPlanned(t *testing.T) {
	makefile, err := os.ReadFile("../../GNUmakefile")
	must.NoError(t, err)
	fast := regexp.MustCompile(`\$\(if \$\(FAST\),([^)]*)\)`).FindSubmatch(makefile)
	must.Len(t, 2, fast)
	for limit, args := range map[time.Duration]string{90 * time.Minute: "", 10 * time.Minute: string(fast[1])} {
		o, err := parse(append([]string{"-parts", ""}, strings.Fields(args)...))
		must.NoError(t, err)
		must.Between(t, limit/2, planned(o, len(runLaunchers)), limit)
	}
}

func TestNewest(t *testing.T) {
	must.Eq(t, train.Event{}, newest(nil))
	got := newest(train.Record{at(0, 1), at(0.3, 2), at(0.2, 2), {Kind: "epoch", Step: 9}})
	must.Eq(t, at(0.3, 2), got, must.Sprint("the first event of the highest step"))
}

func TestMeter(t *testing.T) {
	var m meter
	must.Eq(t, 0, m.mean())
	for range 3 {
		must.NoError(t, m.sample())
	}
	must.EqOp(t, 3, m.samples)
	must.GreaterEq(t, 0, m.mean())
	must.Eq(t, 2.5, (&meter{sum: 5, samples: 2}).mean())
}

// A delay below half a second is load: others used the CPU.
func TestStoodStill(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		watchInterval:                        0,
		watchInterval + 499*time.Millisecond: 0,
		watchInterval + 500*time.Millisecond: 500 * time.Millisecond,
		watchInterval + 15*time.Second:       15 * time.Second,
	} {
		if got := stoodStill(waited); got != want {
			t.Errorf("a wait of %s: %s, want %s", waited, got, want)
		}
	}
}
