// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"maps"
	"os"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

// firstAnswer bounds the wait for the first look at the host's installation, because the
// client waits for all drivers before it accepts work.
const firstAnswer = 10 * time.Second

// Fingerprint reports whether this client can run tasks, and which installation of the
// framework the client has. It reports at once, and then whenever something changed.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan *drivers.Fingerprint, error) {
	ch := make(chan *drivers.Fingerprint)
	go d.fingerprint(ctx, ch)
	return ch, nil
}

func (d *Driver) fingerprint(ctx context.Context, ch chan<- *drivers.Fingerprint) {
	defer close(ch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()

	config, _, _ := d.settings()
	var found *installation // nil: not known yet
	answers := make(chan *installation)
	look := func() {
		go func() {
			var answer installation
			answer.attributes, answer.remark, answer.err = d.framework.Probe(ctx, config.Python, config.timeout)
			answer.addPythonUsers(&config)
			select {
			case answers <- &answer:
			case <-ctx.Done():
			}
		}()
	}

	next := time.NewTimer(firstAnswer)
	defer next.Stop()
	looking := config.Enabled
	if looking {
		look()
	} else {
		next.Reset(0)
	}
	var last *drivers.Fingerprint
	for {
		select {
		case <-ctx.Done():
			return
		case found = <-answers:
			looking = false
			next.Reset(config.period)
		case <-next.C:
			if config.Enabled && last != nil && !looking {
				looking = true
				look()
			}
			next.Reset(config.period)
		}
		fp := describe(d.framework.Name(), &config, canIsolate(), found)
		if last != nil && same(last, fp) {
			continue
		}
		select {
		case ch <- fp:
			last = fp
		case <-ctx.Done():
			return
		}
	}
}

// describe returns the fingerprint of a client with this configuration and installation.
//
// A client that cannot run tasks is "undetected", never "unhealthy". Nomad's scheduler
// remembers what can run for each class of nodes, and the class includes attributes but not
// health. So an unhealthy driver on one node would keep jobs away from healthy nodes of the
// same class.
func describe(name string, config *Config, noExec error, found *installation) *drivers.Fingerprint {
	undetected := func(why string) *drivers.Fingerprint {
		return &drivers.Fingerprint{Health: drivers.HealthStateUndetected, HealthDescription: why}
	}
	switch {
	case !config.Enabled:
		return undetected("disabled in the plugin's config")
	case noExec != nil && !config.AllowIsolationNone:
		return undetected(`isolation "exec" is not possible (` + noExec.Error() + `) and allow_isolation_none is not set`)
	case found != nil && found.err != nil:
		return undetected(found.err.Error())
	}

	prefix := "driver." + name
	attrs := map[string]*pstructs.Attribute{
		prefix:                     pstructs.NewBoolAttribute(true),
		prefix + ".plugin_version": pstructs.NewStringAttribute(buildinfo.Version()),
		prefix + ".isolation_exec": pstructs.NewBoolAttribute(noExec == nil),
		prefix + ".isolation_none": pstructs.NewBoolAttribute(config.AllowIsolationNone),
	}
	healthy := &drivers.Fingerprint{Attributes: attrs, Health: drivers.HealthStateHealthy, HealthDescription: drivers.DriverHealthy}
	if found == nil {
		healthy.HealthDescription = "Healthy; still looking for " + name + " on this host"
		return healthy
	}
	for key, value := range found.attributes {
		switch value := value.(type) {
		case bool:
			attrs[prefix+"."+key] = pstructs.NewBoolAttribute(value)
		case string:
			attrs[prefix+"."+key] = pstructs.NewStringAttribute(value)
		}
	}
	if found.remark != "" {
		healthy.HealthDescription = "Healthy; " + found.remark
	}
	return healthy
}

func same(a, b *drivers.Fingerprint) bool {
	return a.Health == b.Health && a.HealthDescription == b.HealthDescription &&
		maps.EqualFunc(a.Attributes, b.Attributes, func(x, y *pstructs.Attribute) bool {
			return x.GoString() == y.GoString()
		})
}

// canIsolate returns nil if tasks can get namespaces of their own.
func canIsolate() error {
	switch {
	case !withCgo:
		return errors.New("this binary was built without cgo")
	case os.Geteuid() != 0:
		return errors.New("the Nomad client does not run as root")
	}
	for _, controller := range []string{"cgroup.controllers", "freezer"} { // version 2, version 1
		if _, err := os.Stat("/sys/fs/cgroup/" + controller); err == nil {
			return nil
		}
	}
	return errors.New("cgroups are not mounted at /sys/fs/cgroup")
}
