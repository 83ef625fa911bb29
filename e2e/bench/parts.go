// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/e2e/train"
)

// A part is one thing to measure.
type part struct {
	name      string
	framework train.Framework
	// alone states that the part has its own section of the report, and that -parts does
	// not select it by the name of a framework.
	alone   bool
	measure func(context.Context, *options, *Results) error
	// forget drops the results that will be measured again.
	forget func(*Results)
}

// parts are in the order of the report.
var parts = []part{
	{"resize", train.Horovod, false, func(ctx context.Context, o *options, r *Results) error {
		return measureResizes(ctx, o, launchers, &r.Resize, walk{route: route})
	}, func(r *Results) { r.Resize = nil }},
	{"slow", train.Horovod, false, func(ctx context.Context, o *options, r *Results) error {
		return measureResizes(ctx, o, launchers, &r.Slow, walk{route: route, importTime: slowImport})
	}, func(r *Results) { r.Slow = nil }},
	{"recovery", train.Horovod, false, func(ctx context.Context, o *options, r *Results) error {
		return measureRecovery(ctx, o, launchers, &r.Recovery, lastLost)
	}, func(r *Results) { r.Recovery = nil }},
	{"state", train.Horovod, false, func(ctx context.Context, o *options, r *Results) error {
		return measureState(ctx, o, launchers, &r.State, frozen)
	}, func(r *Results) { r.State = nil }},
	{"cost", train.Horovod, false, func(ctx context.Context, o *options, r *Results) error {
		return measureCost(ctx, o, &r.Cost)
	}, func(r *Results) { r.Cost = nil }},
	{"rendezvous", train.Horovod, false, func(ctx context.Context, o *options, r *Results) (err error) {
		r.Rendezvous, err = goRun(ctx, o, "./driver/framework/horovod/internal/bench", "-python", o.python(train.Horovod))
		return err
	}, func(r *Results) { r.Rendezvous = "" }},

	{"torch-resize", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		if err := measureReform(ctx, o, &r.Torch.Bare); err != nil {
			return err
		}
		return measureResizes(ctx, o, torchLaunchers, &r.Torch.Resize, walk{route: route})
	}, func(r *Results) { r.Torch.Resize, r.Torch.Bare = nil, nil }},
	{"torch-slow", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		return measureResizes(ctx, o, []launcher{koloTorch}, &r.Torch.Slow, walk{route: route, importTime: slowImport})
	}, func(r *Results) { r.Torch.Slow = nil }},
	{"torch-recovery", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		if err := measureRecovery(ctx, o, torchLaunchers, &r.Torch.Recovery, lastLost); err != nil {
			return err
		}
		if err := measureRecovery(ctx, o, torchLaunchers, &r.Torch.LeadRecovery, leadLost); err != nil {
			return err
		}
		return measureRecovery(ctx, o, torchLaunchers, &r.Torch.HostRecovery, hostLost)
	}, func(r *Results) { r.Torch.Recovery, r.Torch.LeadRecovery, r.Torch.HostRecovery = nil, nil, nil }},
	{"torch-state", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		if err := measureBroadcast(ctx, o, &r.Torch.Broadcast); err != nil {
			return err
		}
		return measureState(ctx, o, stateLaunchers, &r.Torch.State, frozen)
	}, func(r *Results) { r.Torch.State, r.Torch.Broadcast = nil, nil }},
	{"torch-trained", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		return measureState(ctx, o, []launcher{torchft, koloTorch}, &r.Torch.Trained, trained)
	}, func(r *Results) { r.Torch.Trained = nil }},
	{"torch-restart", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		return measureRestart(ctx, o, &r.Torch.Restart)
	}, func(r *Results) { r.Torch.Restart = nil }},
	{"torch-cost", train.Torch, false, func(ctx context.Context, o *options, r *Results) error {
		return measureCommits(ctx, o, &r.Torch.StepMS)
	}, func(r *Results) { r.Torch.StepMS = nil }},
	{"torch-store", train.Torch, false, func(ctx context.Context, o *options, r *Results) (err error) {
		r.Torch.Store, err = goRun(ctx, o, "./driver/framework/torch/internal/bench")
		return err
	}, func(r *Results) { r.Torch.Store = "" }},

	{"run", train.Torch, true, func(ctx context.Context, o *options, r *Results) error {
		return measureRuns(ctx, o, &r.Run)
	}, func(r *Results) { r.Run = nil }},

	{"sharded", shardedTorch, true, func(ctx context.Context, o *options, r *Results) error {
		return measureSharded(ctx, o, &r.Sharded)
	}, func(r *Results) { r.Sharded = nil }},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// pickParts returns the parts selected by a list of parts and frameworks.
func pickParts(list string) ([]part, error) {
	names := strings.Split(list, ",")
	picked := slices.DeleteFunc(slices.Clone(parts), func(p part) bool {
		return !slices.Contains(names, p.name) && (p.alone || !slices.Contains(names, p.framework.Name))
	})
	for _, name := range names {
		if _, err := train.Named(name); err != nil && name != "" && !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("%q is neither a framework nor one of %s", name, strings.Join(partNames(), ", "))
		}
	}
	return picked, nil
}
