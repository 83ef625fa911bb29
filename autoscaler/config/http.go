// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// HTTP is the agent's own API.
type HTTP struct {
	Bind string
	Port int
	// Advertise is the URL that other agents reach the API at, to pass on what
	// only the leader can do; "" is made of the address that is listened at.
	Advertise string
	Debug     bool // serve pprof
	// Open lets callers without a Nomad token write, with the agent's own. The
	// Unix socket needs no such thing.
	Open bool
	// ReadToken lets only those read who present a Nomad token, and each only
	// the jobs of namespaces whose jobs Nomad lets the token read.
	ReadToken bool
	// Hosts are the names that the API may be called by, besides IP addresses
	// and the names of this machine; one that begins with a dot stands for all
	// names that end so.
	Hosts []string
	// Unix is the path of the Unix socket for callers of this machine, "" is
	// where package socket puts it, and NoSocket is none.
	Unix      string
	UnixGroup string // may use the socket, too; "" is none
	TLS       TLS
}

// NoSocket is the value of Unix for an agent without a socket.
const NoSocket = "off"

// Loopback says whether the API can be reached from this machine only.
func (h *HTTP) Loopback() bool {
	ip := net.ParseIP(h.Bind)
	return h.Bind == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *Config) http(b *hcl.Block) hcl.Diagnostics {
	h := &c.HTTP
	content, diags := settings{
		"bind": address(&h.Bind), "port": whole(&h.Port, 0, 65535), "advertise": origin(&h.Advertise), "debug": truth(&h.Debug),
		"open": truth(&h.Open), "read_token": truth(&h.ReadToken), "hosts": hostNames(&h.Hosts),
		"unix": socketPath(&h.Unix), "unix_group": text(&h.UnixGroup),
	}.read(b.Body, hcl.BlockHeaderSchema{Type: "tls"})
	if g := content.Attributes["unix_group"]; g != nil && h.Unix == NoSocket {
		diags = append(diags, wrong(g.Range, "Contradiction", `unix_group lets a group use the socket, and unix = "off" makes none. Remove one.`))
	}
	for i, t := range content.Blocks {
		if i > 0 {
			diags = append(diags, wrong(t.DefRange, "Repeated block", "http has one tls block; remove all but one."))
			break
		}
		warnings, more := h.TLS.read(t)
		c.Warnings, diags = append(c.Warnings, warnings...), append(diags, more...)
	}
	return diags
}

// socketPath is the path of a Unix socket, or NoSocket.
func socketPath(to *string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		var s string
		if diags := text(&s)(a); diags.HasErrors() {
			return diags
		}
		if s != NoSocket && !filepath.IsAbs(s) {
			return wrongValue(a, `%q is not an absolute path; write one such as "/run/kolo/kolo.sock", or "off" for no socket.`, s)
		}
		*to = s
		return nil
	}
}

// hostNames are names without a port.
func hostNames(to *[]string) setting {
	return func(a *hcl.Attribute) hcl.Diagnostics {
		v, diags := a.Expr.Value(nil)
		if diags.HasErrors() {
			return diags
		}
		example := fmt.Sprintf(`write %s = ["kolo.example", ".service.consul"].`, a.Name)
		if v.IsNull() || !v.IsWhollyKnown() || !v.Type().IsTupleType() {
			return wrongValue(a, "A list of names is expected; %s", example)
		}
		var out []string
		for _, e := range v.AsValueSlice() {
			if e.Type() != cty.String || e.IsNull() {
				return wrongValue(a, "A list of names is expected; %s", example)
			}
			s := e.AsString()
			if strings.Trim(s, ".") == "" || strings.ContainsAny(s, "/:*@ ") {
				return wrongValue(a, "%q is not a name of a host; %s It has no scheme and no port, and one that begins with a dot stands for all names that end so.", s, example)
			}
			out = append(out, strings.ToLower(s))
		}
		*to = out
		return nil
	}
}
