// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// HTTP holds the settings of the autoscaler's own API.
type HTTP struct {
	Bind      string
	Port      int
	Advertise string // "" is made of the address that is listened at
	Debug     bool
	Open      bool // not for the Unix socket, which needs no token
	ReadToken bool
	Hosts     []string // in lower case; ".example" is all names that end so
	Unix      string   // "" is where package socket puts it, NoSocket is none
	UnixGroup string   // "" is none
	TLS       TLS
}

// NoSocket is the value of Unix for an autoscaler without a socket.
const NoSocket = "off"

// Loopback reports whether the API can be reached from this machine only.
func (h *HTTP) Loopback() bool {
	ip := net.ParseIP(h.Bind)
	return h.Bind == "localhost" || ip != nil && ip.IsLoopback()
}

func (h *HTTP) settings() settings {
	return settings{
		define("bind", &h.Bind, "127.0.0.1", address, "Address that the API listens on."),
		define("port", &h.Port, 8648, whole(0, 65535), "Port that the API listens on; 0 is any free one."),
		define("advertise", &h.Advertise, "", origin, "URL at which other autoscalers reach the API, such as `http://10.0.0.1:8648`; required if the API is bound to loopback or is behind a proxy.").or("the address it listens on"),
		define("hosts", &h.Hosts, nil, list("names", `["kolo.example", ".service.consul"]`, hostName), "Additional names by which the API may be called; a name that begins with a dot stands for all names with that ending.").or("none"),
		define("unix", &h.Unix, "", checked("absolute path or `off`", socketPath), "Path of the Unix socket for callers of this machine.").or("by user"),
		define("unix_group", &h.UnixGroup, "", text, "Group that may use the socket.").or("none"),
		define("read_token", &h.ReadToken, false, boolean, "Reading requires a Nomad token, and shows the jobs that Nomad lets it read."),
		define("debug", &h.Debug, false, boolean, "Serves pprof."),
		define("open", &h.Open, false, boolean, "Everyone who can reach the API may send commands without a token. The autoscaler carries them out with its own token."),
	}
}

func (c *Config) http(b *hcl.Block) hcl.Diagnostics {
	h := &c.HTTP
	content, diags := h.settings().read(b.Body, hcl.BlockHeaderSchema{Type: "tls"})
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

// socketPath accepts the path of a Unix socket, or NoSocket.
func socketPath(s string) (path, complaint string) {
	if s != NoSocket && !filepath.IsAbs(s) {
		return "", fmt.Sprintf(`%q is not an absolute path; write one such as "/run/kolo/kolo.sock", or "off" for no socket.`, s)
	}
	return s, ""
}

// hostName accepts a name without a port.
func hostName(_ int, s string) (name, complaint string) {
	if strings.Trim(s, ".") == "" || strings.ContainsAny(s, "/:*@ ") {
		return "", fmt.Sprintf(`%q is not a name of a host; write hosts = ["kolo.example", ".service.consul"]. It has no scheme and no port, and one that begins with a dot stands for all names that end so.`, s)
	}
	return strings.ToLower(s), ""
}
