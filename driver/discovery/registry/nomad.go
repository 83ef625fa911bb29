// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"

	"github.com/kolo-nomad/kolo/driver/discovery/internal/latest"
	"github.com/kolo-nomad/kolo/driver/discovery/nomadapi"
)

// maxBackoff is the longest pause between queries, as a multiple of the first.
const maxBackoff = 16

// NomadOptions configure NewNomad.
type NomadOptions struct {
	// Address is Nomad's Task API socket ("unix:///…/secrets/api.sock") or an
	// HTTP address.
	Address string
	// Token authenticates each request.
	Token nomadapi.Token
	// Service, Namespace and JobID select the instances to read.
	Service, Namespace, JobID string
	Logger                    hclog.Logger
}

// Nomad is the registry in Nomad, read with the task's own workload identity. It always
// asks Nomad's leader, since a follower may be behind.
type Nomad struct {
	o      NomadOptions
	client *api.Client
	// wait is how long one query waits for a change. It bounds the age of a view while
	// nothing changes.
	wait time.Duration
	// pause is the pause after the first failed query. It doubles, with jitter, up to
	// maxBackoff times its length.
	pause time.Duration
}

// NewNomad returns the registry, or an error if the options are invalid. It makes no
// request.
func NewNomad(o NomadOptions) (*Nomad, error) {
	if o.Service == "" {
		return nil, errors.New("no service: name the group's Nomad service, by which the job's agents find each other")
	}
	client, err := nomadapi.NewClient(o.Address)
	if err != nil {
		return nil, err
	}
	return &Nomad{o: o, client: client, wait: 5 * time.Second, pause: 250 * time.Millisecond}, nil
}

// Read queries Nomad and returns its current list of peers.
func (n *Nomad) Read(ctx context.Context) View { return n.query(ctx, 0) }

// Watch returns a channel of views. It queries Nomad repeatedly; each query waits for a
// change.
func (n *Nomad) Watch(ctx context.Context) <-chan View {
	out := make(chan View, 1)
	go func() {
		defer close(out)
		var last View
		pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(n.pause), backoff.WithMultiplier(2),
			backoff.WithMaxInterval(maxBackoff*n.pause*2/3), backoff.WithRandomizationFactor(0.5), // up to one and a half times that
			backoff.WithMaxElapsedTime(0))
		for {
			v := n.query(ctx, last.Index)
			if ctx.Err() != nil {
				return
			}
			if v.Err == nil {
				if v.Index < last.Index {
					v.Index = 0 // the servers' state was restored: do not wait for the old index
				}
				last = v
				pause.Reset()
				latest.Send(out, v)
				continue
			}
			n.o.Logger.Warn("cannot read the service registry", "service", n.o.Service, "error", v.Err)
			last.Err = v.Err
			latest.Send(out, last)
			select {
			case <-time.After(pause.NextBackOff()):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// query reads the instances. If index is not 0, it waits for a change from it.
func (n *Nomad) query(ctx context.Context, index uint64) View {
	token, err := n.o.Token.Read()
	if err != nil {
		return View{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, n.wait+10*time.Second)
	defer cancel()
	q := &api.QueryOptions{Namespace: n.o.Namespace, AuthToken: token, WaitIndex: index, WaitTime: n.wait}
	at := time.Now()
	regs, meta, err := n.client.Services().Get(n.o.Service, q.WithContext(ctx))
	if err != nil {
		return View{Err: nomadapi.Explain(err, n.o.Address)}
	}
	return View{Peers: n.peers(regs), At: at, Index: meta.LastIndex}
}

// peers returns the job's instances among regs, one for each allocation.
func (n *Nomad) peers(regs []*api.ServiceRegistration) []Peer {
	byAlloc := make(map[string]*api.ServiceRegistration)
	for _, r := range regs {
		if r.JobID != n.o.JobID || (n.o.Namespace != "" && r.Namespace != n.o.Namespace) {
			continue
		}
		if old, ok := byAlloc[r.AllocID]; !ok || r.ID < old.ID {
			byAlloc[r.AllocID] = r
		}
	}
	var out []Peer
	for _, r := range byAlloc {
		out = append(out, Peer{
			AllocID: r.AllocID, Group: groupOf(r.ID, r.AllocID, r.ServiceName), Index: -1,
			Addr: net.JoinHostPort(r.Address, strconv.Itoa(r.Port)), Registered: r.CreateIndex,
		})
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(a.AllocID, b.AllocID) })
	return out
}
