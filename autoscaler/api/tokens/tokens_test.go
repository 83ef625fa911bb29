// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tokens

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/cluster"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
)

func TestMemo(t *testing.T) {
	m := newMemo[int, int](time.Second, 3)
	now := time.Now()
	m.now = func() time.Time { return now }
	asked := 0
	ask := func() (int, error) { asked++; return asked, nil }
	get := func(key int) int {
		t.Helper()
		v, err := m.get(key, ask)
		must.NoError(t, err)
		return v
	}
	must.Eq(t, 1, get(1))
	must.Eq(t, 1, get(1))
	now = now.Add(time.Second)
	must.Eq(t, 2, get(1))

	t.Log("an error is not remembered")
	_, err := m.get(2, func() (int, error) { return 0, errors.New("no answer") })
	must.Error(t, err)
	must.Eq(t, 3, get(2))

	t.Log("it does not grow, whatever it is asked for")
	for key := range 1000 {
		get(key)
		must.Less(t, 4, len(m.answers))
	}
}

// The cached answers about a revoked token expire after ttl.
func TestCache_ARevokedTokenIsGoodForAMomentOnly(t *testing.T) {
	nomad := nomadtest.New()
	nomad.AddToken("1-red", nomadtest.Token{Accessor: "a1", Name: "red", Namespaces: []string{"red"}})
	s := httptest.NewServer(nomad)
	t.Cleanup(s.Close)
	client, err := cluster.NewClient(config.Nomad{Address: s.URL, Timeout: time.Minute})
	must.NoError(t, err)
	c := New(client)
	now := time.Now()
	c.who.now = func() time.Time { return now }
	c.may.now = c.who.now
	who, err := c.Identify(t.Context(), "1-red")
	must.NoError(t, err)
	must.Eq(t, "token a1 (red)", who)
	for namespace, want := range map[string]bool{"red": true, "blue": false} {
		may, err := c.MayRead(t.Context(), "1-red", identity.JobKey{Namespace: namespace, ID: "job"})
		must.NoError(t, err)
		must.Eq(t, want, may)
	}
	nomad.RevokeToken("1-red")
	now = now.Add(ttl)
	_, err = c.Identify(t.Context(), "1-red")
	must.ErrorIs(t, err, cluster.ErrUnknownToken)
	may, err := c.MayRead(t.Context(), "1-red", identity.JobKey{Namespace: "red", ID: "job"})
	must.NoError(t, err)
	must.False(t, may)
}
