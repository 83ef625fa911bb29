// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package contract

import (
	"fmt"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// nodes: the list states the resources of nodes, but not their attributes and
// metadata; each node's own answer does.
func nodes(t *testing.T, n *Nomad) {
	all := n.nodes(t)
	must.Len(t, n.Nodes, all)
	for _, node := range all {
		has(t, "/v1/nodes", node)
		must.Eq[any](t, "ready", node["Status"])
		must.Eq[any](t, "eligible", node["SchedulingEligibility"])
		must.Eq[any](t, false, node["Drain"])
	}
	id := all[0]["ID"].(string)
	var one object
	n.get(t, "/v1/node/"+id, nil, &one)
	has(t, "/v1/node/{}", one)
	must.Nil(t, one["DrainStrategy"], must.Sprint("nobody drains it"))
	must.Eq(t, all[0]["ModifyIndex"], one["ModifyIndex"])

	n.Eligible(t, id, false)
	eventually(t, "the node to take no workers", func() error {
		node := find(n.nodes(t), "ID", id)
		if node["SchedulingEligibility"] != "ineligible" || node["ModifyIndex"].(float64) <= one["ModifyIndex"].(float64) {
			return fmt.Errorf("it is %v at %v", node["SchedulingEligibility"], node["ModifyIndex"])
		}
		return nil
	})
	n.Eligible(t, id, true)
	_, err := n.Client.Raw().Query("/v1/node/00000000-0000-0000-0000-00000000dead", &one, nil)
	refused(t, err, 404, "node not found")
}

// statistics: a server passes on what a node's client measured. It needs the right to read
// nodes.
func statistics(t *testing.T, n *Nomad) {
	id := n.nodes(t)[0]["ID"].(string)
	var one object
	n.get(t, "/v1/client/stats?node_id="+id, nil, &one)
	has(t, "/v1/client/stats", one)
	_, err := n.Client.Raw().Query("/v1/client/stats?node_id="+id, &one, &api.QueryOptions{AuthToken: n.Stranger(t)})
	refused(t, err, 403, "Permission denied")
	_, err = n.Client.Raw().Query("/v1/client/stats?node_id=00000000-0000-0000-0000-00000000dead", &one, nil)
	must.Error(t, err)
}

func (n *Nomad) nodes(t *testing.T) (all []object) {
	t.Helper()
	n.get(t, "/v1/nodes", &api.QueryOptions{Params: map[string]string{"resources": "true"}}, &all)
	return all
}
