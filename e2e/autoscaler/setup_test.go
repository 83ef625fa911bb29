// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package autoscaler

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	koloapi "github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// slots is the cluster's capacity: 3 clients of 4000 MHz in slots of 1000.
const slots = 12

// minimal is the smallest access control policy that the documentation gives.
const minimal = `
namespace "default" {
  capabilities = ["list-jobs", "read-job", "read-job-scaling", "scale-job", "list-scaling-policies"]
  variables {
    path "kolo/*" {
      capabilities = ["read", "write", "list", "destroy"]
    }
  }
}
node {
  policy = "read"
}
`

// world is a real Nomad and the kolo binary.
type world struct {
	*cluster.Cluster
	binary string
	token  string // with the minimal policy
	dir    string
}

func root(t testing.TB) string {
	dir, err := filepath.Abs("../..")
	must.NoError(t, err)
	return dir
}

func start(t *testing.T) *world {
	t.Helper()
	return startWith(t, cluster.Options{CPU: 4000, MemoryMB: 4096, ACL: true})
}

// startWith builds kolo and starts a cluster.
func startWith(t *testing.T, o cluster.Options) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	w.binary = filepath.Join(w.dir, "kolo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", w.binary, "./autoscaler/cmd/kolo")
	build.Dir = root(t)
	out, err := build.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if at := os.Getenv(givenNomad); at != "" {
		w.Cluster = given(t, at)
	} else {
		o.Nomad, o.Log = cluster.Binary(root(t)), t.Logf
		w.Cluster, err = cluster.Start(ctx, o)
		must.NoError(t, err)
		w.StopAfter(t, filepath.Join(root(t), "e2e", ".work", "autoscaler-"+t.Name()))
	}

	if !o.ACL {
		return w
	}
	_, err = w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: "kolo", Rules: minimal}, nil)
	must.NoError(t, err)
	token, _, err := w.API.ACLTokens().Create(&api.ACLToken{Name: "kolo", Type: "client", Policies: []string{"kolo"}}, nil)
	must.NoError(t, err)
	w.token = token.SecretID
	return w
}

// givenNomad names an empty Nomad to use in place of a cluster of the test's
// own: one with access control on, whose management token is in NOMAD_TOKEN,
// and 12 CPU slots. With one node, none is drained.
const givenNomad = "KOLO_E2E_NOMAD"

func given(t *testing.T, address string) *cluster.Cluster {
	c := &cluster.Cluster{Address: address, Token: os.Getenv("NOMAD_TOKEN")}
	var err error
	c.API, err = api.NewClient(&api.Config{Address: address, SecretID: c.Token})
	must.NoError(t, err)
	nodes, _, err := c.API.Nodes().List(nil)
	must.NoError(t, err)
	for _, n := range nodes {
		c.Nodes = append(c.Nodes, &cluster.Node{Name: n.Name, ID: n.ID})
	}
	return c
}

const configuration = `
nomad {
  address = "%s"
  resync  = "5s"
}
leader {
  ttl   = "10s"
  delay = "1s"
}
planner {
  hold        = "1s"
  manual_hold = "5s"
  tick        = "2s"
}
pool "default" {
  cpu_slot = 1000
  policy "elastic-fifo" {}
}
`

// daemon is a running kolo agent.
type daemon struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	address string
	token   string
	binary  string
	config  string // path of its configuration
	socket  string
	logged  string // path of its log
	once    sync.Once
}

// agent starts a kolo agent that finds Nomad at an address.
func (w *world) agent(t *testing.T, name, nomad string, more ...string) *daemon {
	t.Helper()
	return w.agentWith(t, name, fmt.Sprintf(configuration, nomad), more...)
}

// agentWith starts a kolo agent with the text of its configuration.
func (w *world) agentWith(t *testing.T, name, config string, more ...string) *daemon {
	t.Helper()
	// A short path: the name of a socket may have no more than 107 bytes. What runs
	// in the cluster's directory ends with the cluster, also where the test cannot.
	dir, err := os.MkdirTemp(w.Dir, "kolo-")
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.RemoveAll(dir)) })
	path, socket := filepath.Join(dir, "kolo.hcl"), filepath.Join(dir, "kolo.sock")
	must.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%s\nhttp {\n  unix = %q\n}\n", config, socket), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	at := l.Addr().String()
	must.NoError(t, l.Close())
	d := &daemon{t: t, name: name, address: "http://" + at, token: w.token, binary: w.binary, config: path, socket: socket, logged: filepath.Join(dir, "kolo.log")}
	d.cmd = exec.Command(w.binary, append([]string{"agent", "-config", path, "-name", name, "-http", at}, more...)...)
	d.cmd.Env = append(os.Environ(), "NOMAD_TOKEN="+w.token)
	log, err := os.Create(d.logged)
	must.NoError(t, err)
	defer log.Close()
	d.cmd.Stderr = log
	must.NoError(t, d.cmd.Start())
	t.Cleanup(func() {
		d.kill(os.Interrupt)
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, d.log())
		}
	})
	return d
}

// kill ends the agent by a signal and waits for its end.
func (d *daemon) kill(s os.Signal) {
	d.once.Do(func() {
		_ = d.cmd.Process.Signal(s) // it may have ended
		_ = d.cmd.Wait()            // by that signal
	})
}

// log returns what the agent has logged so far.
func (d *daemon) log() string {
	text, err := os.ReadFile(d.logged)
	must.NoError(d.t, err)
	return string(text)
}

// kolo runs a command against the agent and returns what it prints: with the
// token if there is one, and else over the socket.
func (d *daemon) kolo(args ...string) (string, error) {
	cmd := exec.Command(d.binary, args...)
	address := d.address
	if d.token == "" {
		address = "unix://" + d.socket
	}
	cmd.Env = append(os.Environ(), "KOLO_ADDR="+address, "NOMAD_TOKEN="+d.token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (d *daemon) status() (*koloapi.Status, error) {
	c := koloapi.Client{URL: d.address, HTTP: http.DefaultClient}
	return c.Status(context.Background())
}

func (d *daemon) leads() bool {
	s, err := d.status()
	return err == nil && s.Leading
}
