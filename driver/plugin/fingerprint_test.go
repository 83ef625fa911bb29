// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/buildinfo"
)

func TestDescribe(t *testing.T) {
	found := &installation{attributes: map[string]any{"installed": true, "version": "1.2"}}
	broken := &installation{err: errors.New("of no use")}
	always := map[string]string{
		"driver.horovod": "true", "driver.horovod.plugin_version": buildinfo.Version(),
		"driver.horovod.isolation_exec": "true", "driver.horovod.isolation_none": "false",
	}
	cases := map[string]struct {
		config Config
		noExec error
		found  *installation
		health drivers.HealthState
		desc   string
		attrs  map[string]string
	}{
		"disabled":     {Config{}, nil, found, drivers.HealthStateUndetected, "disabled in the plugin's config", nil},
		"no isolation": {Config{Enabled: true}, errors.New("no root"), found, drivers.HealthStateUndetected, `isolation "exec" is not possible (no root) and allow_isolation_none is not set`, nil},
		"no isolation, allowed": {
			Config{Enabled: true, AllowIsolationNone: true}, errors.New("no root"), nil, drivers.HealthStateHealthy, "Healthy; still looking for horovod on this host",
			map[string]string{"driver.horovod.isolation_exec": "false", "driver.horovod.isolation_none": "true"},
		},
		"of no use": {Config{Enabled: true}, nil, broken, drivers.HealthStateUndetected, "of no use", nil},
		"with a remark": {
			Config{Enabled: true}, nil, &installation{attributes: map[string]any{"installed": false}, remark: "none here"}, drivers.HealthStateHealthy,
			"Healthy; none here", map[string]string{"driver.horovod.installed": "false"},
		},
		"all there": {
			Config{Enabled: true}, nil, found, drivers.HealthStateHealthy, "Healthy",
			map[string]string{"driver.horovod.installed": "true", "driver.horovod.version": "1.2"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fp := describe("horovod", &c.config, c.noExec, c.found)
			must.Eq(t, c.health, fp.Health)
			must.Eq(t, c.desc, fp.HealthDescription)
			got, want := map[string]string{}, map[string]string{}
			for k, v := range fp.Attributes {
				got[k] = attributeText(v)
			}
			if c.attrs != nil {
				for k, v := range always {
					want[k] = v
				}
				for k, v := range c.attrs {
					want[k] = v
				}
			}
			must.Eq(t, want, got)
		})
	}
}

func attributeText(a *pstructs.Attribute) string {
	if b, is := a.GetBool(); is {
		return strconv.FormatBool(b)
	}
	s, _ := a.GetString()
	return s
}

// pretendPython writes a program that answers as Python would.
func pretendPython(t *testing.T, script string) string {
	path := filepath.Join(t.TempDir(), "python")
	must.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return path
}

func TestFingerprintTellsChangesOnly(t *testing.T) {
	answer := filepath.Join(t.TempDir(), "answer")
	must.NoError(t, os.WriteFile(answer, []byte(`{"installed":true,"version":"1","gloo":true}`), 0o644))
	h := newHarness(t, &Config{Enabled: true, AllowIsolationNone: true, Python: pretendPython(t, "cat "+answer+"; echo >> "+answer+".asked")})
	h.driver.mu.Lock()
	h.driver.config.period = 10 * time.Millisecond
	h.driver.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ch, err := h.driver.Fingerprint(ctx)
	must.NoError(t, err)
	next := func() *drivers.Fingerprint {
		select {
		case fp := <-ch:
			must.NotNil(t, fp)
			return fp
		case <-time.After(patience):
			t.Fatal("no fingerprint")
			return nil
		}
	}
	version := func(fp *drivers.Fingerprint) string { return attributeText(fp.Attributes["driver.horovod.version"]) }
	must.Eq(t, "1", version(next()))
	eventually(t, "it is asked again", func() bool {
		data, _ := os.ReadFile(answer + ".asked")
		return len(data) > 3
	})
	must.NoError(t, os.WriteFile(answer+".new", []byte(`{"installed":true,"version":"2","gloo":true}`), 0o644))
	must.NoError(t, os.Rename(answer+".new", answer))
	must.Eq(t, "2", version(next()), must.Sprint("nothing is told in between"))
	cancel()
	eventually(t, "the stream ends", func() bool {
		select {
		case _, open := <-ch:
			return !open
		default:
			return false
		}
	})
}

func TestFingerprintOfADisabledDriver(t *testing.T) {
	h := newHarness(t, &Config{Enabled: false})
	ch, err := h.Fingerprint(t.Context())
	must.NoError(t, err)
	select {
	case fp := <-ch:
		must.Eq(t, drivers.HealthStateUndetected, fp.Health)
	case <-time.After(patience):
		t.Fatal("no fingerprint")
	}
}
