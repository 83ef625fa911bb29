// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/agent/completion"
	"github.com/kolo-nomad/kolo/driver/agent/config"
	"github.com/kolo-nomad/kolo/driver/agent/events"
	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/agent/leader"
	"github.com/kolo-nomad/kolo/driver/agent/port"
	"github.com/kolo-nomad/kolo/driver/agent/process"
	"github.com/kolo-nomad/kolo/driver/agent/process/inspect"
	"github.com/kolo-nomad/kolo/driver/agent/session"
	"github.com/kolo-nomad/kolo/driver/agent/statusapi"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/discovery/hostnet"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
	"github.com/kolo-nomad/kolo/driver/discovery/registry"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// agent is one of a job's agents: the host of this allocation, and the leader when it is
// elected.
type agent struct {
	config    config.Config
	framework framework.Framework
	log       hclog.Logger
	events    *events.Log
	stop      []syscall.Signal

	record    *completion.Store
	registry  *registry.Shared
	certifier *discovery.Certifier
	presence  *discovery.Presence
	transport *discovery.Transport
	elector   *discovery.Elector

	id   elastic.HostID
	host *host.Host

	mu     sync.Mutex
	leader *leader.Leader
}

// leaveMargin plus leave_timeout is the longest time that an allocation may take to leave
// after Nomad has removed it from the registry.
const leaveMargin = time.Minute

// othersWait bounds how long a leader whose own host has ended waits for the others.
const othersWait = 5 * time.Second

// run runs the allocation's part of the job, and returns how it ended.
func (a *agent) run(ctx context.Context, signals <-chan os.Signal) (host.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := a.config
	token := nomadapi.Token{File: c.TokenFile, Env: "NOMAD_TOKEN"}
	if done, err := a.checkTraining(ctx, token); done || err != nil {
		return completedBefore, err
	}
	services, err := registry.NewNomad(registry.NomadOptions{Address: c.NomadAddr, Token: token, Service: c.Service,
		Namespace: c.Namespace, JobID: c.JobID, Logger: a.log.Named("registry")})
	if err != nil {
		return host.Result{}, err
	}
	a.registry = registry.Share(ctx, services) // one watch of Nomad for all parts of the agent

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return host.Result{}, portError(c.Listen, err)
	}
	ports := port.Share(listener, a.peers)
	defer ports.Close()

	if err := a.authenticate(token); err != nil {
		return host.Result{}, err
	}
	self, stopped, err := a.findSelf(ctx, a.registry, signals)
	if err != nil || stopped {
		return host.Result{Reason: "the task was stopped"}, err
	}
	if err := a.checkAddress(self.Addr); err != nil {
		return host.Result{}, err
	}
	// Look again. Nomad answers by now, and the training may have been completed while this
	// allocation waited.
	if a.complete(ctx) {
		return completedBefore, nil
	}
	// Make the certificate now, so that it is ready for the first call and any problem
	// is reported early.
	if _, err := a.certifier.Certificate(ctx); err != nil {
		a.events.Emit(fmt.Sprintf("this agent cannot prove to others who it is, and tries again: %v", err))
	}
	program, err := inspect.Link(c.ProgressDir)
	if err != nil {
		a.log.Warn("kolo stacks cannot look at this allocation", "error", err)
	}
	a.makeHost(self.Addr, program)
	a.elector, err = discovery.NewElector(discovery.Options{Self: self, Service: c.Service, Namespace: c.Namespace, Registry: a.registry,
		Dial: func(_ context.Context, addr, alloc string) (*grpc.ClientConn, error) {
			return session.Dial(addr, a.transport.Client(alloc))
		}, Logger: a.log.Named("election")})
	if err != nil {
		return host.Result{}, err
	}
	return a.serve(ctx, cancel, ports, signals), nil
}

// checkTraining reports whether the training is already complete. If not, it checks that
// training can begin.
func (a *agent) checkTraining(ctx context.Context, token nomadapi.Token) (done bool, err error) {
	if _, err := token.Read(); err != nil {
		return false, err
	}
	if a.record, err = completion.New(a.config, token); err != nil {
		return false, err
	}
	if a.complete(ctx) {
		return true, nil
	}
	if warning := a.record.Warning(); warning != "" {
		a.events.Emit(warning)
	}
	if err := process.CheckDir(a.config.Dir); err != nil {
		return false, err
	}
	return false, process.LookCommand(a.config.Command, a.config.Dir)
}

// authenticate prepares the mutual authentication of this agent and its peers.
func (a *agent) authenticate(token nomadapi.Token) error {
	c := a.config
	keys, err := discovery.NewKeys(c.NomadAddr, token)
	if err != nil {
		return err
	}
	a.certifier = discovery.NewCertifier(peerToken(c.PeerTokenFile, token), keys)
	a.presence = discovery.NewPresence(a.registry, c.JobID, time.Duration(c.LeaveTimeout)+leaveMargin)
	a.transport = &discovery.Transport{
		Certifier: a.certifier,
		Verifier:  discovery.NewVerifier(discovery.VerifierOptions{Namespace: c.Namespace, JobID: c.JobID, Group: c.Group, Task: c.Task, Keys: keys}),
		Presence:  a.presence, Logger: a.log.Named("peers"),
	}
	return nil
}

// peerToken returns the identity that proves this agent to others. That is the task's
// identity for this purpose or, if there is none, the one for the registry.
func peerToken(file string, registry nomadapi.Token) nomadapi.Token {
	own := nomadapi.Token{File: file, Env: "NOMAD_TOKEN_kolo"}
	if file == "" && os.Getenv(own.Env) == "" {
		return registry
	}
	return own
}

// makeHost makes the allocation's host, which others reach at a service address. program is
// this program, which takes stacks; see host.Options.
func (a *agent) makeHost(addr, program string) {
	c := a.config
	a.id = wire.NewHostID(c.AllocID, time.Now())
	part := a.framework.Host(framework.Options{Host: a.id, Job: c.JobID, Mode: c.Restart.Mode, Replica: c.Replica, Interface: a.chooseInterface(addr), Logger: a.log})
	a.host = host.New(host.Options{Config: c, Framework: part, ID: a.id, Addr: addr, Hostname: hostnet.NameFor(addr),
		Stdout: process.NewSharedWriter(os.Stdout), Stderr: process.NewSharedWriter(os.Stderr), Events: a.events, Logger: a.log, Program: program, LastHost: a.lastHost})
}

// serve runs the host to its end, together with the servers and the election.
func (a *agent) serve(ctx context.Context, cancel func(), ports *port.Port, signals <-chan os.Signal) host.Result {
	server := session.NewServer(a.transport.Server())
	a.elector.Register(server)
	session.Register(server, func(s *session.LeaderEnd) error {
		if l := a.current(); l != nil {
			return l.Serve(s)
		}
		return session.ErrNotLeader
	})
	web := statusapi.NewServer(a.host.Status)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ports.Agents()) })
	wg.Go(func() { _ = web.Serve(ports.Web()) })
	wg.Go(func() { a.presence.Run(ctx) })
	wg.Go(func() { _ = a.elector.Run(ctx) })
	wg.Go(func() { a.follow(ctx) })
	wg.Go(func() { a.signals(ctx, signals) })

	result := a.host.Run(context.WithoutCancel(ctx))
	if l := a.current(); l != nil {
		a.elector.Leave()
		a.awaitOthers(l)
	}
	cancel()
	server.Stop()
	_ = web.Close()
	wg.Wait()
	return result
}

// awaitOthers waits until this agent's own host is the only one left in session with its
// leader, for at most othersWait.
func (a *agent) awaitOthers(l *leader.Leader) {
	for end := time.Now().Add(othersWait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !slices.ContainsFunc(l.Attached(), func(id elastic.HostID) bool { return id != a.id }) {
			return
		}
	}
}

// completedBefore is the result of an allocation that finds the training complete.
var completedBefore = host.Result{Reason: "training was completed before", Completed: true}

// complete reports whether a record shows that nothing is left to train.
func (a *agent) complete(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done, err := a.record.Find(ctx)
	if err != nil {
		a.log.Warn("can't find out whether training is complete already; if it is, it begins again", "error", err)
	}
	if done == nil {
		return false
	}
	a.events.Emit(done.Explain(a.record))
	return true
}
