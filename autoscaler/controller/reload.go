// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package controller

import (
	"errors"

	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// Reload takes a new configuration over. What only a new process can change
// (Nomad's address, the leader's lock, the own API's address) is refused.
func (a *Controller) Reload(cfg *config.Config) error {
	a.mu.Lock()
	if cfg.Nomad != a.cfg.Nomad || cfg.PolicyDir != a.cfg.PolicyDir || cfg.Leader != a.cfg.Leader || cfg.Name != a.cfg.Name || moved(&cfg.HTTP, &a.cfg.HTTP) {
		a.mu.Unlock()
		return errors.New("name, policy_dir, nomad, leader, and in http the addresses, the socket, and whether there is TLS take effect only with a restart; nothing was changed")
	}
	a.cfg = cfg
	a.policies = map[string]*pool{}
	a.mu.Unlock()
	a.log.SetLevel(hclog.LevelFromString(cfg.LogLevel))
	a.watcher.ForgetClasses()
	a.event(api.Event{Type: "reload", Reason: "configuration reloaded"})
	a.poke()
	return nil
}

// moved says whether the API would be listened for elsewhere or otherwise.
func moved(a, b *config.HTTP) bool {
	return a.Bind != b.Bind || a.Port != b.Port || a.Advertise != b.Advertise || a.Unix != b.Unix || a.UnixGroup != b.UnixGroup ||
		a.TLS.Enabled() != b.TLS.Enabled()
}
