// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sim

import "math"

// Metric is one number of a Summary, for tables and plots.
type Metric struct {
	Key   string // stable, for JSON and CSV
	Title string // for people
	Unit  string
	Good  int // -1: less is better, 1: more is better, 0: neither
	Of    func(*Summary) float64
}

// Metrics lists the numbers that reports show, in their order.
func Metrics() []Metric {
	return []Metric{
		{"avg_jct_s", "avg JCT", "s", -1, func(s *Summary) float64 { return s.JCT.Mean }},
		{"median_jct_s", "median JCT", "s", -1, func(s *Summary) float64 { return s.JCT.Median }},
		{"p99_jct_s", "p99 JCT", "s", -1, func(s *Summary) float64 { return s.JCT.P99 }},
		{"avg_queueing_s", "queueing", "s", -1, func(s *Summary) float64 { return s.Queueing.Mean }},
		{"makespan_s", "makespan", "s", -1, func(s *Summary) float64 { return s.Makespan }},
		{"gpu_hours", "GPU-hours", "h", -1, func(s *Summary) float64 { return s.GPUHours }},
		{"utilisation", "utilisation", "%", 0, func(s *Summary) float64 { return 100 * s.Utilisation }},
		{"productive", "productive", "%", 1, func(s *Summary) float64 { return 100 * s.Productive }},
		{"resizes_per_job", "resizes/job", "", -1, func(s *Summary) float64 { return s.ResizesPerJob }},
		{"migrations_per_job", "migrations/job", "", -1, func(s *Summary) float64 { return s.MovesPerJob }},
		{"avg_fairness", "fairness", "", -1, func(s *Summary) float64 { return s.Fairness.Mean }},
		{"p99_fairness", "p99 fairness", "", -1, func(s *Summary) float64 { return s.Fairness.P99 }},
		{"unfair", "worse off", "%", -1, func(s *Summary) float64 { return 100 * s.Unfair }},
		{"missed_deadlines", "missed", "", -1, func(s *Summary) float64 { return float64(s.Missed) }},
		{"unfinished", "unfinished", "", -1, func(s *Summary) float64 { return float64(s.Unfinished) }},
	}
}

// Estimate is a mean over seeds with the half-width of its 95 % confidence interval. With
// one seed there is no interval, and CI is 0.
type Estimate struct {
	Mean float64 `json:"mean"`
	CI   float64 `json:"ci95,omitempty"`
}

// estimate returns the mean of values with a confidence interval by Student's t.
func estimate(values []float64) Estimate {
	n := float64(len(values))
	if n == 0 {
		return Estimate{}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	if n < 2 {
		return Estimate{Mean: mean}
	}
	square := 0.0
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return Estimate{Mean: mean, CI: student95(len(values)-1) * math.Sqrt(square/(n-1)/n)}
}

// student95 returns the 97.5 % quantile of Student's t distribution. Beyond the table it
// uses the first terms of the expansion around the normal quantile, which are exact to
// three digits there.
func student95(df int) float64 {
	table := [...]float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	}
	if df <= len(table) {
		return table[df-1]
	}
	const z = 1.959964
	v := float64(df)
	return z + (z*z*z+z)/(4*v) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*v*v)
}
