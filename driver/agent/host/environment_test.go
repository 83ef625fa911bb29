// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/settings"
)

// Scripts and what they import write their environment into crash reports and
// experiment trackers. The task's identities are not to be in it.
func TestSlotsDoNotInheritIdentities(t *testing.T) {
	for name, value := range map[string]string{
		"NOMAD_TOKEN": "secret", "NOMAD_TOKEN_kolo": "secret", "NOMAD_TOKEN_vault_default": "secret",
		"KOLO_AGENT_CONFIG": "secrets/kolo-agent.json",
		"NOMAD_SECRETS_DIR": "/secrets", "NOMAD_ALLOC_ID": "a", "NOMAD_TOKENIZER": "bpe", "MY_OWN": "x",
	} {
		t.Setenv(name, value)
	}
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}, Env: map[string]string{"FRAMEWORK_LOG": "debug", "FRAMEWORK_PORT": "1"}}, ID: "h", Logger: hclog.NewNullLogger()})
	s := h.slots[0]
	s.endpoint, s.progress.path = endpoint{}, "progress"
	seen := map[string]string{}
	for _, kv := range h.environment(s, elastic.Start{}) {
		name, value, _ := strings.Cut(kv, "=")
		seen[name] = value
	}
	for _, name := range []string{"NOMAD_TOKEN", "NOMAD_TOKEN_kolo", "NOMAD_TOKEN_vault_default", "KOLO_AGENT_CONFIG"} {
		must.MapNotContainsKey(t, seen, name)
	}
	for name, value := range map[string]string{"NOMAD_SECRETS_DIR": "/secrets", "NOMAD_ALLOC_ID": "a", "NOMAD_TOKENIZER": "bpe",
		"MY_OWN": "x", "FRAMEWORK_TIMEOUT": "30", "FRAMEWORK_LOG": "debug", "FRAMEWORK_PORT": "4711",
		"KOLO_PROGRESS_FILE": "progress"} {
		must.Eq(t, value, seen[name], must.Sprint(name))
	}
}
