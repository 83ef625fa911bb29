// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/cli"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/job/identity"
	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

// twoRacks is a pool of two racks and a node without one, and a job across them.
func twoRacks() []api.PoolTopology {
	node := func(name string, free, used int) api.Domain {
		return api.Domain{Name: name, Nodes: 1, Amount: topology.Amount{Free: free, Used: used}}
	}
	return []api.PoolTopology{{
		Pool: "gpu", Levels: []string{"meta.rack", "node"}, Amount: topology.Amount{Free: 6, Used: 6},
		Domains: []api.Domain{
			{Name: "r1", Nodes: 1, Amount: topology.Amount{Used: 4}, Domains: []api.Domain{node("n1", 0, 4)}},
			{Name: "r2", Nodes: 1, Amount: topology.Amount{Free: 2, Used: 2}, Domains: []api.Domain{node("n2", 2, 2)}},
			{Missing: true, Nodes: 1, Amount: topology.Amount{Free: 4}, Domains: []api.Domain{node("n3\x1b[2K", 4, 0)}},
		},
		Jobs: []api.JobSpread{
			{JobKey: identity.JobKey{Namespace: "default", ID: "train"}, Workers: 6, Level: "meta.rack", Domains: 2, Parts: []api.JobShare{{Path: []string{"r1"}, Workers: 4}, {Path: []string{"r2"}, Workers: 2}}},
			{JobKey: identity.JobKey{Namespace: "ml", ID: "small"}, Workers: 1, Domains: 1, Parts: []api.JobShare{{Path: []string{"", "n3"}, Workers: 1}}},
		},
		Problems: []topology.Problem{{Level: "meta.rack", What: "1 node without a value of meta.rack (n3); set it"}},
	}}
}

// answering is the address of an autoscaler that answers with these pools, and of
// what keeps it from reading Nomad.
func answering(t *testing.T, pools []api.PoolTopology, problem string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/status":
			must.NoError(t, json.NewEncoder(w).Encode(api.Status{Problem: problem}))
		case "/v1/topology":
			must.NoError(t, json.NewEncoder(w).Encode(pools))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTopology(t *testing.T) {
	at := answering(t, twoRacks(), "")
	ui := cli.NewMockUi()
	c := &topologyCommand{apiCommand{meta: meta{UI: ui}}}
	must.Eq(t, 0, c.Run([]string{"-address", at}))
	must.Eq(t, `Pool gpu: meta.rack > node

Domain          Nodes  Used  Free
r1              1      4     0
  n1            1      4     0
r2              1      2     2
  n2            1      2     2
(no meta.rack)  1      0     4
  n3�[2K        1      0     4
total                  6     6

Job       Workers  Spans           Where
train     6        2 of meta.rack  r1: 4, r2: 2
ml/small  1        -               (no meta.rack)/n3: 1

Problems
- 1 node without a value of meta.rack (n3); set it
`, ui.OutputWriter.String())

	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"down to a level": {[]string{"-level", "meta.rack"}, 0, "r1              1      4     0\nr2"},
		"one pool":        {[]string{"-pool", "gpu"}, 0, "Pool gpu"},
		"as JSON":         {[]string{"-json", "-level", "meta.rack"}, 0, `"levels"`},
		"unknown level":   {[]string{"-level", "meta.row"}, 1, `no pool has a level "meta.row"; there is meta.rack, node.`},
		"unknown pool":    {[]string{"-pool", "cpu"}, 1, `there is no node pool "cpu" with nodes; there is gpu`},
		"unknown command": {[]string{"exapnd"}, exitUsage, `unknown command "topology exapnd"; did you mean "topology expand"?`},
		"unknown flag":    {[]string{"-levl", "x"}, exitUsage, `did you mean "-level"?`},
	} {
		t.Run(name, func(t *testing.T) {
			ui := cli.NewMockUi()
			c := &topologyCommand{apiCommand{meta: meta{UI: ui}}}
			args := append([]string{"-address", at}, tc.args...)
			if name == "unknown command" {
				args = tc.args
			}
			must.Eq(t, tc.code, c.Run(args))
			must.StrContains(t, ui.OutputWriter.String()+ui.ErrorWriter.String(), tc.want)
		})
	}
}

// The last topology is shown while Nomad is out of reach. The warning that it is old goes
// to standard error, because the output may be written to a file.
func TestTopology_WithoutNomad(t *testing.T) {
	at := answering(t, twoRacks(), "listing nodes:\nconnection refused")
	for name, run := range map[string]func(ui *cli.MockUi, out io.Writer) int{
		"topology": func(ui *cli.MockUi, _ io.Writer) int {
			return (&topologyCommand{apiCommand{meta: meta{UI: ui}}}).Run([]string{"-address", at})
		},
		"topology -json": func(ui *cli.MockUi, _ io.Writer) int {
			return (&topologyCommand{apiCommand{meta: meta{UI: ui}}}).Run([]string{"-address", at, "-json"})
		},
		"topology vars": func(ui *cli.MockUi, out io.Writer) int {
			return (&topologyVarsCommand{apiCommand: apiCommand{meta: meta{UI: ui}}, out: out}).Run([]string{"-address", at, "-level", "meta.rack"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ui := cli.NewMockUi()
			var out bytes.Buffer
			must.Eq(t, 0, run(ui, &out))
			must.StrContains(t, ui.ErrorWriter.String(), `Nomad could not be read, so this may be old: listing nodes:\nconnection refused`)
			must.StrNotContains(t, ui.OutputWriter.String()+out.String(), "could not be read")
		})
	}
}

// Anyone who may set a node's metadata chooses these names.
func TestTable_NamesKeepToTheirCells(t *testing.T) {
	must.Eq(t, "Domain          Free\nnew�line�[31m�  4", table([][]string{{"Domain", "Free"}, {"new\nline\x1b[31m\t", "4"}}))
}

// TestNoAutoscaler gives the address of another server, such as Nomad, in place of the
// autoscaler's.
func TestNoAutoscaler(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	ui := cli.NewMockUi()
	must.Eq(t, 1, (&topologyCommand{apiCommand{meta: meta{UI: ui}}}).Run([]string{"-address", s.URL}))
	must.StrContains(t, ui.ErrorWriter.String(), s.URL+": it has no /v1/topology: is this the address of an autoscaler of the same version, and not of Nomad?")
}

func TestTopologyVars(t *testing.T) {
	again := twoRacks()
	again[0].Levels = []string{"meta.block", "meta.rack", "node"}
	again[0].Domains = []api.Domain{{Name: "b1", Domains: again[0].Domains}, {Name: "b2", Domains: again[0].Domains[:1]}}
	unread := twoRacks()
	unread[0].Domains, unread[0].Unread = unread[0].Domains[2:], 3
	for name, tc := range map[string]struct {
		pools         []api.PoolTopology
		args          []string
		code          int
		printed, said string
	}{
		"two racks":       {twoRacks(), []string{"-level", "meta.rack"}, 0, "# Values of meta.rack, as kolo topology vars found them.\nmeta_rack = [\n  \"r1\",\n  \"r2\",\n]\n", "nodes without a value of meta.rack, which get no group: 1\n"},
		"a rack twice":    {again, []string{"-level", "meta.rack"}, 0, "# Values of meta.rack, as kolo topology vars found them.\nmeta_rack = [\n  \"r1\",\n  \"r2\",\n]\n", "values of meta.rack in several places, which get only one group each: r1\n"},
		"no level":        {twoRacks(), nil, exitUsage, "", "which level? write -level=<name>"},
		"not configured":  {twoRacks(), []string{"-level", "meta.row"}, 1, "", "no node pool has the level meta.row: gpu has meta.rack, node; add it to topology { levels }"},
		"no level at all": {twoRacks(), []string{"-level", "rack"}, exitUsage, "", `Level "rack" is not known`},
		"several pools":   {append(twoRacks(), twoRacks()...), []string{"-level", "node"}, 1, "", "write -pool=<name>, that of the job"},
		"no values yet":   {unread, []string{"-level", "meta.rack"}, 1, "", "the values of 3 nodes are still being read"},
	} {
		t.Run(name, func(t *testing.T) {
			ui := cli.NewMockUi()
			var out bytes.Buffer
			c := &topologyVarsCommand{apiCommand: apiCommand{meta: meta{UI: ui}}, out: &out}
			must.Eq(t, tc.code, c.Run(append([]string{"-address", answering(t, tc.pools, "")}, tc.args...)))
			must.Eq(t, tc.printed, out.String())
			must.StrContains(t, ui.ErrorWriter.String(), tc.said)
		})
	}
}

// full is an output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestTopologyExpand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "train.nomad.hcl")
	must.NoError(t, os.WriteFile(file, []byte("job \"j\" {\n  group \"w\" {\n    scaling {\n      max = 4\n      policy {\n        kolo {}\n      }\n    }\n  }\n}\n"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		full bool
		code int
		want string
	}{
		"to the output":         {[]string{"-level", "meta.rack", file}, false, 0, `dynamic "group" {`},
		"an output that fails":  {[]string{"-level", "meta.rack", file}, true, 1, "Error: writing the job: no space left"},
		"without a level":       {[]string{file}, false, exitUsage, "which level?"},
		"without a file":        {[]string{"-level", "meta.rack"}, false, exitUsage, "takes one argument"},
		"a file that is absent": {[]string{"-level", "meta.rack", file + ".not"}, false, 1, "no such file"},
		"a level of devices":    {[]string{"-level", "device.island", file}, false, 1, "it is inside a node"},
	} {
		t.Run(name, func(t *testing.T) {
			ui := cli.NewMockUi()
			var out bytes.Buffer
			c := &topologyExpandCommand{meta: meta{UI: ui}, out: &out}
			if tc.full {
				c.out = full{}
			}
			must.Eq(t, tc.code, c.Run(tc.args))
			must.StrContains(t, out.String()+ui.ErrorWriter.String(), tc.want)
		})
	}
}
