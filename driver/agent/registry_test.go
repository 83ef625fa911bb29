// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
)

// fixed is a registry whose content never changes.
type fixed struct{ view registry.View }

func (f fixed) Watch(ctx context.Context) <-chan registry.View {
	views := make(chan registry.View, 1)
	views <- f.view
	context.AfterFunc(ctx, func() { close(views) })
	return views
}

func (f fixed) Read(context.Context) registry.View { return f.view }

// An allocation that no service of its group registers reports that soon, and gives up
// later.
func TestUnregistered(t *testing.T) {
	for name, c := range map[string]struct {
		view  registry.View
		warns string
	}{
		"no such service":       {registry.View{At: time.Now()}, `[WARN]  service "resnet": this allocation is not registered after 10s; the group needs service { name = "resnet"`},
		"Nomad does not answer": {registry.View{Err: errors.New("connection refused")}, "[INFO]  waiting for the service registry: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				log := hclog.New(&hclog.LoggerOptions{Output: &out})
				ev, err := events.Open("", log)
				must.NoError(t, err)
				a := &agent{config: config.Config{Service: "resnet", AllocID: "a1"}, events: ev, log: log}
				began := time.Now()
				_, _, err = a.findSelf(t.Context(), fixed{c.view}, nil)
				must.Error(t, err)
				must.Eq(t, registerWait, time.Since(began))
				must.StrContains(t, out.String(), c.warns)
				must.Len(t, 1, ev.Recent())
			})
		})
	}
}
