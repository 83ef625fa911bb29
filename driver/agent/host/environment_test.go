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
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// A task may override the framework's defaults, such as NCCL's network interface, but not
// the variables that define the ring. The jobspec's config overrides the task's variables.
func TestTheTasksEnvironmentOverridesDefaults(t *testing.T) {
	t.Setenv("FRAMEWORK_LOG", "trace")
	t.Setenv("FRAMEWORK_PORT", "1")
	t.Setenv("FRAMEWORK_TIMEOUT", "60")
	h := New(Options{Framework: framework{}, Config: config.Config{Training: settings.Training{Slots: 1}, Env: map[string]string{"FRAMEWORK_TIMEOUT": "90"}}, ID: "h", Logger: hclog.NewNullLogger()})
	s := h.slots[0]
	s.endpoint = endpoint{}
	env := h.environment(s, elastic.Start{})
	for _, want := range []string{"FRAMEWORK_LOG=trace", "FRAMEWORK_PORT=4711", "FRAMEWORK_TIMEOUT=90"} {
		must.SliceContains(t, env, want)
	}
}

// Scripts and the packages that they import write their environment into crash reports and
// experiment trackers. The task's identities must not be in it.
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
