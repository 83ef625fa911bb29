// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/agent"
)

// This file makes what an isolated task resolves names with, in place of the
// host's files.

// writeResolvConf writes the group's dns block as a resolv.conf. What the block
// leaves out is taken from the host's.
func writeResolvConf(c *drivers.TaskConfig) (string, error) {
	host, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("dns: %w", err)
	}
	path := filepath.Join(c.TaskDir().Dir, "kolo-resolv.conf")
	root, err := os.OpenRoot(c.TaskDir().Dir)
	if err != nil {
		return "", fmt.Errorf("dns: %w", err)
	}
	defer func() { _ = root.Close() }()
	self := account{uid: os.Geteuid(), gid: os.Getegid()}
	return path, writeOwned(root, filepath.Base(path), resolvConf(c.DNS, string(host)), 0o644, self)
}

// writeHosts writes an /etc/hosts by which the machine's name resolves to the
// task's service address, where it does not already; see agent.HostnameFor. An
// isolated task may not rename the machine instead.
func writeHosts(c *drivers.TaskConfig, listen string) (string, error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("service port: %w", err)
	}
	addr := ""
	for k, v := range c.Env {
		if strings.HasPrefix(k, "NOMAD_ADDR_") && strings.HasSuffix(v, ":"+port) {
			addr = v
		}
	}
	ip := agent.HostnameFor(addr)
	if ip == "" {
		return "", nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("the machine's name: %w", err)
	}
	host, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("hosts: %w", err)
	}
	path := filepath.Join(c.TaskDir().Dir, "kolo-hosts")
	root, err := os.OpenRoot(c.TaskDir().Dir)
	if err != nil {
		return "", fmt.Errorf("hosts: %w", err)
	}
	defer func() { _ = root.Close() }()
	self := account{uid: os.Geteuid(), gid: os.Getegid()}
	return path, writeOwned(root, filepath.Base(path), hostsFile(string(host), name, ip), 0o644, self)
}

// hostsFile is the given hosts file with one address for name.
func hostsFile(host, name, ip string) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", ip, name)
	for line := range strings.Lines(host) {
		entry, _, _ := strings.Cut(line, "#")
		if f := strings.Fields(entry); len(f) > 1 && slices.Contains(f[1:], name) {
			rest := slices.DeleteFunc(slices.Clone(f[1:]), func(s string) bool { return s == name })
			if len(rest) > 0 {
				fmt.Fprintf(&out, "%s %s\n", f[0], strings.Join(rest, " "))
			}
			continue
		}
		out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
	return []byte(out.String())
}

func resolvConf(dns *drivers.DNSConfig, host string) []byte {
	var out strings.Builder
	section := func(keyword string, values []string, eachOnALine bool) {
		switch {
		case len(values) == 0:
			for line := range strings.Lines(host) {
				if fields := strings.Fields(line); len(fields) > 1 && fields[0] == keyword {
					out.WriteString(strings.Join(fields, " ") + "\n")
				}
			}
		case eachOnALine:
			for _, v := range values {
				out.WriteString(keyword + " " + v + "\n")
			}
		default:
			out.WriteString(keyword + " " + strings.Join(values, " ") + "\n")
		}
	}
	section("nameserver", dns.Servers, true)
	section("search", dns.Searches, false)
	section("options", dns.Options, false)
	return []byte(out.String())
}
