// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// access: Nomad states the owner of a token, and answers 403 if the token is unknown
// or lacks a capability. With read-job, a job that does not exist is 404.
func access(t *testing.T, n *Nomad) {
	self, _, err := n.Client.ACLTokens().Self(nil)
	must.NoError(t, err)
	must.NotEq(t, "", self.AccessorID)
	must.NotEq(t, "", self.Name)
	_, err = n.Client.Raw().Query("/v1/acl/policy/self", new(json.RawMessage), nil)
	must.NoError(t, err)
	_, _, err = n.Client.Jobs().Summary("nothing", nil)
	refused(t, err, 404, "not found")

	for what, secret := range map[string]string{"unknown": "00000000-0000-4000-8000-00000000dead", "nonsense": "nonsense"} {
		with := &api.QueryOptions{AuthToken: secret}
		_, _, err = n.Client.ACLTokens().Self(with)
		must.Error(t, err, must.Sprint(what))
		_, err = n.Client.Raw().Query("/v1/acl/policy/self", new(json.RawMessage), with)
		code, text := status(t, err)
		must.True(t, slices.Contains([]int{400, 403, 404}, code), must.Sprintf("%s: %d %s", what, code, text))
	}

	anonymous, err := api.NewClient(&api.Config{Address: n.Client.Address()})
	must.NoError(t, err)
	anonymous.SetSecretID("")
	if self, _, err = anonymous.ACLTokens().Self(nil); err == nil {
		must.SliceContains(t, []string{"", "anonymous"}, self.AccessorID)
	}

	n.Register(t, Job{ID: "theirs", Max: 1})
	may := &api.QueryOptions{AuthToken: n.Stranger(t)}
	self, _, err = n.Client.ACLTokens().Self(may)
	must.NoError(t, err)
	must.NotEq(t, "", self.AccessorID)
	_, _, err = n.Client.Jobs().Summary("theirs", may)
	refused(t, err, 403, "Permission denied")
	_, _, err = n.Client.Jobs().Summary("nothing", may)
	refused(t, err, 403, "Permission denied")
	_, _, err = n.Client.Jobs().Info("theirs", may)
	refused(t, err, 403, "Permission denied")
	_, _, err = n.Client.Variables().Update(&api.Variable{Path: "kolo/contract/theirs", Items: api.VariableItems{"data": "1"}}, &api.WriteOptions{AuthToken: may.AuthToken})
	refused(t, err, 403, "Permission denied")
	_, _, err = n.Client.Jobs().ScaleWithRequest("theirs", &api.ScalingRequest{
		Count: new(int64(1)), Target: map[string]string{"Group": "workers"},
	}, &api.WriteOptions{AuthToken: may.AuthToken})
	refused(t, err, 403, "Permission denied")
	n.purge(t, "theirs")
}
