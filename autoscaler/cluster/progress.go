// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/autoscaler/planner"
)

// Progress is what the driver's agents tell of a job's training.
type Progress struct {
	Size        int                 `json:"size"` // slots training together
	Step        float64             `json:"step"`
	Samples     float64             `json:"samples"`
	TotalSteps  float64             `json:"total_steps"`
	Loss        *float64            `json:"loss"`
	StepSeconds map[string]StepTime `json:"step_seconds"` // by size
	Resizes     []Resize            `json:"resizes"`
	Complete    bool                `json:"complete"`
}

// StepTime is the measured time of one global step at one size.
type StepTime struct {
	Mean float64 `json:"mean"`
	N    int     `json:"n"`
	// Samples is how many samples such a step takes, 0 where the script does
	// not tell.
	Samples float64 `json:"samples"`
}

// Resize is one change of the ring as the workers saw it.
type Resize struct {
	From       int     `json:"from"`
	To         int     `json:"to"`
	Cause      string  `json:"cause"` // start, resize, failure
	GapSeconds float64 `json:"gap_seconds"`
	LostSteps  float64 `json:"lost_steps"`
	Time       float64 `json:"time"` // Unix seconds at which the new ring was formed
}

// statusPath is where the driver's agents serve their progress.
const statusPath = "/v1/status"

// progressLimit bounds the answer of one agent.
const progressLimit = 1 << 20

// Prober asks jobs for their progress. Addresses are looked up in Nomad's
// service registry and kept while they answer. It is for one goroutine per
// job at a time.
type Prober struct {
	client  *Client
	http    *http.Client
	timeout time.Duration // of one request
}

// NewProber makes a prober whose requests take at most the timeout.
func NewProber(c *Client, timeout time.Duration) *Prober {
	return &Prober{client: c, timeout: timeout, http: &http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: timeout}).DialContext, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
	}}}
}

// triedAtOnce is how many addresses of a service are asked in one probe: where
// these do not answer, others seldom do, and there may be a hundred.
const triedAtOnce = 3

// Probe asks one job. known is the address that answered last, "" for none;
// the one that answered now is returned with the progress. It takes no longer
// than three requests that are not answered.
func (p *Prober) Probe(ctx context.Context, key planner.JobKey, services []string, known string) (*Progress, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*p.timeout)
	defer cancel()
	if known != "" {
		if got, err := p.ask(ctx, known); err == nil {
			return got, known, nil
		}
	}
	var last error
	for _, service := range services {
		addresses, err := p.lookUp(ctx, key, service)
		if err != nil {
			return nil, "", err
		}
		// Others another time.
		rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
		for _, a := range addresses[:min(triedAtOnce, len(addresses))] {
			got, err := p.ask(ctx, a)
			if err == nil {
				return got, a, nil
			}
			last = err
		}
	}
	if last == nil {
		last = fmt.Errorf("no instance of services %v is registered", services)
	}
	return nil, "", last
}

// lookUp returns the addresses of a job's instances of a service.
func (p *Prober) lookUp(ctx context.Context, key planner.JobKey, service string) ([]string, error) {
	ctx, cancel := p.client.bounded(ctx)
	defer cancel()
	regs, _, err := p.client.Services().Get(service, (&api.QueryOptions{Namespace: key.Namespace}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("looking up service %s of %s: %w", service, key, err)
	}
	var out []string
	for _, r := range regs {
		if r.JobID == key.ID {
			out = append(out, net.JoinHostPort(r.Address, strconv.Itoa(r.Port)))
		}
	}
	return out, nil
}

func (p *Prober) ask(ctx context.Context, address string) (*Progress, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+statusPath, nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s answered %s", address, statusPath, resp.Status)
	}
	var out Progress
	if err := json.NewDecoder(io.LimitReader(resp.Body, progressLimit)).Decode(&out); err != nil {
		return nil, fmt.Errorf("%s%s: %w", address, statusPath, err)
	}
	return &out, nil
}
