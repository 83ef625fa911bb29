// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/posener/complete"

	"github.com/kolo-nomad/kolo/autoscaler/api"
	"github.com/kolo-nomad/kolo/autoscaler/text/printable"
)

// apiCommand is the common part of commands that send requests to a running
// autoscaler.
type apiCommand struct {
	meta
	target clientFlags
	token  string
	json   bool
	clear  string // sent to the terminal before each drawing

	invalid error   // error in the environment
	chosen  *client // set by -address or KOLO_ADDR
}

// apiFlags adds the flags that specify how to reach an autoscaler, -token and -json.
func (c *apiCommand) apiFlags(name string) *flag.FlagSet {
	f := c.flags(name)
	c.invalid = c.target.register(f)
	f.StringVar(&c.token, "token", os.Getenv("NOMAD_TOKEN"), "")
	f.BoolVar(&c.json, "json", false, "")
	return f
}

const apiHelp = `
General Options:

  -address=<addr>
    URL of an autoscaler; http:// may be left out, and unix:///path is its
    Unix socket. The default is the KOLO_ADDR environment variable, else the
    socket of an autoscaler of this user or root on this machine, which needs
    no token, else http://127.0.0.1:8648.

  -token=<secret>
    Nomad token for commands, and for reading if the autoscaler requires one.
    The default is the NOMAD_TOKEN environment variable, which others on this
    machine cannot see.

  -ca-cert=<path>
    Certificate of the authority that signed the autoscaler's, in PEM. The
    default is the KOLO_CACERT environment variable, else the system's
    authorities.

  -ca-path=<path>
    Directory of such certificates. Or KOLO_CAPATH.

  -client-cert=<path>
    Certificate for an autoscaler that verifies its callers. Or
    KOLO_CLIENT_CERT.

  -client-key=<path>
    Key of -client-cert. Or KOLO_CLIENT_KEY.

  -tls-server-name=<name>
    Name that the autoscaler's certificate is for. Or KOLO_TLS_SERVER_NAME.

  -tls-skip-verify
    Do not verify the autoscaler's certificate. Anyone in the network can then
    read the token. Or KOLO_SKIP_VERIFY.

  -json
    Print the autoscaler's answer as JSON.
`

// AutocompleteFlags implements cli.CommandAutocomplete.
func (c *apiCommand) AutocompleteFlags() complete.Flags {
	return complete.Flags{
		"-address": complete.PredictAnything, "-token": complete.PredictAnything, "-json": complete.PredictNothing,
		"-ca-cert": complete.PredictFiles("*"), "-ca-path": complete.PredictDirs("*"),
		"-client-cert": complete.PredictFiles("*"), "-client-key": complete.PredictFiles("*"),
		"-tls-server-name": complete.PredictAnything, "-tls-skip-verify": complete.PredictNothing,
	}
}

// parse reads flags and returns the arguments, of which there must be least to most.
// If ok is false, the command must end with the exit code.
func (c *apiCommand) parse(f *flag.FlagSet, args []string, least, most int, help string) (rest []string, code int, ok bool) {
	err := cmp.Or(parse(f, args, least, most), c.invalid)
	if err == nil && c.target.address != "" {
		c.chosen, err = c.target.client(context.Background()) // sends no request
	}
	if err != nil {
		return nil, c.usage(err, f, help), false
	}
	return f.Args(), 0, true
}

// parse reads flags, followed by least to most arguments.
func parse(f *flag.FlagSet, args []string, least, most int) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if n := f.NArg(); n < least || n > most {
		hint := ""
		if slices.ContainsFunc(f.Args(), func(a string) bool { return len(a) > 1 && a[0] == '-' }) {
			hint = "; options come before arguments"
		}
		given := "got none"
		if n > 0 {
			given = fmt.Sprintf("got %q", f.Args())
		}
		return fmt.Errorf("kolo %s takes %s, %s%s", f.Name(), countWords(least, most), given, hint)
	}
	return nil
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

// client returns the client of the specified autoscaler, or else of one that it finds
// now.
func (c *apiCommand) client(ctx context.Context) (*client, error) {
	to := c.chosen
	if to == nil {
		var err error
		if to, err = c.target.client(ctx); err != nil {
			return nil, err
		}
	}
	to.Token = c.token
	return to, nil
}

// call sends a request; in and out may be nil. It also returns the text of the
// answer.
func (c *apiCommand) call(ctx context.Context, method, path string, query url.Values, in, out any) ([]byte, error) {
	to, err := c.client(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := to.Do(ctx, method, path, query, in, out)
	return raw, explained(to, err)
}

// explained adds to the error of a request how it failed to reach the autoscaler.
func explained(to *client, err error) error {
	var unanswered *url.Error
	switch {
	case errors.As(err, &unanswered):
		return to.explain(err)
	case errors.Is(err, api.ErrNotServed):
		return fmt.Errorf("%s: %w", to.name, err)
	}
	return err
}

// ask sends a request and prints the answer: raw with -json, and the result of draw
// otherwise. It returns the exit code.
func (c *apiCommand) ask(method, path string, query url.Values, in, out any, draw func() string) int {
	ctx, cancel := c.interruptible()
	defer cancel()
	raw, err := c.call(ctx, method, path, query, in, out)
	if err != nil {
		return c.fail(err)
	}
	c.show(raw, draw)
	return 0
}

// show prints the raw answer with -json, and the result of draw otherwise.
func (c *apiCommand) show(raw []byte, draw func() string) {
	if c.json {
		var out bytes.Buffer
		if json.Indent(&out, bytes.TrimSpace(raw), "", "  ") == nil {
			raw = out.Bytes()
		}
		c.UI.Output(string(raw))
		return
	}
	c.UI.Output(c.clear + printable.Text(draw()))
}

func (m meta) fail(err error) int {
	m.UI.Error("Error: " + printable.Text(err.Error()))
	return 1
}

// interruptible returns the context of a command. SIGINT and SIGTERM end it, unless begin is set.
func (m meta) interruptible() (context.Context, context.CancelFunc) {
	if m.begin != nil {
		return m.begin()
	}
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
