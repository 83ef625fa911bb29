// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// TestCompareDrivers compares another build of the driver, KOLO_COMPARE_DRIVER,
// with this one, alternating between them: the time to the first ring of two hosts,
// and the gaps of resizes. It is for people to read and asserts nothing about time.
// KOLO_COMPARE_ROUNDS is the number of rounds, 5 by default.
func TestCompareDrivers(t *testing.T) {
	other := os.Getenv("KOLO_COMPARE_DRIVER")
	if other == "" {
		t.Skip("KOLO_COMPARE_DRIVER names no other build of the driver")
	}
	rounds, err := strconv.Atoi(os.Getenv("KOLO_COMPARE_ROUNDS"))
	if err != nil {
		rounds = 5
	}
	ctx := testContext(t, time.Duration(rounds)*4*time.Minute)
	builds := []string{other, filepath.Join(root(t), "bin", "nomad-driver-horovod")}
	clusters := map[string]*cluster.Cluster{}
	for _, driver := range builds {
		c, err := cluster.Start(ctx, cluster.Options{
			Nomad: cluster.Binary(root(t)), Clients: 2, Log: t.Logf,
			Plugins: map[string]string{driver: fmt.Sprintf("allow_isolation_none = true\npython = %q\n", python(t))},
			Env:     map[string]string{"PATH": filepath.Dir(python(t)) + ":" + os.Getenv("PATH")},
		})
		must.NoError(t, err)
		t.Cleanup(func() { must.NoError(t, c.Stop()) })
		clusters[driver] = c
	}
	measured := map[string]map[string][]float64{}
	for round := range rounds {
		// Who is second may find files in the cache.
		slices.Reverse(builds)
		for _, driver := range builds {
			t.Run(strconv.Itoa(round), func(t *testing.T) {
				for what, seconds := range compared(ctx, t, clusters[driver]) {
					if measured[what] == nil {
						measured[what] = map[string][]float64{}
					}
					measured[what][driver] = append(measured[what][driver], seconds...)
				}
			})
		}
	}
	for _, what := range []string{"first ring", "2→3", "3→2"} {
		before, after := measured[what][other], measured[what][filepath.Join(root(t), "bin", "nomad-driver-horovod")]
		low, high := ratioInterval(before, after)
		t.Logf("%-10s  other %s  this %s  ratio of medians %.3f, 90 %% between %.3f and %.3f", what,
			spreadOf(before), spreadOf(after), median(after)/median(before), low, high)
		t.Logf("%-10s  other %.3f", what, slices.Sorted(slices.Values(before)))
		t.Logf("%-10s  this  %.3f", what, slices.Sorted(slices.Values(after)))
	}
}

// compared trains once, with four resizes each way, and returns how long things
// took, in seconds.
func compared(ctx context.Context, t *testing.T, c *cluster.Cluster) map[string][]float64 {
	begun := time.Now()
	tr := startTraining(ctx, t, c, trainingOptions{count: 2, config: map[string]any{"np": 2}, edit: spread})
	tr.waitSize(ctx, 2)
	first := tr.record().Where("step", func(e train.Event) bool { return e.Size == 2 })[0]
	for range 4 {
		tr.scale(ctx, 3)
		tr.waitSize(ctx, 3)
		tr.scale(ctx, 2)
		tr.waitSize(ctx, 2)
	}
	out := map[string][]float64{"first ring": {first.Time().Sub(begun).Seconds()}}
	for _, z := range tr.record().Resizes() {
		what := fmt.Sprintf("%d→%d", z.From, z.To)
		out[what] = append(out[what], z.Gap().Seconds())
	}
	return out
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratioInterval returns between which values the ratio of the medians lies, nine
// times of ten: the percentile bootstrap (Efron 1979). It reports whether a run had
// enough rounds for the difference that was looked for.
func ratioInterval(before, after []float64) (low, high float64) {
	if len(before) == 0 || len(after) == 0 {
		return 0, 0
	}
	const draws = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	resample := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for i := range out {
			out[i] = v[rng.IntN(len(v))]
		}
		return out
	}
	var ratios []float64
	for range draws {
		ratios = append(ratios, median(resample(after))/median(resample(before)))
	}
	slices.Sort(ratios)
	return ratios[draws/20], ratios[draws-1-draws/20]
}

func spreadOf(v []float64) string {
	if len(v) == 0 {
		return "none"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f] n=%d", median(v), slices.Min(v), slices.Max(v), len(v))
}
