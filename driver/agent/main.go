// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/driver/discovery"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

// ConfigVariable names the file with the agent's Config.
const ConfigVariable = "KOLO_AGENT_CONFIG"

// Main is the `agent` subcommand: it runs the allocation's part of the job and
// returns the task's exit code.
func Main(ctx context.Context, _ []string) int {
	outliveReaders()
	log := hclog.New(&hclog.LoggerOptions{Name: "kolo", Output: os.Stderr, Level: hclog.LevelFromString(os.Getenv("KOLO_LOG_LEVEL"))})
	c, err := readConfig(os.Getenv(ConfigVariable))
	if err != nil {
		log.Error("the agent can't start", "error", err)
		return 1
	}
	st, err := newStories(c.EventFile, log)
	if err != nil {
		log.Error("the agent can't start", "error", err)
		return 1
	}
	defer st.close()
	a := &remote{config: c, log: log, stories: st}
	result, err := a.run(ctx)
	if err != nil {
		st.tell(fmt.Sprintf("the agent gives up: %v", err))
		return 1
	}
	log.Info("agent ends", "code", result.Code, "reason", result.Reason)
	if result.Code != 0 {
		st.tell(result.Reason)
	}
	return result.Code
}

func readConfig(path string) (Config, error) {
	var c Config
	if path == "" {
		return c, fmt.Errorf("%s is not set: the agent is started by the driver", ConfigVariable)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// remote is an agent among peers: the host of this allocation, and the leader
// when it is elected.
type remote struct {
	config  Config
	log     hclog.Logger
	stories *stories

	elector *discovery.Elector
	record  *completion
	host    *Host
	id      elastic.HostID

	registry  *discovery.Shared
	presence  *discovery.Presence
	transport *discovery.Transport

	mu     sync.Mutex
	leader *Leader
}

// leaveMargin is added to leave_timeout for the time that an allocation may take
// to leave once Nomad has taken it from the registry.
const leaveMargin = time.Minute

// registerWait is how long the agent waits to find itself in the registry.
const registerWait = 60 * time.Second

func (a *remote) run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// From here on a stop signal is a wish to leave, not the end.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn()...)
	defer signal.Stop(signals)

	c := a.config
	token := discovery.Token{File: c.TokenFile, Env: "NOMAD_TOKEN"}
	peerToken := token
	if c.PeerTokenFile != "" {
		peerToken = discovery.Token{File: c.PeerTokenFile, Env: "NOMAD_TOKEN_kolo"}
	}
	_, err := token.Read()
	if err != nil {
		return Result{}, err
	}
	if a.record, err = newCompletion(c, token); err != nil {
		return Result{}, err
	}
	if a.complete(ctx) {
		return completedBefore, nil
	}
	if warning := a.record.cannotComplete(); warning != "" {
		a.stories.tell(warning)
	}
	if err := lookCommand(c.Command, c.Dir); err != nil {
		return Result{}, err
	}

	services, err := discovery.NewNomad(discovery.NomadOptions{Address: c.NomadAddr, Token: token, Service: c.Service,
		Namespace: c.Namespace, JobID: c.JobID, Logger: a.log.Named("registry")})
	if err != nil {
		return Result{}, err
	}
	// One watch of Nomad for all who want to know.
	a.registry = discovery.Share(ctx, services)

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return Result{}, portError(c.Listen, err)
	}
	ports := newSplit(listener, a.peers)
	defer ports.close()

	keys, err := discovery.NewKeys(c.NomadAddr, token)
	if err != nil {
		return Result{}, err
	}
	certifier := discovery.NewCertifier(peerToken, keys)
	a.presence = discovery.NewPresence(a.registry, c.JobID, time.Duration(c.KillTimeout)+leaveMargin)
	a.transport = discovery.NewTransport(discovery.TransportOptions{
		Certifier: certifier,
		Verifier:  discovery.NewVerifier(discovery.VerifierOptions{Namespace: c.Namespace, JobID: c.JobID, Group: c.Group, Task: c.Task, Keys: keys}),
		Presence:  a.presence, Logger: a.log.Named("peers"),
	})
	self, stopped, err := a.findSelf(ctx, a.registry, signals)
	if err != nil || stopped {
		return Result{Reason: "the task was stopped"}, err
	}
	// Nomad has answered by now, if it did not before; and the others may have
	// completed while this allocation waited.
	if a.complete(ctx) {
		return completedBefore, nil
	}

	// Made now, it is there for the first call, and what is wrong is heard early.
	if _, err := certifier.Certificate(ctx); err != nil {
		a.stories.tell(fmt.Sprintf("this agent cannot prove to others who it is, and tries again: %v", err))
	}

	a.makeHost(self.Addr)
	a.elector, err = discovery.NewElector(discovery.Options{Self: self, Service: c.Service, Registry: a.registry,
		Dial: func(_ context.Context, addr, alloc string) (*grpc.ClientConn, error) {
			return dial(addr, a.transport.Client(alloc))
		}, Logger: a.log.Named("election")})
	if err != nil {
		return Result{}, err
	}
	server := newServer(a.transport.Server())
	a.elector.Register(server)
	registerSessions(server, a.current)
	web := newWeb(a.host.Status)

	var wg sync.WaitGroup
	start := func(f func()) {
		wg.Add(1)
		go func() { defer wg.Done(); f() }()
	}
	start(func() { _ = server.Serve(ports.grpc) })
	start(func() { _ = web.Serve(ports.http) })
	start(func() { a.presence.Run(ctx) })
	start(func() { _ = a.elector.Run(ctx) })
	start(func() { a.follow(ctx) })
	start(func() { a.signals(ctx, signals) })

	result := a.host.Run(context.WithoutCancel(ctx))
	if l := a.current(); l != nil {
		a.elector.Leave()
		l.Quiet(a.id, 5*time.Second)
	}
	cancel()
	server.Stop()
	_ = web.Close()
	wg.Wait()
	return result, nil
}

// makeHost makes the allocation's host, of a service address.
func (a *remote) makeHost(addr string) {
	c := a.config
	a.id = elastic.HostID(allocPrefix(elastic.HostID(c.AllocID)) + "-" + strconv.FormatInt(time.Now().UnixMilli()%(1<<40), 36))
	a.host = NewHost(HostOptions{Config: c, ID: a.id, Addr: addr, Interface: a.chooseInterface(addr), Hostname: HostnameFor(addr),
		Stdout: &lockedWriter{w: os.Stdout}, Stderr: &lockedWriter{w: os.Stderr}, Stories: a.stories, Logger: a.log, Alone: a.alone})
}

// completedBefore is the result of an allocation that finds nothing to train.
var completedBefore = Result{Reason: "training was completed before"}

// complete says whether a record tells that there is nothing left to train.
func (a *remote) complete(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done, err := a.record.find(ctx)
	if err != nil {
		a.log.Warn("can't tell whether training is complete already; if it is, it begins again", "error", err)
	}
	if done == nil {
		return false
	}
	a.stories.tell(done.story(a.record))
	return true
}

// portError explains why the service's port can't be listened on.
func portError(listen string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the service port can't be used: %w; another process of this node holds it: leave out the port's static = …, "+
			"so that Nomad picks a free one, or list the port in the client's reserved_ports", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("the service port can't be used: %w; this node has no address %s: see network_interface and host_network "+
			"in the client's configuration", err, listen)
	}
	return fmt.Errorf("the service port can't be used: %w", err)
}

// findSelf waits until Nomad's registry shows this allocation: from then on
// others can find it, and its address is known.
func (a *remote) findSelf(ctx context.Context, r discovery.Registry, signals <-chan os.Signal) (discovery.Peer, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, registerWait)
	defer cancel()
	views := r.Watch(ctx)
	var last discovery.View
	told := false
	for {
		select {
		case v, ok := <-views:
			if !ok {
				if last.Err != nil {
					return discovery.Peer{}, false, last.Err
				}
				return discovery.Peer{}, false, fmt.Errorf("service %q: this allocation is not registered after %s; the group needs "+
					"service { name = %q  provider = \"nomad\"  port = <the port's label> }", a.config.Service, registerWait, a.config.Service)
			}
			last = v
			if p, ok := v.Find(a.config.AllocID); ok && v.Err == nil {
				p.Group, p.Index = a.config.Group, a.config.Index
				return p, false, nil
			}
			if v.Err != nil && !told {
				told = true
				a.stories.tell(fmt.Sprintf("waiting for the service registry: %v", v.Err))
			}
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT {
				return discovery.Peer{}, true, nil
			}
		}
	}
}

// chooseInterface returns the interface for Gloo: the one that carries the
// address at which the others find this host.
func (a *remote) chooseInterface(addr string) string {
	if a.config.Interface != "" {
		return a.config.Interface
	}
	host, _, _ := net.SplitHostPort(addr)
	name, err := interfaceOf(net.ParseIP(host))
	if err != nil {
		a.log.Warn("Horovod chooses the network interface itself; set interface in the task's config if it chooses wrong", "address", host, "error", err)
	}
	return name
}

// present says whether an allocation is registered, and whether the view is
// newer than a time.
func (a *remote) present(alloc string, after time.Time) (present, fresh bool) {
	view := a.registry.Latest()
	for _, p := range view.Peers {
		if len(alloc) > 0 && len(p.AllocID) >= len(alloc) && p.AllocID[:len(alloc)] == alloc {
			present = true
		}
	}
	return present, view.At.After(after)
}

// peers is how many agents the registry names.
func (a *remote) peers() int { return len(a.registry.Latest().Peers) }

// alone says whether the registry names no agent of the job.
func (a *remote) alone() bool {
	view := a.registry.Latest()
	return view.Err == nil && len(view.Peers) == 0
}

func (a *remote) current() *Leader {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leader
}

func (a *remote) setLeader(l *Leader) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leader = l
}

// passedOn are the signals that an agent takes: all that Nomad can send, as most
// would end an agent that does not. Left out are those that Go ignores and that
// the kernel or Go's scheduler send by themselves: they come in such numbers
// that a stop signal might find the channel full.
func passedOn() []os.Signal {
	var list []os.Signal
	for sig := syscall.Signal(1); sig < 32; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE:
		default:
			list = append(list, sig)
		}
	}
	return list
}

// signals turns a stop signal into leaving and passes others on.
func (a *remote) signals(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				a.log.Info("the task is being stopped; leaving the ring")
				a.host.Leave(a.config.timeToLeave(time.Now()))
				a.elector.Leave()
			} else if ok {
				a.host.Signal(sig)
			}
		}
	}
}

// follow keeps the host in session with whoever leads, and leads when elected.
func (a *remote) follow(ctx context.Context) {
	var (
		stop  = func() {}
		floor uint64
	)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case now, ok := <-a.elector.Leadership():
			if !ok {
				return
			}
			stop()
			stop = func() {}
			if now.Leader.AllocID == "" && !now.Self {
				continue
			}
			a.log.Info("leadership", "term", now.Term, "leader", now.Leader.AllocID, "self", now.Self)
			roundCtx, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if now.Self {
					floor = a.lead(roundCtx, now.Term, max(floor, a.elector.LastRing().Generation))
				} else {
					a.attend(roundCtx, now)
				}
			}()
			stop = func() {
				cancel()
				<-done
			}
		}
	}
}

// lead leads for one term; the own host is in session through a pipe. It
// returns the highest generation that may be spent.
func (a *remote) lead(ctx context.Context, term, floor uint64) uint64 {
	for ctx.Err() == nil {
		l := NewLeader(LeaderOptions{Config: a.config, Term: term, Floor: floor, Consent: a.elector, Record: a.record,
			Present: a.present, PeerAuth: discovery.Authentication, Logger: a.log.Named("leader")})
		a.setLeader(l)
		runCtx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		up, dn := newPipes()
		wg.Add(2)
		go func() { defer wg.Done(); _ = l.Serve(dn) }()
		go func() { defer wg.Done(); _ = a.host.Attach(up) }()
		err := l.Run(runCtx)
		cancel()
		up.close()
		wg.Wait()
		a.setLeader(nil)
		floor = max(floor, l.spent())
		if err == nil || !errors.Is(err, errNoConsent) {
			return floor
		}
		a.log.Warn("beginning again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return floor
}
