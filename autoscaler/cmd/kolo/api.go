// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
)

// remote is what commands that ask a running agent have in common.
type remote struct {
	meta
	reach reach
	wrong error // of the environment
	token string
	json  bool
	clear string  // what is sent to the terminal before a drawing
	agent *target // that was given
}

// remoteFlags adds the flags that say how to reach an agent, -token and -json.
func (c *remote) remoteFlags(name string) *flag.FlagSet {
	f := c.flags(name)
	c.wrong = c.reach.flags(f)
	f.StringVar(&c.token, "token", os.Getenv("NOMAD_TOKEN"), "")
	f.BoolVar(&c.json, "json", false, "")
	return f
}

const remoteHelp = `
General Options:

  -address=<addr>
    URL of a kolo agent; http:// may be left out, and unix:///path is its
    Unix socket. The default is the KOLO_ADDR environment variable, else the
    socket of an agent of this user or root on this machine, which takes no
    token, else http://127.0.0.1:8648.

  -token=<secret>
    Nomad token to change things with, and to read with where the agent asks
    for one. The default is the NOMAD_TOKEN environment variable, which others
    on this machine cannot see.

  -ca-cert=<path>
    Certificate of the authority that signed the agent's, in PEM. The default
    is the KOLO_CACERT environment variable, else the system's authorities.

  -ca-path=<path>
    Directory of such certificates. Or KOLO_CAPATH.

  -client-cert=<path>
    Certificate for an agent that verifies its callers. Or KOLO_CLIENT_CERT.

  -client-key=<path>
    Key of -client-cert. Or KOLO_CLIENT_KEY.

  -tls-server-name=<name>
    Name that the agent's certificate is for. Or KOLO_TLS_SERVER_NAME.

  -tls-skip-verify
    Do not verify the agent's certificate. Anyone on the way can then read the
    token. Or KOLO_SKIP_VERIFY.

  -json
    Print the agent's answer as JSON.
`

func remoteCompletion() complete.Flags {
	return complete.Flags{
		"-address": complete.PredictAnything, "-token": complete.PredictAnything, "-json": complete.PredictNothing,
		"-ca-cert": complete.PredictFiles("*"), "-ca-path": complete.PredictDirs("*"),
		"-client-cert": complete.PredictFiles("*"), "-client-key": complete.PredictFiles("*"),
		"-tls-server-name": complete.PredictAnything, "-tls-skip-verify": complete.PredictNothing,
	}
}

// parse reads flags and returns the arguments, between least and most of them;
// or else, with ok false, the exit code.
func (c *remote) parse(f *flag.FlagSet, args []string, least, most int, help string) (rest []string, code int, ok bool) {
	err := f.Parse(args)
	if n := f.NArg(); err == nil && (n < least || n > most) {
		err = fmt.Errorf("kolo %s takes %s, got %q", f.Name(), countWords(least, most), f.Args())
	}
	if err == nil {
		err = c.wrong
	}
	if err == nil && c.reach.address != "" {
		c.agent, err = c.reach.target(context.Background()) // asks no one
	}
	if err != nil {
		return nil, c.usage(err, f, help), false
	}
	return f.Args(), 0, true
}

func countWords(least, most int) string {
	switch {
	case most == 0:
		return "no arguments"
	case least == most && least == 1:
		return "one argument"
	case least == most:
		return fmt.Sprintf("%d arguments", least)
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}

// target is the agent that was given, or else the one that is found now.
func (c *remote) target(ctx context.Context) (*target, error) {
	if c.agent != nil {
		return c.agent, nil
	}
	return c.reach.target(ctx)
}

// call sends a request; out may be nil. The raw answer is returned, too.
func (c *remote) call(ctx context.Context, method, path string, query url.Values, in, out any) ([]byte, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	to, err := c.target(ctx)
	if err != nil {
		return nil, err
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, to.base+path, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("X-Nomad-Token", c.token)
	}
	resp, err := to.client.Do(req)
	if err != nil {
		return nil, to.explain(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		var p api.Problem
		if json.Unmarshal(raw, &p) == nil && p.Error != "" {
			return nil, errors.New(p.Error)
		}
		return nil, fmt.Errorf("the agent answered %s: %s", resp.Status, raw)
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			return nil, fmt.Errorf("the agent's answer: %w", err)
		}
	}
	return raw, nil
}

// show prints the raw answer with -json, and what draw makes of it otherwise.
func (c *remote) show(raw []byte, draw func() string) {
	if c.json {
		var out bytes.Buffer
		if json.Indent(&out, bytes.TrimSpace(raw), "", "  ") == nil {
			raw = out.Bytes()
		}
		c.UI.Output(string(raw))
		return
	}
	c.UI.Output(c.clear + printable(draw()))
}

func (c *remote) fail(err error) int {
	c.UI.Error("Error: " + printable(err.Error()))
	return 1
}

// table lines cells up under each other; the first row is the heading.
func table(rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(r, "\t")) // a strings.Builder does not fail
	}
	_ = w.Flush() // a strings.Builder does not fail
	return strings.TrimRight(out.String(), "\n")
}

// interruptible ends with Ctrl-C or a request to end.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
