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
	queued      = 256              // notifications in a queue
	requestTime = 10 * time.Second // limit of one request
	giveUpAfter = 10 * time.Minute // limit of a request with all its retries
	minSecret   = 16               // bytes
)

// Source provides what a Sender needs of the autoscaler.
type Source interface {
	Subscribe() (events <-chan api.Event, stop func())
	// Config returns the configuration in force.
	Config() *config.Config
	// Leads reports whether this autoscaler leads. Only the leader sends events, because the
	// other autoscalers see the same ones.
	Leads() bool
	// JobQueue returns the pool and queue of a job, or "" if it is unknown.
	JobQueue(namespace, id string) (pool, queue string)
}

// Sender sends events to the webhooks of the configuration.
type Sender struct {
	source Source
	log    hclog.Logger
	first  time.Duration // before the first retry
	local  func(netip.Addr) bool
	hooks  map[string]*hook
}

// New returns a Sender. It sends while Run runs.
func New(source Source, log hclog.Logger) *Sender {
	return &Sender{source: source, log: log, first: time.Second, local: ofThisMachine, hooks: map[string]*hook{}}
}

// hook is a webhook and its queue. One goroutine sends the queue.
type hook struct {
	config.Notify
	queue   chan *Notification
	stop    context.CancelFunc
	dropped bool // an event was dropped since the last one that was queued
}

// Run sends events until ctx ends. Events that are queued then are lost.
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

// update starts and stops hooks to match the configuration. A hook whose settings changed is
// replaced by a new one.
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

// take queues an event for the hooks that select it.
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
				s.log.Warn("dropping events for a webhook that is too slow", "notify", h.Name, "waiting", queued)
			}
			h.dropped = true
		}
	}
}

// wanted reports whether any hook selects events of a kind.
func (s *Sender) wanted(kind string) bool {
	for _, h := range s.hooks {
		if slices.Contains(h.On, kind) {
			return true
		}
	}
	return false
}

// send sends the queue of a hook, one notification after the other, until ctx ends.
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
				s.log.Warn("failed to send an event to a webhook", "notify", h.Name, "on", n.On, "job", n.Event.Job, "error", err)
			}
		}
	}
}

// errLocal means that a webhook's address belongs to the autoscaler's machine.
var errLocal = errors.New("the address belongs to the autoscaler's own machine, where Kolo's API and Nomad's may listen; set allow_local = true to permit it")

// client returns a client that follows no redirects and, unless local is set, connects to no
// address of this machine. It checks the address that it actually connects to, because
// another look-up of the name may return another address.
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

// ofThisMachine reports whether an address is loopback, link-local, unspecified, or that of an
// interface of this machine.
func ofThisMachine(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // to be safe
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

// post sends one request. Its error is permanent if a retry would fail as well. Errors do not
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
			return backoff.Permanent(fmt.Errorf("signing the request: %w", err))
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
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return backoff.Permanent(fmt.Errorf("the server answered %s", resp.Status)) // also a redirect, which is not followed
}
