// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// readStatus returns the status of an autoscaler that has read the cluster's state, or an
// error if it has not yet.
func (c *apiCommand) readStatus(ctx context.Context) (*api.Status, error) {
	var s api.Status
	if _, err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s); err != nil {
		return nil, err
	}
	if !s.Ready {
		return nil, fmt.Errorf("%s; try again in a moment", stillReading(&s))
	}
	return &s, nil
}

func stillReading(s *api.Status) string {
	return s.Autoscaler + " is still reading the cluster's state"
}

// warnOld warns if the autoscaler could not read Nomad last time, because its answers may
// then be out of date.
func (c *apiCommand) warnOld(s *api.Status) {
	if s.Problem != "" {
		c.UI.Warn("Nomad could not be read, so this may be old: " + printable.Line(s.Problem))
	}
}

// warnIfOld asks for the status, for a command that does not need it, and calls warnOld.
func (c *apiCommand) warnIfOld(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s api.Status
	if _, err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s); err == nil {
		c.warnOld(&s)
	}
}
