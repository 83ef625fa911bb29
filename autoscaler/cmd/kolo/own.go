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

// externalPolicyTimeout is how long an external policy may take to start, and to
// decide. No round waits for it: until it has answered, its last decision stays
// in force.
const externalPolicyTimeout = 3 * time.Second

// externalPolicies makes the host of the policies in policy_dir, which ends with
// the group; nil where there is no such directory.
func externalPolicies(ctx context.Context, g *errgroup.Group, cfg *config.Config, log hclog.Logger) (controller.ExternalPolicies, error) {
	if cfg.PolicyDir == "" {
		return nil, nil
	}
	h := plugin.NewHost(cfg.PolicyDir, externalPolicyTimeout, log.Named("policy"))
	names, err := h.Names()
	if err != nil {
		return nil, err
	}
	log.Info("external policies", "dir", cfg.PolicyDir, "found", names)
	g.Go(func() error {
		<-ctx.Done()
		h.Close()
		return nil
	})
	return h, nil
}
