// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/nomad/api"
)

// Options specify the cluster to start.
type Options struct {
	// Nomad is the Nomad binary.
	Nomad string
	// Clients is the number of client agents, 3 if 0.
	Clients int
	// Plugins maps the path of a plugin's binary, or the name of a driver that is part of
	// Nomad, to the HCL body of its `config` block on every client.
	Plugins map[string]string
	// ClientHCL is added to the `client` block of every client agent. In it and in the
	// plugins' configurations, @NAME@ stands for the node's name, @NODE@ for its directory
	// and @CLUSTER@ for the cluster's.
	ClientHCL string
	// Drivers are task drivers that clients may load in addition to the usual ones.
	Drivers []string
	// Prepare is called for each node before its client agent starts, for the node's own
	// services, see Node.Service.
	Prepare func(ctx context.Context, n *Node) error
	// Env is added to the environment of every agent, and so to that of tasks without
	// isolation.
	Env map[string]string
	// ACL enables access control. The cluster's API client then has the management token.
	ACL bool
	// CPU (MHz) and MemoryMB are each client's resources, 8000 and 8192 if 0.
	CPU, MemoryMB int
	// Grace is how late a client's heartbeat may be before the client is lost, in whole
	// seconds. The default is 5 s, so that a test sees the loss soon. Tests that lose no
	// client set it to Patient.
	Grace time.Duration
	// Log receives one line for each action; nil discards them.
	Log func(format string, args ...any)
}

// Patient is a value of Options.Grace that is long enough for busy machines: no client
// counts as lost just because it is slow.
const Patient = 5 * time.Minute

// binaryVariable is the environment variable with the Nomad of `make e2e NOMAD=…`.
const binaryVariable = "KOLO_E2E_NOMAD_BINARY"

// Binary returns the Nomad binary to test with: the binary of `make e2e NOMAD=…`, or
// bin/nomad below the project's root.
func Binary(root string) string {
	return cmp.Or(os.Getenv(binaryVariable), filepath.Join(root, "bin", "nomad"))
}

// A Cluster is a running Nomad. Its methods may be called concurrently.
type Cluster struct {
	// API is a client of the server.
	API *api.Client
	// Address is the server's HTTP address.
	Address string
	// Token is the management token if ACLs are enabled.
	Token string
	// Nodes are the clients, c1 first.
	Nodes []*Node
	// Dir holds everything that the agents write.
	Dir string

	server  *agent
	network network
	reaper  *reaper
	log     func(format string, args ...any)

	stopOnce sync.Once
	stopErr  error
	cancel   func()        // cancels Start
	started  chan struct{} // closed when Start returns
}

// Start starts a cluster and waits until its clients are ready. The caller must Stop it.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Clients == 0 {
		o.Clients = 3
	}
	if o.CPU == 0 {
		o.CPU = 8000
	}
	if o.MemoryMB == 0 {
		o.MemoryMB = 8192
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	sweep(ctx, o.Log)
	c := &Cluster{log: o.Log, started: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	defer c.cancel()
	if err := admit(c); err != nil {
		return nil, err
	}
	defer close(c.started)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.startServer(ctx, o); err != nil {
		return nil, err
	}
	plugins, err := c.installPlugins(o.Plugins)
	if err != nil {
		return nil, err
	}
	for i := 1; i <= o.Clients; i++ {
		if err := c.startClient(ctx, i, o, plugins); err != nil {
			return nil, err
		}
	}
	if err := c.waitForNodes(ctx); err != nil {
		return nil, err
	}
	where := "each in a network namespace of its own"
	if c.network.shared() {
		where = "all on the loopback interface"
	}
	o.Log("cluster: server at %s, %d clients, %s", c.Address, len(c.Nodes), where)
	return c, nil
}

// prepare makes what the agents need, and the reaper, which removes all of it.
func (c *Cluster) prepare(ctx context.Context) (err error) {
	// A short path, because the path of a task's Unix socket below it may have at most 107
	// bytes.
	if c.Dir, err = os.MkdirTemp("", "kolo-"); err != nil {
		return err
	}
	if err = errors.Join(os.Chmod(c.Dir, 0o755), claim(c.Dir)); err == nil {
		c.network, err = newNetwork(ctx, c.Dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(c.Dir))
	}
	c.reaper, err = startReaper(c.Dir, c.network.name)
	return err
}

// Isolated reports whether the clients have network namespaces, so that Node.Cut works.
func (c *Cluster) Isolated() bool { return !c.network.shared() }

// Before reports whether the cluster's Nomad is older than a version, such as 1.11.2. A
// development build counts as its future release.
func (c *Cluster) Before(v string) (bool, error) {
	self, err := c.API.Agent().Self()
	if err != nil {
		return false, fmt.Errorf("the version of Nomad: %w", err)
	}
	build, err := version.NewVersion(self.Member.Tags["build"])
	if err != nil {
		return false, fmt.Errorf("the version of Nomad: %w", err)
	}
	than, err := version.NewVersion(v)
	if err != nil {
		return false, err
	}
	return build.Core().LessThan(than), nil
}

// Stop ends the agents and all tasks, and removes everything that belongs to the cluster.
// Calls after the first do nothing.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		defer forget(c)
		if c.reaper != nil {
			c.stopErr = c.reaper.reap()
		}
	})
	return c.stopErr
}

// KeepLogs copies the logs of agents and allocations to dir.
func (c *Cluster) KeepLogs(dir string) error {
	var errs []error
	for _, pattern := range []string{"*/*.log", "*/agent.hcl", "*/alloc/*/alloc/logs/*", "*/alloc/.kolo/state/*/*/executor.out", "*/alloc/*/*/*.jsonl"} {
		paths, err := filepath.Glob(filepath.Join(c.Dir, pattern))
		errs = append(errs, err)
		for _, path := range paths {
			rel, err := filepath.Rel(c.Dir, path)
			errs = append(errs, err, copyFile(path, filepath.Join(dir, rel)))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) startServer(ctx context.Context, o Options) error {
	ports, err := c.ports()
	if err != nil {
		return err
	}
	dir := filepath.Join(c.Dir, "server")
	conf := agentConfig{
		Name: "server", Dir: dir, IP: c.network.serverIP(), ACL: o.ACL, GraceS: int(cmp.Or(o.Grace, 5*time.Second).Seconds()),
		HTTP: ports[0], RPC: ports[1], Serf: ports[2],
	}
	text, err := conf.render(serverTemplate)
	if err != nil {
		return err
	}
	c.server = &agent{nomad: o.Nomad, dir: dir, env: o.Env}
	if err := c.server.start(text); err != nil {
		return err
	}
	c.server.conf = conf
	c.Address = fmt.Sprintf("http://%s:%d", conf.IP, conf.HTTP)
	if c.API, err = api.NewClient(&api.Config{Address: c.Address}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = Until(ctx, "the server to lead", func(context.Context) error {
		if err := c.server.alive(); err != nil {
			return err
		}
		leader, err := c.API.Status().Leader()
		if err == nil && leader == "" {
			err = errors.New("no leader yet")
		}
		return err
	})
	if err != nil || !o.ACL {
		return err
	}
	return Until(ctx, "the management token", func(context.Context) error {
		token, _, err := c.API.ACLTokens().Bootstrap(nil)
		if err != nil {
			return err
		}
		c.Token = token.SecretID
		c.API.SetSecretID(c.Token)
		return nil
	})
}

func (c *Cluster) startClient(ctx context.Context, i int, o Options, plugins map[string]string) error {
	if err := c.network.addClient(ctx, i); err != nil {
		return err
	}
	ports, err := c.ports()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("c%d", i)
	dir := filepath.Join(c.Dir, name)
	conf := agentConfig{
		Name: name, Dir: dir, IP: c.network.clientIP(i), Interface: c.network.clientInterface(), ACL: o.ACL,
		HTTP: ports[0], RPC: ports[1], Serf: ports[2],
		ServerIP: c.server.conf.IP, ServerRPC: c.server.conf.RPC,
		PluginDir: filepath.Join(c.Dir, "plugins"), Plugins: map[string]string{}, Drivers: o.Drivers,
		CPU: o.CPU, MemoryMB: o.MemoryMB,
	}
	places := strings.NewReplacer("@NAME@", name, "@NODE@", dir, "@CLUSTER@", c.Dir)
	conf.ClientHCL = places.Replace(o.ClientHCL)
	for name, config := range plugins {
		conf.Plugins[name] = places.Replace(config)
	}
	text, err := conf.render(clientTemplate)
	if err != nil {
		return err
	}
	n := &Node{
		Name: name, IP: conf.IP, index: i, cluster: c,
		agent: &agent{nomad: o.Nomad, dir: dir, env: o.Env, prefix: c.network.enter(i), conf: conf},
	}
	c.Nodes = append(c.Nodes, n)
	if o.Prepare != nil {
		if err := o.Prepare(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return n.agent.start(text)
}

// ports returns HTTP, RPC and Serf ports for one agent: Nomad's usual ones if the agent has
// an address of its own.
func (c *Cluster) ports() ([3]int, error) {
	if !c.network.shared() {
		return [3]int{4646, 4647, 4648}, nil
	}
	var ports [3]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // does not block
		if err != nil {
			return ports, err
		}
		defer l.Close() // not before all three are open: they must differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
