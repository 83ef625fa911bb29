// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
)

func TestClassKey_Feasible(t *testing.T) {
	n := &node{detailed: true, wireNode: wireNode{
		ID: "id-1", Name: "gpu-1", Datacenter: "dc1", NodeClass: "a100", NodePool: "gpu",
		Attributes: map[string]string{"kernel.name": "linux", "cpu.numcores": "16"},
		Meta:       map[string]string{"rack": "r1", "tags": "fast, big"},
		Drivers:    map[string]struct{ Detected, Healthy bool }{"exec": {true, true}, "docker": {true, false}},
	}}
	term := func(l, op, r string) classKey {
		return classKey{pool: "gpu", constraints: l + fieldSeparator + op + fieldSeparator + r}
	}
	for name, tc := range map[string]struct {
		key  classKey
		want bool
	}{
		"pool":                   {classKey{pool: "gpu"}, true},
		"another pool":           {classKey{pool: "default"}, false},
		"datacenter glob":        {classKey{pool: "gpu", datacenters: "dc*"}, true},
		"another datacenter":     {classKey{pool: "gpu", datacenters: "eu" + termSeparator + "us"}, false},
		"driver":                 {classKey{pool: "gpu", drivers: "exec"}, true},
		"unhealthy driver":       {classKey{pool: "gpu", drivers: "docker"}, false},
		"driver not there":       {classKey{pool: "gpu", drivers: "horovod"}, false},
		"name":                   {term("${node.unique.name}", "=", "gpu-1"), true},
		"other name":             {term("${node.unique.name}", "=", "gpu-2"), false},
		"not":                    {term("${node.class}", "!=", "a100"), false},
		"meta":                   {term("${meta.rack}", "=", "r1"), true},
		"other meta":             {term("${meta.rack}", "=", "r2"), false},
		"meta not there":         {term("${meta.row}", "=", ""), false},
		"not equal to nothing":   {term("${meta.row}", "!=", "x"), true},
		"is set":                 {term("${meta.rack}", "is_set", ""), true},
		"is not set":             {term("${meta.rack}", "is_not_set", ""), false},
		"number, not text":       {term("${attr.cpu.numcores}", ">=", "8"), true},
		"regexp":                 {term("${attr.kernel.name}", "regexp", "^lin"), true},
		"set contains":           {term("${meta.tags}", "set_contains", "fast,big"), true},
		"set does not contain":   {term("${meta.tags}", "set_contains", "fast,small"), false},
		"set contains any":       {term("${meta.tags}", "set_contains_any", "small,big"), true},
		"left to Nomad":          {term("${attr.nomad.version}", "distinct_property", "1"), true},
		"attribute not foreseen": {term("${device.model}", "=", "x"), true},
	} {
		t.Run(name, func(t *testing.T) { must.Eq(t, tc.want, tc.key.feasible(n, tc.key.prepared())) })
	}
	n.detailed = false
	unknown := term("${meta.rack}", "=", "r2")
	must.True(t, unknown.feasible(n, unknown.prepared()), must.Sprint("what is not known must not exclude"))
	must.True(t, term("${meta.rack}", "=", "r2").needsDetail())
}

func TestDeviceGroup_Matches(t *testing.T) {
	for ask, want := range map[string]bool{
		"gpu": true, "nvidia/gpu": true, "nvidia/gpu/H100": true, "fpga": false, "amd/gpu": false, "nvidia/gpu/A100": false, "nvidia": false,
	} {
		must.Eq(t, want, matches("nvidia/gpu/H100", ask), must.Sprint(ask))
	}
}

// TestClassify sends each answer through Nomad's own client.
func TestClassify(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		body string
		want ErrorClass
	}{
		"stale index":  {500, "rpc error: Enforcing job modify index 358: job exists with conflicting job modify index: 359", Conflict},
		"deployment":   {400, "job scaling blocked due to active deployment", Busy},
		"above max":    {400, "group count was greater than scaling policy maximum: 9 > 8", Refused},
		"not found":    {404, "job not found", Gone},
		"tagged":       {500, `tag "kolo" already exists on a different version of job "x"`, Conflict},
		"not tagged":   {500, `tag "kolo" not found on job "x"`, Gone},
		"permission":   {403, "Permission denied", Forbidden},
		"unauthorized": {401, "", Forbidden},
		"no leader":    {500, "No cluster leader", Away},
		"too many":     {429, "", Away},
		"bad gateway":  {502, "", Away},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, tc.body, tc.code) }))
			defer s.Close()
			c, err := NewClient(config.Nomad{Address: s.URL})
			must.NoError(t, err)
			_, _, err = c.Jobs().Info("x", &api.QueryOptions{})
			must.Eq(t, tc.want, Classify(fmt.Errorf("wrapped: %w", err)))
		})
	}
	must.Eq(t, Away, Classify(errors.New("connection refused")))
	must.Eq(t, Stopped, Classify(fmt.Errorf("%w: x", errNotLeading)))
}
