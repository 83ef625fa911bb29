// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

type runningHost struct {
	host    *host.Host
	id      elastic.HostID
	name    string
	slots   int
	leaving bool
}

// follow starts new hosts, changes the slots of others, and releases hosts that are no
// longer listed.
func (r *launcher) follow(ctx context.Context, hosts []listedHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = map[string]listedHost{}
	for _, h := range hosts {
		r.listed[h.name] = h
		switch run := r.named(h.name); {
		case run == nil, run.leaving: // a host that leaves can't be held back: a new one takes its place
			r.start(ctx, h)
		case run.slots != h.slots:
			r.resize(ctx, run, h)
		}
	}
	for _, run := range r.hosts {
		if _, listed := r.listed[run.name]; !listed && !run.leaving {
			run.leaving = true
			run.host.Leave(30 * time.Second)
		}
	}
}

// named returns the host with a name. If there are several, it returns the latest, since
// the others are leaving.
func (r *launcher) named(name string) *runningHost {
	return r.hosts[r.latest(name)]
}

// latest returns the last host that was started under a name.
func (r *launcher) latest(name string) elastic.HostID {
	if n := r.lives[name]; n > 1 {
		return elastic.HostID(fmt.Sprintf("%s.%d", name, n))
	}
	return elastic.HostID(name)
}

// resize changes a host's slots. If processes can't change their ring, another host takes
// its place: it starts while the current one trains, as other processes do.
func (r *launcher) resize(ctx context.Context, run *runningHost, h listedHost) {
	r.restarts = r.restarts || run.host.Restarts()
	if r.restarts {
		run.leaving = true
		run.host.Leave(30 * time.Second)
		r.start(ctx, h)
		return
	}
	run.slots = h.slots
	run.host.Resize(h.slots)
	r.leader.Resize(run.id, h.slots)
}

// start runs a host. The caller holds r.mu. For the leader, a host that comes back is a new
// one.
func (r *launcher) start(ctx context.Context, h listedHost) {
	r.joined++
	r.lives[h.name]++
	c := r.config
	id := r.latest(h.name)
	c.Slots, c.Index, c.AllocID = h.slots, r.joined, string(id)
	c.ProgressDir = filepath.Join(c.ProgressDir, c.AllocID)
	if c.LogDir != "" {
		c.LogDir = filepath.Join(c.LogDir, c.AllocID)
	}
	_ = os.MkdirAll(c.ProgressDir, 0o755)
	reports := r.log.Named(h.name)
	if !r.o.verbose {
		reports.SetLevel(hclog.Info) // everything that Nomad would show as task events
	}
	log, _ := events.Open("", reports) // without a file, nothing can fail
	run := &runningHost{id: id, name: h.name, slots: h.slots, host: host.New(host.Options{Config: c, Framework: r.framework(id), ID: id,
		Prefix: h.name + ":", Stdout: r.out, Stderr: r.err, Events: log, Logger: r.log.Named(h.name)})}
	r.hosts[id] = run
	up, down := wire.Pipe()
	r.wg.Go(func() { _ = r.leader.Serve(down) })
	r.wg.Go(func() { _ = run.host.Attach(up) })
	r.wg.Go(func() {
		result := run.host.Run(ctx)
		up.Close()
		r.ended(run, result)
	})
}

// ended handles the end of a host.
func (r *launcher) ended(run *runningHost, result host.Result) {
	r.mu.Lock()
	delete(r.hosts, run.id)
	none := len(r.hosts) == 0
	leaving := run.leaving
	r.mu.Unlock()
	// The result of a released host is not the job's result, but that of the last host that
	// was given up is.
	if !leaving && (none || run.host.Ended()) {
		select {
		case r.results <- result:
		default:
		}
	}
}
