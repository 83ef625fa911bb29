// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/internal/intrudertest"
)

// spy sees the endpoints that a launcher's framework makes.
type spy struct {
	mu        sync.Mutex
	endpoints map[elastic.HostID]host.Endpoint // the newest of each host
}

func spyOn(r *launcher) *spy {
	s := &spy{endpoints: map[elastic.HostID]host.Endpoint{}}
	real := r.framework
	r.framework = func(id elastic.HostID) host.Framework { return spied{real(id), s, id} }
	return s
}

type spied struct {
	host.Framework
	s  *spy
	id elastic.HostID
}

func (f spied) NewEndpoint(surrogate bool, e host.Events) host.Endpoint {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.endpoints[f.id] = f.Framework.NewEndpoint(surrogate, e)
	return f.s.endpoints[f.id]
}

// endpoint returns the endpoint of a host's newest process.
func (s *spy) endpoint(id elastic.HostID) host.Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endpoints[id]
}

// port returns the rendezvous port of a host's newest process.
func (s *spy) port(t *testing.T, id elastic.HostID) int {
	_, fixed := s.endpoint(id).Environment(elastic.Assignment{})
	port, err := strconv.Atoi(fixed["HOROVOD_GLOO_RENDEZVOUS_PORT"])
	must.NoError(t, err)
	return port
}

// A process outside the task gets no answer, under any user: it reads and writes no
// address, replaces no notify target and removes no slot.
func TestForeignProcessIsNotAnswered(t *testing.T) {
	t.Parallel()
	users := map[string]int{"the same user": os.Getuid()}
	if os.Getuid() == 0 {
		users["another user"] = 65534
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := startJob(t, 0, "a:1")
			j.size(1)
			i := intrudertest.Start(t, j.spy.port(t, "a"), uid, "read,forge,notify,delete")
			results := []string{i.Result(t), i.Result(t), i.Result(t), i.Result(t)}
			must.Eq(t, []string{"read unanswered", "forge unanswered", "notify unanswered", "delete unanswered"}, results)
			// The worker answers a notice, with its own key; this one is too old to act on.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			must.NoError(t, j.spy.endpoint("a").Notify(ctx, 0))
			j.list("a:2") // the slot itself is answered as before
			j.size(2)
		})
	}
}

// Connections of a foreign process displace none of the slot's own, whether it holds them
// open or connects again and again.
func TestForeignConnectionsDoNotStarveASlot(t *testing.T) {
	for _, attack := range []string{"hold3000", "flood"} {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			j := startJob(t, 0, "a:1")
			j.size(1)
			i := intrudertest.Start(t, j.spy.port(t, "a"), os.Getuid(), attack)
			must.Eq(t, attack+" done", i.Result(t))
			j.list("a:2")
			j.size(2)
		})
	}
}
