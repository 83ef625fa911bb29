// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// variables: a write replaces a variable whole, under a condition if one is given. A
// query at an index is answered when the variable has changed.
func variables(t *testing.T, n *Nomad) {
	const path = "kolo/contract/a"
	peek := func(q *api.QueryOptions) (*api.Variable, uint64) {
		t.Helper()
		got, meta, err := n.Client.Variables().Peek(path, orNone(q).WithContext(t.Context()))
		must.NoError(t, err)
		return got, meta.LastIndex
	}
	got, at := peek(nil)
	must.Nil(t, got)
	must.Positive(t, at, must.Sprint("an index of what is not there, to wait at"))

	made, _, err := n.Client.Variables().CheckedUpdate(&api.Variable{Path: path, Items: api.VariableItems{"data": "1"}}, nil)
	must.NoError(t, err)
	got, at = peek(&api.QueryOptions{WaitIndex: at, WaitTime: time.Minute})
	must.Eq(t, api.VariableItems{"data": "1"}, got.Items)
	must.Eq(t, made.ModifyIndex, got.ModifyIndex)
	must.Eq(t, made.ModifyIndex, at)

	next := make(chan uint64, 1)
	go func() {
		_, meta, err := n.Client.Variables().Peek(path, (&api.QueryOptions{WaitIndex: at, WaitTime: time.Minute}).WithContext(t.Context()))
		if err != nil {
			meta = &api.QueryMeta{}
		}
		next <- meta.LastIndex
	}()
	wrote, _, err := n.Client.Variables().Update(&api.Variable{Path: path, Items: api.VariableItems{"data": "2"}}, nil)
	must.NoError(t, err)
	must.Eq(t, wrote.ModifyIndex, <-next)

	var changed api.ErrCASConflict
	_, _, err = n.Client.Variables().CheckedUpdate(&api.Variable{Path: path, ModifyIndex: made.ModifyIndex, Items: api.VariableItems{"data": "3"}}, nil)
	must.True(t, errors.As(err, &changed), must.Sprint(err))
	must.Eq(t, wrote.ModifyIndex, changed.Conflict.ModifyIndex)
	_, _, err = n.Client.Variables().CheckedUpdate(&api.Variable{Path: path, Items: api.VariableItems{"data": "3"}}, nil)
	must.True(t, errors.As(err, &changed), must.Sprint("it is there already: ", err))

	_, _, err = n.Client.Variables().Update(&api.Variable{Path: path, Items: api.VariableItems{"data": strings.Repeat("x", 64<<10)}}, nil)
	refused(t, err, 400, "limited to 64KiB")

	list, _, err := n.Client.Variables().PrefixList("kolo/contract/", nil)
	must.NoError(t, err)
	must.Len(t, 1, list)
	must.Eq(t, path, list[0].Path)
	_, err = n.Client.Variables().Delete(path, nil)
	must.NoError(t, err)
	got, _ = peek(nil)
	must.Nil(t, got)
	_, err = n.Client.Variables().Delete(path, nil)
	must.NoError(t, err, must.Sprint("a delete of nothing"))
	list, _, err = n.Client.Variables().PrefixList("kolo/contract/", nil)
	must.NoError(t, err)
	must.SliceEmpty(t, list)
}

// locking: the holder of a variable's lock renews it by its ID and releases it without
// items. Meanwhile no one else can write the variable.
func locking(t *testing.T, n *Nomad) {
	const path = "kolo/contract/lock"
	v := func(id, ttl string, items api.VariableItems) *api.Variable {
		return &api.Variable{Path: path, Items: items, Lock: &api.VariableLock{ID: id, TTL: ttl, LockDelay: "1s"}}
	}
	mine := api.VariableItems{"holder": "me"}
	held, _, err := n.Client.Variables().AcquireLock(v("", "1m", mine), nil)
	must.NoError(t, err)
	must.NotEq(t, "", held.LockID())
	_, _, err = n.Client.Variables().AcquireLock(v("", "1m", mine), nil)
	refused(t, err, 409, "")
	_, _, err = n.Client.Variables().RenewLock(v(held.LockID(), "1m", mine), nil)
	must.NoError(t, err)
	_, _, err = n.Client.Variables().RenewLock(v("00000000-0000-0000-0000-00000000dead", "1m", mine), nil)
	refused(t, err, 409, "")
	_, _, err = n.Client.Variables().Update(&api.Variable{Path: path, Items: api.VariableItems{"holder": "thief"}}, nil)
	refused(t, err, 409, "")
	_, _, err = n.Client.Variables().ReleaseLock(v(held.LockID(), "", mine), nil)
	refused(t, err, 400, "")
	got, _, err := n.Client.Variables().Peek(path, nil)
	must.NoError(t, err)
	must.Eq(t, mine, got.Items)
	_, _, err = n.Client.Variables().ReleaseLock(v(held.LockID(), "", nil), nil)
	must.NoError(t, err)
	_, _, err = n.Client.Variables().RenewLock(v(held.LockID(), "1m", mine), nil)
	refused(t, err, 409, "")
	got, _, err = n.Client.Variables().Peek(path, nil)
	must.NoError(t, err)
	must.Eq(t, mine, got.Items, must.Sprint("what the last holder wrote stays"))
	_, _, err = n.Client.Variables().Update(&api.Variable{Path: path, Items: api.VariableItems{"holder": ""}}, nil)
	must.NoError(t, err)
	again, _, err := n.Client.Variables().AcquireLock(v("", "1m", mine), nil)
	must.NoError(t, err)
	must.NotEq(t, held.LockID(), again.LockID())
	_, _, err = n.Client.Variables().ReleaseLock(v(again.LockID(), "", nil), nil)
	must.NoError(t, err)
	_, err = n.Client.Variables().Delete(path, nil)
	must.NoError(t, err)
}
