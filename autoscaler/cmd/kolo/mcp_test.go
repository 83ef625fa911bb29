// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/cli"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// mcpSession connects the SDK's client to kolo mcp, which asks a stand-in for the autoscaler. The
// stand-in records the requests.
func mcpSession(t *testing.T) (*mcp.ClientSession, *[]string) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Nomad-Token"))
		switch r.URL.Path {
		case "/v1/status":
			must.NoError(t, json.NewEncoder(w).Encode(topStatus()))
		case "/v1/job":
			w.WriteHeader(http.StatusNotFound)
			must.NoError(t, json.NewEncoder(w).Encode(api.Problem{Error: "no such job"}))
		case "/v1/usage":
			must.NoError(t, json.NewEncoder(w).Encode(api.UsageReport{From: "2026-11-01"}))
		default:
			must.NoError(t, json.NewEncoder(w).Encode([]api.Proposal{}))
		}
	}))
	t.Cleanup(s.Close)
	near, far := mcp.NewInMemoryTransports()
	server, err := newMCPServer([]string{"-address=" + s.URL, "-token=secret"}).Connect(t.Context(), far, nil)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, server.Wait()) })
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), near, nil)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, client.Close()) })
	return client, &asked
}

// callTool returns the text of a tool's answer, and whether it is an error.
func callTool(t *testing.T, c *mcp.ClientSession, name string, args map[string]any) (string, bool) {
	t.Helper()
	result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	must.NoError(t, err)
	must.Len(t, 1, result.Content)
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// Each tool is declared read-only, and sends no request that changes anything.
func TestMCP_OnlyReads(t *testing.T) {
	client, asked := mcpSession(t)
	tools, err := client.ListTools(t.Context(), nil)
	must.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		must.True(t, tool.Annotations.ReadOnlyHint)
		callTool(t, client, tool.Name, map[string]any{"job": "a", "policy": "fifo"}) // extra fields are refused, below
		callTool(t, client, tool.Name, map[string]any{})
	}
	must.Eq(t, []string{"eff", "history", "job", "plan", "policy", "queue", "status", "usage"}, names)
	for _, request := range *asked {
		must.StrHasPrefix(t, "GET ", request)
		must.StrHasSuffix(t, " secret", request)
	}
}

func TestMCP_Answers(t *testing.T) {
	for name, tc := range map[string]struct {
		tool   string
		args   map[string]any
		want   string
		failed bool
	}{
		"status":                     {"status", map[string]any{}, "lab/resnet", false},
		"a filter":                   {"status", map[string]any{"filter": `state == "waiting"`}, "bert", false},
		"a wrong filter":             {"status", map[string]any{"filter": `stat == "waiting"`}, "-filter=", true},
		"JSON":                       {"status", map[string]any{"json": true}, `"autoscaler": "a"`, false},
		"queue":                      {"queue", map[string]any{}, "no-room: it needs 8 slots", false},
		"a pool that is not there":   {"queue", map[string]any{"pool": "tpu"}, "tpu", true},
		"a job that is not there":    {"job", map[string]any{"job": "lab/x"}, "no such job", true},
		"a job like an option":       {"job", map[string]any{"job": "-address=http://127.0.0.1:1"}, "no such job", true},
		"a policy":                   {"policy", map[string]any{"policy": "fifo"}, "Policy   fifo", false},
		"a policy that is not there": {"policy", map[string]any{"policy": "lifo"}, "lifo", true},
		"usage":                      {"usage", map[string]any{"by": "namespace", "since": "7d"}, "2026-11-01", false},
		"a wrong period":             {"usage", map[string]any{"since": "soon"}, "soon", true},
		"an unknown field":           {"status", map[string]any{"write": true}, "write", true},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := mcpSession(t)
			text, failed := callTool(t, client, tc.tool, tc.args)
			must.Eq(t, tc.failed, failed, must.Sprint(text))
			must.StrContains(t, text, tc.want)
			must.StrNotContains(t, text, "\x1b")
		})
	}
}

// An answer has a bounded length, and states what was left out.
func TestMCP_Bounded(t *testing.T) {
	must.Eq(t, "short", shortened("short"))
	long := shortened(strings.Repeat("é", maxToolText))
	must.True(t, utf8.ValidString(long))
	must.Less(t, maxToolText+200, len(long))
	must.StrContains(t, long, "65536 more bytes are left out")
}

// An error quotes the wrong argument, which may be long.
func TestMCP_BoundedErrors(t *testing.T) {
	client, asked := mcpSession(t)
	for _, filter := range []string{strings.Repeat("x", 1<<20), strings.Repeat("(", 1<<20), strings.Repeat("not ", 1<<18)} {
		text, failed := callTool(t, client, "status", map[string]any{"filter": filter})
		must.True(t, failed)
		must.LessEq(t, maxToolText+100, len(text))
	}
	must.SliceEmpty(t, *asked)
}

// A client starts kolo mcp as a program, and ends it by closing its input.
func TestMCP_Program(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { must.NoError(t, json.NewEncoder(w).Encode(topStatus())) }))
	defer s.Close()
	program, err := os.Executable()
	must.NoError(t, err)
	command := exec.CommandContext(t.Context(), program, "mcp")
	command.Env = append(os.Environ(), "KOLO_TEST_MAIN=1", "KOLO_ADDR="+s.URL)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	must.NoError(t, err)
	text, failed := callTool(t, client, "status", map[string]any{"sort": "name"})
	must.False(t, failed)
	must.StrContains(t, text, "lab/resnet")
	must.NoError(t, client.Close())
	must.Eq(t, 0, command.ProcessState.ExitCode())
}

func TestMCP_Options(t *testing.T) {
	for _, args := range [][]string{{"-json"}, {"x"}} {
		must.Eq(t, exitUsage, (&mcpCommand{apiCommand{meta: meta{UI: cli.NewMockUi()}}}).Run(args))
	}
}
