// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/cli"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest"
	"github.com/kolo-nomad/kolo/autoscaler/cluster/nomadtest/authority"
)

// daemon runs `kolo agent` on a stand-in for Nomad, and commands against it.
type daemon struct {
	t      *testing.T
	nomad  *nomadtest.Cluster
	config string
	url    string // of its API
	socket string
}

// daemonConfig takes the path of the Unix socket.
const daemonConfig = `
http {
  unix = %q
}
leader {
  ttl = "10s"
}
planner {
  progress = "0s"
  debounce = "1ms"
}
pool "default" {
  policy "elastic-fifo" {}
}
`

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	return startDaemonWith(t, daemonConfig)
}

// startDaemonWith starts an autoscaler with the text of its configuration.
func startDaemonWith(t *testing.T, config string) *daemon {
	t.Helper()
	d := &daemon{t: t, nomad: nomadtest.New(), config: filepath.Join(t.TempDir(), "kolo.hcl")}
	d.nomad.AddNodes(1, 4)
	d.nomad.Register(nomadtest.Job{ID: "train", Max: 4, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{}}}})
	d.nomad.Register(nomadtest.Job{ID: "bad", Max: 4, GPUs: 1, Priority: 50, Elastic: map[string]any{"kolo": []any{map[string]any{"mim": 1}}}})
	s := httptest.NewServer(d.nomad)
	d.socket = filepath.Join(filepath.Dir(d.config), "kolo.sock")
	d.configure(config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	at := l.Addr().String()
	must.NoError(t, l.Close())
	d.url = "http://" + at
	t.Setenv("KOLO_ADDR", "unix://"+d.socket)
	t.Setenv("NOMAD_TOKEN", "")

	o := &overrides{path: d.config, nomad: s.URL, http: at, name: "tested"}
	cfg, err := o.load()
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runAgent(ctx, o, cfg, hclog.NewNullLogger()) }()
	t.Cleanup(func() {
		cancel()
		must.ErrorIs(t, <-done, context.Canceled)
		s.CloseClientConnections()
		s.Close()
	})
	d.until("status", "running  4 ")
	return d
}

// configure writes the configuration.
func (d *daemon) configure(text string) {
	must.NoError(d.t, os.WriteFile(d.config, fmt.Appendf(nil, text, d.socket), 0o600))
}

// run runs a command line and returns its exit code and what it printed.
func (d *daemon) run(args ...string) (int, string) {
	ui := cli.NewMockUi()
	c := &cli.CLI{Args: args, Commands: commands(meta{UI: ui}), HelpWriter: ui.OutputWriter, ErrorWriter: ui.ErrorWriter}
	code, err := c.Run()
	must.NoError(d.t, err)
	return code, ui.OutputWriter.String() + ui.ErrorWriter.String()
}

// until waits until a command succeeds and prints a text.
func (d *daemon) until(args, text string) {
	d.t.Helper()
	must.Wait(d.t, wait.InitialSuccess(wait.ErrorFunc(func() error {
		code, out := d.run(strings.Fields(args)...)
		if code != 0 || !strings.Contains(out, text) {
			return fmt.Errorf("kolo %s ended with %d and printed\n%s", args, code, out)
		}
		return nil
	}), wait.Timeout(time.Minute), wait.Gap(20*time.Millisecond)))
}

func TestDaemon_Commands(t *testing.T) {
	d := startDaemon(t)
	other, wrong := filepath.Join(t.TempDir(), "other.hcl"), filepath.Join(t.TempDir(), "wrong.hcl")
	must.NoError(t, os.WriteFile(other, []byte("pool \"default\" {\n queue \"default\" { limit = 2 }\n}"), 0o600))
	must.NoError(t, os.WriteFile(wrong, []byte(`pool "default" {
 queue "default" { weight = 0 }
}`), 0o600))
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"status", 0, "tested leads"},
		{"plan -config " + other, 0, "shrinks 4→2"},
		{"status", 0, "Kolo does not scale bad because of errors"},
		{"queue", 0, "Pool default with elastic-fifo: 4 of 4 slots used"},
		{"queue -json", 0, `"used": 4`},
		{"queue extra", 2, `kolo queue takes no arguments, got ["extra"]`},
		{"status -json", 0, `"leading": true`},
		{"status extra", 2, `kolo status takes no arguments, got ["extra"]`},
		{"status -nonsense", 2, "unknown flag -nonsense\nUsage: kolo status [options]\nFor the whole help: kolo status -help"},
		{"status -wach", 2, `unknown flag -wach; did you mean "-watch"?`},
		{"status -json=maybe", 2, `invalid boolean value "maybe" for -json`},
		{"status -help", 0, "Usage: kolo status"},
		{"status -address http://127.0.0.1:1", 1, "is it running at http://127.0.0.1:1"},
		{"status -address " + strings.TrimPrefix(d.url, "http://"), 0, "tested leads"},
		{"status -address " + strings.Replace(d.url, "http:", "https:", 1), 1, "does not speak TLS: write http:// in -address or KOLO_ADDR"},
		{"status -address tcp://127.0.0.1:1", 2, `-address or KOLO_ADDR: "tcp://127.0.0.1:1" begins with tcp://; write http:// or https:// or unix://`},
		{"status -address unix:///nowhere/kolo.sock", 1, "is it running at unix:///nowhere/kolo.sock"},
		{"status -address " + d.url + " -ca-cert /nowhere", 2, "TLS to the autoscaler (-ca-cert, -ca-path, -client-cert, -client-key)"},
		{"pause -address " + d.url, 1, "present a Nomad token (header X-Nomad-Token, or NOMAD_TOKEN for kolo) that may write the variable kolo/overrides, or run kolo on this machine as the autoscaler's user or root, which finds the Unix socket " + d.socket},
		{"pause -token secret -address " + d.url, 0, "All jobs are paused."},
		{"job train", 0, "0→4"},
		{"job default/train -json", 2, "takes one argument"},
		{"job -json default/train", 0, `"history": [`},
		{"job bad", 0, "did you mean min?"},
		{"job", 2, "kolo job takes one argument, got none\nUsage: kolo job [options] [<namespace>/]<job>\n"},
		{"job nobody", 1, "does not scale a job nobody"},
		{"job other/train", 1, `does not scale a job other/train; did you mean "train"?`},
		{"eff other/train", 1, `did you mean "train"?`},
		{"wait -timeout 5 train", 2, `invalid value "5" for flag -timeout: parse error; write a number with its unit, such as 90s or 5m`},
		{"usage -since 2999-01-01", 2, "-since=2999-01-01 is in the future; today is "},
		{"usage -pool gup", 0, `no slots were held in node pool "gup"`},
		{"history -namespace none", 0, `no job of namespace "none" held slots since `},
		{"plan", 0, "Pool default with elastic-fifo"},
		{"plan", 0, "not scaled: "},
		{"plan -policy fifo", 0, "Pool default with fifo"},
		{"plan -policy none", 1, "no policy is called"},
		{"plan -config " + wrong, 1, wrong + ":2: Wrong value for weight"},
		{"plan -config /nowhere", 1, "no such file"},
		{"policy get", 0, "elastic-fifo"},
		{"policy set", 2, "either a policy or -reset"},
		{"policy lst", 2, `unknown command "policy lst"; did you mean "policy list"?`},
		{"policy", 2, "write kolo policy followed by one of explain, get, list, set"},
		{"policy list extra", 2, "takes no arguments"},
		{"policy explain", 2, "takes one policy"},
		{"version extra", 2, "takes no arguments"},
		{"simulate extra", 2, "simulate takes no arguments"},
		{"simulate -seeds x", 2, `invalid value "x" for flag -seeds: parse error; write a whole number`},
		{"simulate -sede 3", 2, `unknown flag -sede; did you mean "-seeds"?`},
		{"policy set none", 1, "no policy is called"},
		{"policy set fifo", 0, "Pool default now uses the policy fifo."},
		{"policy get", 0, "fifo"},
		{"policy set -reset", 0, "uses its configured policy again"},
		{"pause train", 0, "train is paused."},
		{"resume", 0, "All jobs are resumed."},
		{"pause a b", 2, "takes 0 to 1 arguments"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, out := d.run(strings.Fields(tc.args)...)
			must.Eq(t, tc.code, code, must.Sprint(out))
			must.StrContains(t, out, tc.want)
		})
	}
}

func TestDaemon_ReloadsAChangedFile(t *testing.T) {
	d := startDaemon(t)
	d.configure(daemonConfig + "\nnonsense {}\n")
	time.Sleep(3 * time.Second) // long enough to be noticed; nothing is to change
	d.until("status", "elastic-fifo")
	d.configure(strings.ReplaceAll(daemonConfig, "elastic-fifo", "fifo"))
	d.until("policy get", "default  fifo")
}

// TestDaemon_TakesARenewedCertificateOver renews the files that the configuration names,
// without a change of the configuration.
func TestDaemon_TakesARenewedCertificateOver(t *testing.T) {
	old, renewed := authority.New(t, "old"), authority.New(t, "renewed")
	leaf := authority.Leaf{Names: []string{"kolo.example"}}
	cert, key := old.Issue(leaf)
	d := startDaemonWith(t, strings.Replace(daemonConfig, "unix = %q", fmt.Sprintf("unix = %%q\n  tls {\n    cert_file = %q\n    key_file = %q\n  }", cert, key), 1))
	url := strings.Replace(d.url, "http:", "https:", 1)
	status := func(ca *authority.Authority) string {
		return "status -address " + url + " -tls-server-name kolo.example -ca-cert " + ca.File
	}
	d.until(status(old), "tested leads")
	code, out := d.run(strings.Fields(status(renewed))...)
	must.Eq(t, 1, code)
	must.StrContains(t, out, "give the authority that signed it with -ca-cert")
	renewed.IssueTo(leaf, cert, key)
	d.until(status(renewed), "tested leads")
}

func TestAgent_Mistakes(t *testing.T) {
	d := &daemon{t: t}
	path := filepath.Join(t.TempDir(), "kolo.hcl")
	must.NoError(t, os.WriteFile(path, []byte("http {\n  port = \"80\"\n}\n"), 0o600))
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"agent -config " + path:         {1, path + ":2: Wrong value for port"},
		"agent -config /nowhere":        {1, "no such file"},
		"agent -log-level loud":         {2, "write trace, debug, info, warn or error"},
		"agent -http 80":                {2, "write host:port"},
		"agent -http 127.0.0.1:x":       {2, "the port is not a number"},
		"agent extra":                   {2, `kolo agent takes no arguments, got ["extra"]`},
		"agent -confg x":                {2, `unknown flag -confg; did you mean "-config"?`},
		"agent -nomad-address ::::bad:": {1, ""}, // logged
	} {
		code, out := d.run(strings.Fields(args)...)
		must.Eq(t, want.code, code, must.Sprint(args))
		must.StrContains(t, out, want.text)
	}
}

func TestRun_UnknownCommands(t *testing.T) {
	for args, want := range map[string]string{
		"stauts":      `unknown command "stauts"; did you mean "status"?`,
		"Status":      `unknown command "Status"; did you mean "status"?`,
		"lst":         `unknown command "lst"`,
		"frobnicate":  `unknown command "frobnicate"`,
		"plan":        "",
		"policy lst":  "", // the command's own mistake
		"-version":    "",
		"":            "",
		"stats -json": `did you mean "status"?`,
	} {
		text := unknownCommand(strings.Fields(args), commands(meta{}))
		if want == "" {
			must.Eq(t, "", text, must.Sprint(args))
		}
		must.StrContains(t, text, want)
	}
	must.Eq(t, exitUsage, run([]string{"stauts"}))
	must.Eq(t, exitUsage, run(nil))
}

// TestCommands_Complete checks that the shell can complete the flags and arguments of every
// command that has any.
func TestCommands_Complete(t *testing.T) {
	for name, make := range commands(meta{UI: cli.NewMockUi()}) {
		c, err := make()
		must.NoError(t, err)
		must.NotEq(t, "", c.Synopsis())
		must.StrHasPrefix(t, "Usage: kolo "+name, c.Help())
		if name == "policy" || name == "version" {
			continue
		}
		done, ok := c.(cli.CommandAutocomplete)
		must.True(t, ok, must.Sprint(name))
		done.AutocompleteArgs()
		for flag := range done.AutocompleteFlags() {
			if help := c.Help(); !strings.Contains(help, "  "+flag+"\n") && !strings.Contains(help, "  "+flag+"=") && !strings.Contains(help, "  "+flag+" ") {
				t.Errorf("kolo %s completes %s, which its help does not name", name, flag)
			}
		}
	}
}
