// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// Reload applies a new configuration. It refuses changes that only take effect in a new
// process, such as Nomad's address, the leader's lock or the API's address.
func (c *Controller) Reload(cfg *config.Config) error {
	c.mu.Lock()
	if cfg.Nomad != c.cfg.Nomad || cfg.PolicyDir != c.cfg.PolicyDir || cfg.Leader != c.cfg.Leader || cfg.Name != c.cfg.Name || moved(&cfg.HTTP, &c.cfg.HTTP) {
		c.mu.Unlock()
		return errors.New("name, policy_dir, nomad, leader, and in http the addresses, the socket, and whether there is TLS take effect only with a restart; nothing was changed")
	}
	c.cfg = cfg
	c.policies = map[string]*poolPolicy{}
	c.mu.Unlock()
	c.log.SetLevel(hclog.LevelFromString(cfg.LogLevel))
	c.watcher.ForgetClasses()
	c.publish(api.Event{Type: "reload", Reason: "configuration reloaded"})
	c.poke()
	return nil
}

// moved reports whether the API would listen at another address or with other settings.
func moved(a, b *config.HTTP) bool {
	return a.Bind != b.Bind || a.Port != b.Port || a.Advertise != b.Advertise || a.Unix != b.Unix || a.UnixGroup != b.UnixGroup ||
		a.TLS.Enabled() != b.TLS.Enabled()
}
