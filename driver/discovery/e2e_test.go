// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/kolo-nomad/kolo/driver/discovery/discoverypb"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/driver/internal/registrytest"
	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// jobspec runs this test binary's TestE2ETask as each task.
const jobspec = `
variable "job"     { type = string }
variable "count"   { type = number }
variable "binary"  { type = string }
variable "env"     { type = map(string) }

job "discovery" {
  id   = var.job
  type = "batch"
  group "workers" {
    count = var.count
    constraint {
      distinct_hosts = true
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    network {
      port "kolo" {}
    }
    shutdown_delay = "1ms"
    service {
      name     = "ring"
      provider = "nomad"
      port     = "kolo"
    }
    task "worker" {
      driver = "raw_exec"
      config {
        command = var.binary
        args    = ["-test.run=^TestE2ETask$", "-test.timeout=0"]
      }
      env = var.env
      identity {
        env  = true
        file = true
      }
      identity {
        name = "kolo"
        aud  = ["kolo"]
        file = true
        ttl  = "10m"
      }
      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
`

// taskLine is what a task prints, one JSON object to a line.
type taskLine struct {
	At     time.Time
	PID    int
	Leader string   `json:",omitempty"`
	Term   uint64   `json:",omitempty"`
	Ring   []string `json:",omitempty"`
	Code   string   `json:",omitempty"`
	Error  string   `json:",omitempty"`
}

// TestE2E runs electors in tasks of a real Nomad with ACLs. With only their
// identities, they find each other and Nomad's keys through the Task API. They go
// on without a leader that is cut off or dead, and refuse another job's agent.
func TestE2E(t *testing.T) {
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	nomad := cluster.Binary(root)
	if _, err := os.Stat(nomad); err != nil {
		if nomad, err = exec.LookPath("nomad"); err != nil {
			t.Skip("no nomad in bin or on the PATH")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Nomad: nomad, ACL: true, Log: t.Logf})
	must.NoError(t, err)
	defer func() { must.NoError(t, c.Stop()) }()
	binary, err := os.Executable()
	must.NoError(t, err)

	_, err = c.Register(ctx, jobspec, cluster.Vars{"job": "train", "count": 3, "binary": binary, "env": map[string]string{"KOLO_TASK": "agent"}})
	must.NoError(t, err)
	allocs, err := c.WaitRunning(ctx, "train", 3)
	must.NoError(t, err)
	lines := func(alloc string) (out []taskLine) {
		text, err := c.Logs(alloc, "worker", "stdout")
		must.NoError(t, err)
		for s := range strings.Lines(text) {
			var l taskLine
			if json.Unmarshal([]byte(s), &l) == nil {
				out = append(out, l)
			}
		}
		return out
	}
	last := func(alloc string, has func(taskLine) bool) taskLine {
		for _, l := range slices.Backward(lines(alloc)) {
			if has(l) {
				return l
			}
		}
		return taskLine{}
	}
	follows := func(l taskLine) bool { return l.Term != 0 }
	ring := func(l taskLine) bool { return l.Ring != nil }
	agree := func(ids []string, not string) (leader taskLine, err error) {
		err = cluster.Until(ctx, "one leader and a ring of all", func(context.Context) error {
			leader = last(ids[0], follows)
			for _, id := range ids {
				if l := last(id, follows); l.Leader == "" || l.Leader == not || l.Term != leader.Term {
					return fmt.Errorf("%s follows %q at %d, %s %q at %d", ids[0], leader.Leader, leader.Term, id, l.Leader, l.Term)
				}
			}
			if r := last(leader.Leader, ring); len(r.Ring) != len(ids) {
				return fmt.Errorf("the last ring is %v, %s", r.Ring, last(leader.Leader, func(l taskLine) bool { return l.Error != "" }).Error)
			}
			return nil
		})
		return leader, err
	}
	var ids []string
	for _, a := range allocs {
		ids = append(ids, a.ID)
	}
	zeroth, err := agree(ids, "")
	must.NoError(t, err)

	first := zeroth
	if c.Isolated() {
		// The leader is cut off, for less time than Nomad takes to notice.
		others := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == zeroth.Leader })
		node := c.NodeOf(allocs[slices.IndexFunc(allocs, func(a *api.AllocationListStub) bool { return a.ID == zeroth.Leader })])
		must.NoError(t, node.Cut(ctx))
		cut := time.Now()
		first, err = agree(others, zeroth.Leader)
		must.NoError(t, err)
		r := last(first.Leader, ring)
		t.Logf("ring of %d %s after the leader was cut off", len(r.Ring), r.At.Sub(cut).Round(time.Millisecond))
		must.NoError(t, node.Restore(ctx))
		restored := time.Now()
		first, err = agree(ids, zeroth.Leader)
		must.NoError(t, err)
		for _, l := range lines(zeroth.Leader) {
			must.False(t, ring(l) && l.At.After(cut), must.Sprintf("%v was formed by one cut off", l.Ring))
		}
		r = last(first.Leader, ring)
		t.Logf("ring of %d %s after it came back", len(r.Ring), r.At.Sub(restored).Round(time.Millisecond))
	}

	// Another job's identity, and none.
	addr := last(first.Leader, func(l taskLine) bool { return l.Code != "" }).Code
	_, err = c.Register(ctx, jobspec, cluster.Vars{"job": "mallory", "count": 1, "binary": binary, "env": map[string]string{"KOLO_TASK": "intruder", "KOLO_ADDR": addr, "KOLO_ALLOC": first.Leader, "KOLO_JOB": "train"}})
	must.NoError(t, err)
	must.NoError(t, c.WaitStatus(ctx, "mallory", "dead"))
	intruders, err := c.Allocs(ctx, "mallory")
	must.NoError(t, err)
	var codes []string
	for _, l := range lines(intruders[0].ID) {
		codes = append(codes, l.Code)
		t.Logf("another job's agent: %s %s", l.Code, l.Error)
	}
	must.Eq(t, []string{"Unavailable", "Unavailable"}, codes)

	// The leader dies.
	killed := time.Now()
	proc, err := os.FindProcess(last(first.Leader, follows).PID)
	must.NoError(t, err)
	must.NoError(t, proc.Kill())
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == first.Leader })
	second, err := agree(ids, first.Leader)
	must.NoError(t, err)
	for _, id := range ids {
		t.Logf("%s follows %s %s after the leader's death", id[:8], second.Leader[:8], last(id, follows).At.Sub(killed).Round(time.Millisecond))
	}
	r := last(second.Leader, ring)
	t.Logf("ring %v %s after the leader's death", r.Ring, r.At.Sub(killed).Round(time.Millisecond))
}

// TestE2ETask is the program of TestE2E's tasks.
func TestE2ETask(t *testing.T) {
	say := func(l taskLine) {
		l.At, l.PID = time.Now(), os.Getpid()
		b, _ := json.Marshal(l)
		fmt.Println(string(b))
	}
	switch os.Getenv("KOLO_TASK") {
	case "agent":
		runTask(t, say)
	case "intruder":
		runIntruder(t, say)
	default:
		t.Skip("runs as a task of TestE2E only")
	}
}

// runIntruder calls an agent of another job, with its own identity and without.
func runIntruder(t *testing.T, say func(taskLine)) {
	own := taskTransport(t, registrytest.NewStatic())
	for _, creds := range []credentials.TransportCredentials{own.Client(os.Getenv("KOLO_ALLOC")), insecure.NewCredentials()} {
		conn, err := grpc.NewClient(os.Getenv("KOLO_ADDR"), grpc.WithTransportCredentials(creds))
		must.NoError(t, err)
		_, err = pb.NewElectionClient(conn).Probe(t.Context(), &pb.Request{State: &pb.State{From: &pb.Peer{AllocId: os.Getenv("NOMAD_ALLOC_ID")}}})
		say(taskLine{Code: status.Code(err).String(), Error: fmt.Sprint(err)})
		conn.Close()
	}
}

// taskTransport returns the transport of the task that calls it. Intruders pose as
// a task of the job that they call.
func taskTransport(t *testing.T, reg registry.Registry) *Transport {
	secrets := os.Getenv("NOMAD_SECRETS_DIR")
	keys, err := NewKeys("unix://"+filepath.Join(secrets, "api.sock"), nomadapi.Token{File: filepath.Join(secrets, "nomad_token")})
	must.NoError(t, err)
	job := os.Getenv("NOMAD_JOB_ID")
	if posed := os.Getenv("KOLO_JOB"); posed != "" {
		job = posed
	}
	return &Transport{
		Certifier: NewCertifier(nomadapi.Token{File: filepath.Join(secrets, "nomad_kolo.jwt")}, keys),
		Verifier: NewVerifier(VerifierOptions{Namespace: os.Getenv("NOMAD_NAMESPACE"), JobID: job,
			Group: os.Getenv("NOMAD_GROUP_NAME"), Task: os.Getenv("NOMAD_TASK_NAME"), Keys: keys}),
		Presence: NewPresence(reg, job, time.Minute),
		Logger:   hclog.NewNullLogger(),
	}
}

// runTask is an agent without slots: it follows, and as leader forms rings of
// all that the registry names and that can be reached.
func runTask(t *testing.T, say func(taskLine)) {
	env, secrets := os.Getenv, os.Getenv("NOMAD_SECRETS_DIR")
	index, err := strconv.Atoi(env("NOMAD_ALLOC_INDEX"))
	must.NoError(t, err)
	self := registry.Peer{
		AllocID: env("NOMAD_ALLOC_ID"), Group: env("NOMAD_GROUP_NAME"), Index: index, Addr: env("NOMAD_ADDR_kolo"),
	}
	say(taskLine{Code: self.Addr})
	socket, token := "unix://"+filepath.Join(secrets, "api.sock"), nomadapi.Token{File: filepath.Join(secrets, "nomad_token")}
	reg, err := registry.NewNomad(registry.NomadOptions{Address: socket, Token: token, Service: "ring", Namespace: env("NOMAD_NAMESPACE"), JobID: env("NOMAD_JOB_ID"), Logger: hclog.NewNullLogger()})
	must.NoError(t, err)
	transport := taskTransport(t, reg)
	dial := func(_ context.Context, addr, alloc string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, grpc.WithTransportCredentials(transport.Client(alloc)))
	}
	e, err := NewElector(Options{Self: self, Service: "ring", Registry: reg, Dial: dial, Logger: hclog.NewNullLogger()})
	must.NoError(t, err)
	l, err := net.Listen("tcp", self.Addr)
	must.NoError(t, err)
	srv := grpc.NewServer(grpc.Creds(transport.Server()))
	e.Register(srv)
	go srv.Serve(l)
	go e.Run(t.Context())
	go form(t.Context(), e, reg, say)
	for lead := range e.Leadership() {
		say(taskLine{Leader: lead.Leader.AllocID, Term: lead.Term})
		if lead.Leader.AllocID != "" && !lead.Self {
			go watchLeader(e, lead)
		}
	}
}

// watchLeader reports the leader lost once a connection to it breaks and no new
// one can be made, much as an agent's session would.
func watchLeader(e *Elector, l Leadership) {
	for {
		conn, err := net.DialTimeout("tcp", l.Leader.Addr, 500*time.Millisecond)
		if err != nil {
			break
		}
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		for err == nil { // a gRPC server greets, then waits
			_, err = conn.Read(make([]byte, 1024))
		}
		conn.Close()
	}
	e.LeaderLost(l.Term)
}

func form(ctx context.Context, e *Elector, reg registry.Registry, say func(taskLine)) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		lead := e.Current()
		if !lead.Self {
			continue
		}
		var hosts []string
		for _, p := range reg.Read(ctx).Peers {
			if conn, err := net.DialTimeout("tcp", p.Addr, 200*time.Millisecond); err == nil {
				hosts = append(hosts, p.AllocID)
				conn.Close()
			}
		}
		if r := e.LastRing(); r.Term == lead.Term && len(r.Hosts) == len(hosts) {
			continue
		}
		formCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := e.Form(formCtx, e.LastRing().Generation+1, hosts)
		cancel()
		if err != nil {
			say(taskLine{Error: fmt.Sprint(err)})
			continue
		}
		say(taskLine{Ring: hosts})
	}
}
