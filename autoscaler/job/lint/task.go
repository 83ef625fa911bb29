// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package lint

import (
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kolo-nomad/kolo/driver/task/workerflags"
)

// checkTask checks a task that trains.
func (c *checker) checkTask(w *worker) {
	c.checkIdentities(w)
	c.checkKill(w)
	c.checkMemory(w)
	if w.task.Driver == "docker" || w.task.Driver == "podman" {
		c.checkContainer(w)
	}
}

func (c *checker) checkIdentities(w *worker) {
	ids := identities(w.task)
	if id := ids[defaultIdentity]; w.read == nil && (id == nil || !id.File && !id.Env) { // else package taskconfig has reported it
		c.errorf("identity", c.src.at(w.to()...), "the task's identity is not given to it; add identity { file = true } to the task")
	}
	if id := ids[defaultIdentity]; id != nil && id.Env && (w.task.Driver == "docker" || w.task.Driver == "podman") {
		c.warnf("identity", c.src.at(w.to("identity", "env")...), "the identity is in the environment of the container, which %s inspect shows; write file = true alone", w.task.Driver)
	}
	peer := ids[peerIdentity]
	if peer == nil {
		c.warnf("identity", c.src.at(w.to()...), `there is no identity "kolo", and agents prove themselves to each other by the default one, which never expires; add identity { name = "kolo", aud = ["kolo"], file = true, ttl = "15m" }, a line each`)
		return
	}
	at := c.src.at(append(w.to(), c.peerBlock(w))...)
	if !slices.Contains(peer.Audience, audience) {
		c.errorf("identity", at, `identity "kolo": its audience is %q, and agents accept "kolo" alone; write aud = ["kolo"]`, peer.Audience)
	}
	if !peer.File && !peer.Env || peer.Filepath != "" {
		c.errorf("identity", at, `identity "kolo": agents read it from its file in the secrets directory; write file = true, and no filepath`)
	}
	switch {
	case peer.TTL == 0:
		c.warnf("identity", at, `identity "kolo": it never expires; write ttl = "15m"`)
	case w.group.Disconnect != nil && peer.TTL < time.Hour:
		c.warnf("identity", at, `identity "kolo": a client that is disconnected cannot have it renewed, and the group has a disconnect block; write ttl = "1h"`)
	}
}

// audience is the audience of the identity with which agents identify each other.
const audience = "kolo"

// peerBlock returns the step to that identity's block in the task.
func (c *checker) peerBlock(w *worker) step {
	for nth := range maxTasks {
		block := step{name: "identity", nth: nth}
		if name := c.src.argument(append(w.to(), block, step{name: "name"})...); name == nil {
			continue
		} else if t, ok := name.(*hclsyntax.TemplateExpr); ok && lead(t) == peerIdentity {
			return block
		}
	}
	return step{name: "identity"}
}

// leastKill is long enough to reach the next commit in most trainings.
const leastKill = 15 * time.Second

// checkKill checks the time that a stopped task has to leave.
func (c *checker) checkKill(w *worker) {
	given := w.task.KillTimeout != nil
	kill := deref(w.task.KillTimeout, workerflags.KillTimeout)
	at := c.src.at(w.to("kill_timeout")...)
	switch {
	case !given:
		c.warnf("kill-timeout", at, `kill_timeout is not set, and Nomad's default of %s may end before the next commit: the steps since the last one would be lost; write kill_timeout = "30s"`, kill)
	case kill > c.o.MaxKillTimeout:
		c.errorf("kill-timeout", at, "kill_timeout = %q: clients grant at most max_kill_timeout, %s; lower it, or raise max_kill_timeout in the clients' configuration and give it as -max-kill-timeout", short(kill.String(), 40), c.o.MaxKillTimeout)
	case kill < leastKill:
		c.warnf("kill-timeout", at, `kill_timeout = %q: may end before the next commit: the steps since the last one would be lost; write kill_timeout = "30s"`, kill.String())
	}
	if w.flags == nil || w.unknown["kill_timeout"] {
		c.checkLeave(w, kill)
		return
	}
	switch flag := w.flags.Kill; {
	case flag == 0 && given:
		c.errorf("kill-timeout", c.flagAt(w, "kill_timeout"), "%s cannot see the task's kill_timeout and leaves within %s; add --kill_timeout=%s before --", program, workerflags.KillTimeout, kill)
	case flag != 0 && flag != kill:
		c.errorf("kill-timeout", c.flagAt(w, "kill_timeout"), "--kill_timeout=%s: the task's kill_timeout is %s; write the same", flag, kill)
	}
}

// checkLeave checks that leave_timeout is long enough for a task that Nomad stops.
func (c *checker) checkLeave(w *worker, kill time.Duration) {
	if w.read == nil || !w.native {
		return
	}
	leave := time.Duration(w.read.Agent.LeaveTimeout)
	delay := deref(w.group.ShutdownDelay, 0) + w.task.ShutdownDelay
	if kill > 0 && delay > 0 && kill+delay > leave+time.Minute && kill+delay > 0 {
		c.warnf("kill-timeout", c.src.at(w.to("config", "leave_timeout")...), "leave_timeout = %q: an allocation that is stopped may run for %s, and begins no session with the leader once it has been unregistered for a minute longer than leave_timeout; set leave_timeout to that", leave.String(), kill+delay)
	}
}

// nomadMemory is Nomad's default memory in MiB.
const nomadMemory = 300

func (c *checker) checkMemory(w *worker) {
	if w.task.Resources == nil || w.task.Resources.MemoryMB == nil {
		c.warnf("memory", c.src.at(w.to("resources")...), "resources has no memory, and Nomad's default of %d MB is too little for PyTorch with more than one small process; write memory = 1024 or more", nomadMemory)
	}
}
