// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/controller"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin"
)

// ownPolicyTimeout is what a policy of one's own has to start, and to decide.
// The round waits for it, so it is short.
const ownPolicyTimeout = 3 * time.Second

// ownPolicies makes the host of the policies in policy_dir, which ends with
// the group; nil where there is no such directory.
func ownPolicies(ctx context.Context, g *errgroup.Group, cfg *config.Config, log hclog.Logger) (controller.Source, error) {
	if cfg.PolicyDir == "" {
		return nil, nil
	}
	h := plugin.NewHost(cfg.PolicyDir, ownPolicyTimeout, log.Named("policy"))
	names, err := h.Names()
	if err != nil {
		return nil, err
	}
	log.Info("policies of one's own", "dir", cfg.PolicyDir, "found", names)
	g.Go(func() error {
		<-ctx.Done()
		h.Close()
		return nil
	})
	return h, nil
}
