// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/completion"
	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/elastic"
	"github.com/kolo-nomad/kolo/driver/framework/horovod"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

// The allocation is placed while Nomad has no leader, after training was completed.
func TestAnAllocationLooksAgain(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "nomad_token")
	must.NoError(t, os.WriteFile(token, []byte("ey"), 0o600))
	c := config.Config{Command: "/bin/false", Training: settings.Training{Slots: 1, NP: 1, MinNP: 1}, Service: "s", Listen: "127.0.0.1:0", Namespace: "default",
		JobID: "j", AllocID: "a", TokenFile: token, ProgressDir: t.TempDir()}
	var stored *api.Variable // by the allocation before
	looks := 0
	nomad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/var/nomad/jobs/j" && r.Method == http.MethodPut:
			_ = json.NewDecoder(r.Body).Decode(&stored)
			_ = json.NewEncoder(w).Encode(stored)
		case r.URL.Path == "/v1/var/nomad/jobs/j" && stored != nil:
			if looks++; looks == 1 {
				http.Error(w, "No cluster leader", http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(stored)
		case r.URL.Path == "/v1/service/s":
			w.Header().Set("X-Nomad-Index", "1")
			w.Header().Set("X-Nomad-LastContact", "0")
			w.Header().Set("X-Nomad-KnownLeader", "true")
			_ = json.NewEncoder(w).Encode([]api.ServiceRegistration{{ID: "r", ServiceName: "s", Namespace: "default", JobID: "j", AllocID: "a", Address: "127.0.0.1", Port: 1}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(nomad.Close)
	c.NomadAddr = nomad.URL
	before := c
	before.AllocID = "earlier"
	record, err := completion.New(before, nomadapi.Token{File: token})
	must.NoError(t, err)
	must.NoError(t, record.Save(t.Context(), "slot 0 exited with 0"))

	quiet, err := events.Open("", hclog.NewNullLogger())
	must.NoError(t, err)
	a := &agent{config: c, log: hclog.NewNullLogger(), events: quiet}
	result, err := a.run(t.Context(), nil)
	must.NoError(t, err)
	must.Eq(t, completedBefore, result)
	must.Eq(t, 2, looks)
}

// The leader probes the service address of a host whose session has ended. The host's
// listening address, ":25000", would lead the leader to itself.
func TestTheLeaderLearnsTheServiceAddress(t *testing.T) {
	a := &agent{config: config.Config{AllocID: "a", Training: settings.Training{Slots: 1}, Listen: ":25000", Interface: "lo"}, framework: horovod.Agent(), log: hclog.NewNullLogger()}
	a.makeHost("192.0.2.7:25000", "")
	up, down := wire.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.host.Attach(up) })
	wg.Go(func() { a.host.Run(t.Context()) })
	m, err := down.Recv()
	must.NoError(t, err)
	must.Eq(t, "192.0.2.7:25000", m.Register.Addr)
	must.NoError(t, down.Send(&wire.ToAgent{End: &elastic.End{}}))
	down.Close()
	wg.Wait()
}

// The identity for other agents is found both in its file and in the environment.
func TestPeerToken(t *testing.T) {
	registry := nomadapi.Token{File: "nomad_token", Env: "NOMAD_TOKEN"}
	for name, c := range map[string]struct {
		file, env string
		want      nomadapi.Token
	}{
		"a file":          {"nomad_kolo.jwt", "", nomadapi.Token{File: "nomad_kolo.jwt", Env: "NOMAD_TOKEN_kolo"}},
		"the environment": {"", "ey", nomadapi.Token{Env: "NOMAD_TOKEN_kolo"}},
		"none":            {"", "", registry},
	} {
		t.Setenv("NOMAD_TOKEN_kolo", c.env)
		must.Eq(t, c.want, peerToken(c.file, registry), must.Sprint(name))
	}
}
