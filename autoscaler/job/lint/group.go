// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/jobspec"
)

// koloBlock lists the problems that keep the autoscaler from scaling the job.
func (c *checker) koloBlock() {
	_, problems := jobspec.Read(c.job)
	for _, p := range problems {
		c.errorf("kolo", c.src.at(stepsOf(p.Field)...), "%v", p)
	}
}

// jobType checks the type of a job that trains.
func (c *checker) jobType() {
	at := c.src.at(step{name: "type"})
	switch t := deref(c.job.Type, api.JobTypeService); t {
	case api.JobTypeBatch:
	case api.JobTypeService:
		c.warnf("type", at, `a service job is started again when its training is complete; write type = "batch"`)
	default:
		c.errorf("type", at, `a %s job has one allocation per node, and does not change its size; write type = "batch"`, t)
	}
}

// checkGroup checks the parts of the group that a training task depends on.
func (c *checker) checkGroup(w *worker) {
	c.checkNetwork(w)
	c.checkService(w)
	c.checkLife(w)
}

func (c *checker) checkNetwork(w *worker) {
	for i, n := range w.group.Networks {
		network := append(w.toGroup(), step{name: "network", nth: i})
		cni := w.ownNetwork(n)
		if n.Mode != "" && n.Mode != "host" && !cni && !onlyThere(n.Mode) {
			c.errorf("network-mode", c.src.at(append(network, step{name: "mode"})...),
				`network.mode = %q: processes of a ring listen at ports of their own choice, which are not mapped into a network of the group's own; write mode = "host", or leave mode out`, n.Mode)
		}
		if cni {
			continue // in a CNI network, a mapped port belongs to the allocation
		}
		for _, p := range append(n.DynamicPorts, n.ReservedPorts...) {
			if p.To != 0 {
				c.errorf("port", c.src.at(append(network, step{name: "port", label: p.Label}, step{name: "to"})...),
					"port %q: to = %d maps it, and the task must be in the client's network; remove to", p.Label, p.To)
			}
		}
	}
	if len(ports(w.group)) == 0 && w.read == nil { // else package taskconfig has reported it
		c.errorf("port", c.src.at(w.toGroup("network")...), `the group reserves no port; add network { port "kolo" {} }`)
	}
}

// ownNetwork reports whether a network is a CNI network in which the task driver trains.
// kolo-worker does not support that.
func (w *worker) ownNetwork(n *api.NetworkResource) bool {
	return w.native && strings.HasPrefix(n.Mode, "cni/")
}

// placed is a service with the steps to its block.
type placed struct {
	*api.Service

	steps []step
}

// services returns the services of the group and of the task.
func (w *worker) services() (list []placed) {
	for i, s := range w.group.Services {
		list = append(list, placed{s, append(w.toGroup(), step{name: "service", nth: i})})
	}
	for i, s := range w.task.Services {
		list = append(list, placed{s, append(w.to(), step{name: "service", nth: i})})
	}
	return list
}

// wants returns the name of the service that the task's agent looks up, or "" if it is
// unknown.
func (c *checker) wants(w *worker) string {
	if w.read == nil || onlyThere(w.read.Agent.Service) || w.unknown["service"] {
		return ""
	}
	return w.read.Agent.Service
}

func (c *checker) checkService(w *worker) {
	all := w.services()
	wants := c.wants(w)
	ours := slices.DeleteFunc(slices.Clone(all), func(s placed) bool { return s.Name != wants && wants != "" && !onlyThere(s.Name) })
	name := wants
	if name == "" {
		name = c.jobName()
	}
	if len(ours) == 0 {
		names := make([]string, len(all))
		for i, s := range all {
			names[i] = s.Name
		}
		at := c.src.at(w.toGroup()...)
		if len(all) > 0 {
			at = c.src.at(append(all[0].steps, step{name: "name"})...)
		}
		c.errorf("service", at, `the group has no service %q, by which its agents find each other%s; add service { name = %q, port = "kolo", provider = "nomad" } to the group`, name, among(names), name)
		return
	}
	for _, s := range ours {
		if s.Provider != "nomad" {
			given := "Consul's by default"
			if s.Provider != "" {
				given = fmt.Sprintf("%q", s.Provider)
			}
			c.errorf("service", c.src.at(append(s.steps, step{name: "provider"})...), `service %q: its provider is %s, and agents look each other up in Nomad's registry; write provider = "nomad"`, s.Name, given)
		}
		c.checkServicePort(w, s)
		if slices.ContainsFunc(w.group.Networks, w.ownNetwork) && s.AddressMode != "alloc" && !onlyThere(s.AddressMode) {
			c.errorf("service", c.src.at(append(s.steps, step{name: "address_mode"})...), `service %q: is registered at the client's address, while its agent is in a network of the group's own; write address_mode = "alloc"`, s.Name)
		}
	}
}

func (c *checker) checkServicePort(w *worker, s placed) {
	at := c.src.at(append(s.steps, step{name: "port"})...)
	labels := ports(w.group)
	switch {
	case onlyThere(s.PortLabel):
	case s.PortLabel == "":
		c.errorf("service", at, `service %q: has no port; write port = "kolo", the label of the group's port`, s.Name)
	case !slices.Contains(labels, s.PortLabel):
		c.errorf("service", at, `service %q: port = %q is not the label of a port of the group%s`, s.Name, s.PortLabel, among(labels))
	default:
		// The agent listens at the configured port, else the only port, else "kolo".
		listens := "kolo"
		if len(labels) == 1 {
			listens = labels[0]
		}
		if port, _ := w.given["port"].(string); port != "" {
			listens = port
		}
		if w.read != nil && !w.unknown["port"] && listens != s.PortLabel && slices.Contains(labels, listens) {
			c.errorf("service", at, `service %q: its port is %q, and the agent listens at port %q; write port = %q in the service, or give the agent port = %q`, s.Name, s.PortLabel, listens, listens, s.PortLabel)
		}
	}
}

func among(names []string) string {
	if len(names) == 0 {
		return "; there are none"
	}
	return "; there are: " + strings.Join(names[:min(len(names), 8)], ", ")
}

// longDelay is longer than a delay that only satisfies Nomad's own check.
const longDelay = time.Second

// checkLife checks how Nomad handles an allocation that is stopped, fails or is lost.
func (c *checker) checkLife(w *worker) {
	switch delay := deref(w.group.ShutdownDelay, 0) + w.task.ShutdownDelay; {
	case delay == 0 && len(w.group.Services) > 0:
		c.warnf("shutdown-delay", c.src.at(w.toGroup()...), `shutdown_delay is not set, and Nomad 2 warns about that; write shutdown_delay = "1ms" in the group`)
	case delay > longDelay:
		at := c.src.at(w.toGroup("shutdown_delay")...)
		if w.task.ShutdownDelay > 0 {
			at = c.src.at(w.to("shutdown_delay")...)
		}
		c.warnf("shutdown-delay", at, `shutdown_delay = %q: a worker that Nomad stops cannot leave during the delay, and then has only kill_timeout to leave; write "1ms"`, short(delay.String(), 40))
	}
	if r := w.group.ReschedulePolicy; deref(c.job.Type, "") == api.JobTypeBatch && (r == nil || !deref(r.Unlimited, false)) {
		c.warnf("reschedule", c.src.at(w.toGroup("reschedule")...), `a host that fails more than once a day is given up, and the ring stays smaller; write reschedule { attempts = 0, unlimited = true, delay = "10s", delay_function = "exponential", max_delay = "5m" } in the group, a line each`)
	}
}
