// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Holder describes the process that holds a lock.
type Holder struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of its HTTP API, "" is unknown
	Machine string `json:"-"`       // its host name, "" is unknown
}

// Variable is the lock of a Nomad variable. Only its method Holder may be called
// concurrently.
type Variable struct {
	client          *api.Client
	namespace, path string
	holder          func() Holder
	ttl, delay      time.Duration
	id              string // of the lock that this process holds
}

// NewVariable returns the lock of the variable at path. Acquiring the lock writes
// the result of holder into the variable, where others can read it.
func NewVariable(c *api.Client, namespace, path string, holder func() Holder, ttl, delay time.Duration) *Variable {
	return &Variable{client: c, namespace: namespace, path: path, holder: holder, ttl: ttl, delay: delay}
}

func (v *Variable) variable() *api.Variable {
	h := v.holder()
	return &api.Variable{
		Namespace: v.namespace, Path: v.path, Items: api.VariableItems{holderItem: h.Name, addressItem: h.Address, machineItem: h.Machine},
		Lock: &api.VariableLock{ID: v.id, TTL: v.ttl.String(), LockDelay: v.delay.String()},
	}
}

// Items of the variable.
const (
	holderItem  = "holder"
	addressItem = "address"
	machineItem = "machine"
)

// Acquire implements Lock.
func (v *Variable) Acquire(ctx context.Context) error {
	v.id = ""
	got, _, err := v.client.Variables().AcquireLock(v.variable(), (&api.WriteOptions{Namespace: v.namespace}).WithContext(ctx))
	if err != nil {
		return v.wrap("acquiring", err)
	}
	if got.Lock == nil {
		return fmt.Errorf("acquiring lock %s: the answer holds no lock", v.path)
	}
	v.id = got.Lock.ID
	return nil
}

// Renew implements Lock.
func (v *Variable) Renew(ctx context.Context) error {
	_, _, err := v.client.Variables().RenewLock(v.variable(), (&api.WriteOptions{Namespace: v.namespace}).WithContext(ctx))
	return v.wrap("renewing", err)
}

// Release implements Lock.
func (v *Variable) Release(ctx context.Context) error {
	// Nomad refuses items here.
	lock := &api.Variable{Namespace: v.namespace, Path: v.path, Lock: &api.VariableLock{ID: v.id}}
	o := (&api.WriteOptions{Namespace: v.namespace}).WithContext(ctx)
	if _, _, err := v.client.Variables().ReleaseLock(lock, o); err != nil {
		return v.wrap("releasing", err)
	}
	// From now on clients must not be redirected to this process. Nomad refuses
	// this write if another process already has the lock.
	free := &api.Variable{Namespace: v.namespace, Path: v.path, Items: api.VariableItems{holderItem: "", addressItem: "", machineItem: ""}}
	if _, _, err := v.client.Variables().Update(free, o); !errors.Is(v.wrap("clearing", err), ErrConflict) {
		return v.wrap("clearing", err)
	}
	return nil
}

// Holder returns the process that holds the lock or, if the lock has expired, held
// it last. It cannot distinguish the two, because Nomad shows only to management
// tokens whether a lock is held. An empty name means that no process has held the
// lock. Holder may be called by any goroutine.
func (v *Variable) Holder(ctx context.Context) (Holder, error) {
	got, _, err := v.client.Variables().Peek(v.path, (&api.QueryOptions{Namespace: v.namespace}).WithContext(ctx))
	if err != nil {
		return Holder{}, fmt.Errorf("reading lock %s: %w", v.path, err)
	}
	if got == nil {
		return Holder{}, nil
	}
	return Holder{Name: got.Items[holderItem], Address: got.Items[addressItem], Machine: got.Items[machineItem]}, nil
}

func (v *Variable) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	var resp api.UnexpectedResponseError
	if errors.As(err, &resp) && resp.HasStatusCode() && resp.StatusCode() == http.StatusConflict {
		return fmt.Errorf("%s lock %s: %w", doing, v.path, ErrConflict)
	}
	return fmt.Errorf("%s lock %s: %w", doing, v.path, err)
}
