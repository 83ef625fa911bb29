// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/config"
)

// Bounds of a webhook.
const (
	queued      = 256              // notifications that wait
	requestTime = 10 * time.Second // of one request
	giveUpAfter = 10 * time.Minute // of all repetitions of one request
	minSecret   = 16               // bytes
)

// Source is what a Sender needs of the autoscaler.
type Source interface {
	Subscribe() (events <-chan api.Event, stop func())
	// Config returns the configuration in force.
	Config() *config.Config
	// Leads reports whether this autoscaler leads. The others see the same events, and must not
	// send them as well.
	Leads() bool
	// JobQueue returns the pool and queue of a job, or "" if it is unknown.
	JobQueue(namespace, id string) (pool, queue string)
}

// Sender sends events to the webhooks of the configuration.
type Sender struct {
	source Source
	log    hclog.Logger
	first  time.Duration // before the first repetition
	local  func(netip.Addr) bool
	hooks  map[string]*hook
}

// New returns a sender; Run makes it send.
func New(source Source, log hclog.Logger) *Sender {
	return &Sender{source: source, log: log, first: time.Second, local: ofThisMachine, hooks: map[string]*hook{}}
}

// hook is a webhook with its queue, which one goroutine sends.
type hook struct {
	config.Notify
	queue   chan *Notification
	stop    context.CancelFunc
	dropped bool // since the last that was queued
}

// Run sends until ctx ends. What is queued then is lost.
func (s *Sender) Run(ctx context.Context) {
	events, stop := s.source.Subscribe()
	defer stop()
	var sending sync.WaitGroup
	defer sending.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			s.update(ctx, &sending)
			s.take(&e)
		}
	}
}

// update starts and stops hooks as the configuration says. A hook whose settings changed is a new
// one.
func (s *Sender) update(ctx context.Context, sending *sync.WaitGroup) {
	wanted := s.source.Config().Notify
	for name, h := range s.hooks {
		if !slices.ContainsFunc(wanted, func(n config.Notify) bool { return reflect.DeepEqual(n, h.Notify) }) {
			h.stop()
			delete(s.hooks, name)
		}
	}
	for _, n := range wanted {
		if s.hooks[n.Name] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		h := &hook{Notify: n, queue: make(chan *Notification, queued), stop: cancel}
		s.hooks[n.Name] = h
		sending.Go(func() {
			defer cancel()
			s.send(ctx, h)
		})
	}
}

// take queues an event for the hooks that want it.
func (s *Sender) take(e *api.Event) {
	kind := Kind(e)
	if kind == "" || !s.wanted(kind) || !s.source.Leads() {
		return
	}
	n := &Notification{ID: rand.Text(), On: kind, Text: sentence(kind, e), Event: *e}
	if e.ID != "" {
		n.Pool, n.Queue = s.source.JobQueue(e.Namespace, e.ID)
	}
	for _, h := range s.hooks {
		if !slices.Contains(h.On, kind) || h.Queue != "" && h.Queue != n.Queue {
			continue
		}
		select {
		case h.queue <- n:
			h.dropped = false
		default:
			if !h.dropped {
				s.log.Warn("a webhook is too slow; events for it are dropped", "notify", h.Name, "waiting", queued)
			}
			h.dropped = true
		}
	}
}

// wanted reports whether any hook wants events of a kind.
func (s *Sender) wanted(kind string) bool {
	for _, h := range s.hooks {
		if slices.Contains(h.On, kind) {
			return true
		}
	}
	return false
}

// send sends what is queued for a hook, one after the other, until ctx ends.
func (s *Sender) send(ctx context.Context, h *hook) {
	client := s.client(h.AllowLocal)
	defer client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-h.queue:
			wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(s.first), backoff.WithMaxInterval(time.Minute), backoff.WithMaxElapsedTime(giveUpAfter))
			err := backoff.Retry(func() error { return post(ctx, client, &h.Notify, n) }, backoff.WithContext(wait, ctx))
			if err != nil && ctx.Err() == nil {
				s.log.Warn("an event could not be sent to a webhook", "notify", h.Name, "on", n.On, "job", n.Event.Job, "error", err)
			}
		}
	}
}

// errLocal means that a webhook's address belongs to the autoscaler's machine.
var errLocal = errors.New("it is an address of the autoscaler's own machine, where its own API and Nomad's may listen; allow_local = true permits that")

// client returns a client that follows no redirects and, unless local is set, connects to no
// address of this machine. It checks the address that it connects to, because a name may have
// another address a moment later.
func (s *Sender) client(local bool) *http.Client {
	dialer := &net.Dialer{Timeout: requestTime, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !local && s.local(at.Addr().Unmap()) {
			return backoff.Permanent(errLocal)
		}
		return nil
	}}
	return &http.Client{
		Timeout:       requestTime,
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: requestTime, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ofThisMachine reports whether an address is loopback, link-local, unspecified, or of an
// interface.
func ofThisMachine(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // it cannot be ruled out
	}
	return slices.ContainsFunc(addrs, func(x net.Addr) bool {
		n, ok := x.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(n.IP)
		return ok && own.Unmap() == a
	})
}

// post sends one request. Its errors are permanent if a repetition would fail as well. They do not
// contain the URL, which may hold a secret.
func post(ctx context.Context, client *http.Client, h *config.Notify, n *Notification) error {
	body, err := n.body(h.Format)
	if err != nil {
		return backoff.Permanent(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(errors.New("the URL is not valid"))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kolo")
	if h.SecretFile != "" {
		secret, err := os.ReadFile(h.SecretFile)
		if err == nil && len(bytes.TrimSpace(secret)) < minSecret {
			err = fmt.Errorf("%s has fewer than %d bytes", h.SecretFile, minSecret)
		}
		if err != nil {
			return backoff.Permanent(fmt.Errorf("the signature: %w", err))
		}
		req.Header.Set(SignatureHeader, Sign(bytes.TrimSpace(secret), body, time.Now()))
	}
	resp, err := client.Do(req)
	if err != nil {
		if errors.Is(err, errLocal) {
			return backoff.Permanent(errLocal)
		}
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 4096) // so that the connection can be used again
	switch {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return backoff.Permanent(fmt.Errorf("it answered %s", resp.Status)) // redirects, too: they are not followed
}
