// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
)

// Prober asks jobs for their progress. At most one goroutine at a time may probe a
// job.
//
//	service registry ──> allocation ──> its host's IP and port ──> GET /v1/status
//	  (job's instances)    (Nomad's)      (reserved by Nomad)       names compared
//
// The registry cannot be trusted: a job's author controls the address in the job's
// service block, and the port may belong to another job by now. Therefore the
// Prober asks at the address that Nomad reserved for the allocation, follows no
// redirects and sends no credentials. It accepts an answer only if the answer names
// the job.
type Prober struct {
	client  *Client
	http    *http.Client
	timeout time.Duration // of one request
}

// statusPath is where the driver's agents serve their progress.
const statusPath = "/v1/status"

// headerLimit bounds the header of an answer, in bytes.
const headerLimit = 16 << 10

// NewProber returns a prober whose requests take at most timeout.
func NewProber(c *Client, timeout time.Duration) *Prober {
	return &Prober{client: c, timeout: timeout, http: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: timeout}).DialContext, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: headerLimit, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Prompt reports whether a probe was fast: it took at most a quarter of its time
// limit.
func (p *Prober) Prompt(took time.Duration) bool { return took <= p.timeout/4 }

// triedAtOnce is how many instances of a service one probe asks. If these do not
// answer, the others seldom do, and there may be a hundred.
const triedAtOnce = 3

// Probe asks one job for its progress. known is the endpoint that answered last, or
// the zero Endpoint. Probe returns the endpoint that answered now along with the
// progress. It takes at most as long as three requests that time out.
func (p *Prober) Probe(ctx context.Context, key identity.JobKey, services []string, known Endpoint) (*history.Progress, Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*p.timeout)
	defer cancel()
	if known != (Endpoint{}) {
		if got, err := p.ask(ctx, key, known); err == nil {
			return got, known, nil
		}
	}
	var last error
	for _, service := range services {
		instances, err := p.instances(ctx, key, service)
		if err != nil {
			return nil, Endpoint{}, err
		}
		// Ask other instances next time.
		rand.Shuffle(len(instances), func(i, j int) { instances[i], instances[j] = instances[j], instances[i] })
		for _, r := range instances[:min(triedAtOnce, len(instances))] {
			e, err := p.endpoint(ctx, key, r)
			if err != nil {
				last = err
				continue
			}
			got, err := p.ask(ctx, key, e)
			if err == nil {
				return got, e, nil
			}
			last = err
		}
	}
	if last == nil {
		last = fmt.Errorf("no instance of services %v is registered", services)
	}
	return nil, Endpoint{}, last
}

// Confirm asks Nomad whether an answer can have come from the endpoint's
// allocation. It returns nil if the instance is still registered, the allocation
// still runs, and it still has the address. Call it after the answer has been
// received. Actions that cannot be undone immediately require a confirmed answer.
func (p *Prober) Confirm(ctx context.Context, key identity.JobKey, services []string, e Endpoint, got *history.Progress) error {
	if got.AllocID != e.Alloc {
		return errors.New("the answer does not name its allocation") // the answer of an older version
	}
	for _, service := range services {
		instances, err := p.instances(ctx, key, service)
		if err != nil {
			return err
		}
		for _, r := range instances {
			if r.AllocID != e.Alloc {
				continue
			}
			if now, err := p.endpoint(ctx, key, r); err == nil && now == e {
				return nil
			}
		}
	}
	return fmt.Errorf("allocation %s is no longer registered at %s", e.Alloc, e.Address)
}

// instances returns the job's instances of a service.
func (p *Prober) instances(ctx context.Context, key identity.JobKey, service string) ([]*api.ServiceRegistration, error) {
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	all, _, err := p.client.Services().Get(service, (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking up service %s of %s: %w", service, key, err)
	}
	var own []*api.ServiceRegistration
	for _, r := range all {
		if r.JobID == key.ID && r.Namespace == key.Namespace {
			own = append(own, r)
		}
	}
	return own, nil
}

// ask requests the progress from an endpoint. Errors do not contain the text of its
// answer.
func (p *Prober) ask(ctx context.Context, key identity.JobKey, e Endpoint) (*history.Progress, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address.String()+statusPath, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s answered %d", e.Address, statusPath, resp.StatusCode)
	}
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, fmt.Errorf("%s%s did not answer JSON", e.Address, statusPath)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, progressLimit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading from %s: %w", e.Address, err)
	case len(text) > progressLimit:
		return nil, fmt.Errorf("%s%s answered more than %d bytes", e.Address, statusPath, progressLimit)
	}
	got, err := readProgress(text)
	if err == nil {
		err = checkSender(got, key, e.Alloc)
	}
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", e.Address, statusPath, err)
	}
	return got, nil
}
