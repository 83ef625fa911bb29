// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package launcher

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listedHost is a host as listed by -H or the discovery script.
type listedHost struct {
	name  string
	slots int
}

// fixedHosts returns the hosts of -H.
func (o *flags) fixedHosts() ([]listedHost, error) {
	return parseHosts(strings.ReplaceAll(o.hosts, ",", "\n"), o.slots, true)
}

// parseHosts parses "name" or "name:slots" lines. With once, naming a host twice is an
// error; otherwise the last line counts, as with horovodrun.
func parseHosts(text string, slots int, once bool) ([]listedHost, error) {
	var hosts []listedHost
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, n, ok := strings.Cut(line, ":")
		h := listedHost{name: name, slots: slots}
		if ok {
			v, err := strconv.Atoi(n)
			if err != nil || v < 0 {
				return nil, fmt.Errorf("line %d: %q: slots must be a number", i+1, line)
			}
			h.slots = v
		}
		if name == "" || strings.ContainsAny(name, "/#?% \t") {
			return nil, fmt.Errorf("line %d: %q is no host name", i+1, line)
		}
		at := slices.IndexFunc(hosts, func(o listedHost) bool { return o.name == name })
		switch {
		case at < 0:
			hosts = append(hosts, h)
		case once:
			return nil, fmt.Errorf("line %d: host %q is named twice; write %s:<slots> once", i+1, name, name)
		default:
			hosts[at] = h
		}
	}
	return slices.DeleteFunc(hosts, func(h listedHost) bool { return h.slots == 0 }), nil
}

// emptyTime is how long a discovery script must list no host before all hosts are released.
// The service that the script asks may just be restarting, and the job ends with its last
// host.
const emptyTime = 5 * time.Second

// discover sends the hosts whenever they change. If the script fails, or lists no host for
// less than emptyTime, the hosts stay as they are.
func (r *launcher) discover(ctx context.Context, out chan<- []listedHost) {
	var last []listedHost
	send := func(hosts []listedHost) {
		if last != nil && slices.Equal(hosts, last) {
			return
		}
		select {
		case out <- hosts:
			last = hosts
		case <-ctx.Done():
		}
	}
	if r.o.script == "" {
		hosts, _ := r.o.fixedHosts()
		send(hosts)
		return
	}
	var empty time.Time // since when the script lists no host
	t := time.NewTicker(r.o.interval)
	defer t.Stop()
	for {
		runCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
		text, err := exec.CommandContext(runCtx, "sh", "-c", r.o.script).Output()
		cancel()
		var hosts []listedHost
		if err == nil {
			hosts, err = parseHosts(string(text), r.o.slots, false)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.log.Warn("discovery script failed, hosts stay as they are", "script", r.o.script, "error", err)
		case len(hosts) > 0:
			empty = time.Time{}
			send(hosts)
		case empty.IsZero():
			empty = time.Now()
		case time.Since(empty) >= emptyTime:
			send(hosts)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
