// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/kolo-nomad/kolo/driver/hostnet"
)

// This file makes what an isolated task resolves names with, in place of the
// host's files.

// nameFiles writes them and returns where, by the paths they have in the task.
func nameFiles(c *drivers.TaskConfig, dirs privateDirs, listen string) (map[string]string, error) {
	files := map[string]string{}
	if c.DNS != nil {
		path, err := writeResolvConf(c, dirs)
		if err != nil {
			return nil, err
		}
		files["/etc/resolv.conf"] = path
	}
	if path, err := writeHosts(c, dirs, listen); err != nil {
		return nil, err
	} else if path != "" {
		files["/etc/hosts"] = path
	}
	return files, nil
}

// writeResolvConf writes the group's dns block as a resolv.conf. What the block
// leaves out is taken from the host's.
func writeResolvConf(c *drivers.TaskConfig, dirs privateDirs) (string, error) {
	host, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("dns: %w", err)
	}
	path, err := dirs.write(resolvName, resolvConf(c.DNS, string(host)))
	if err != nil {
		return "", fmt.Errorf("dns: %w", err)
	}
	return path, nil
}

// writeHosts writes an /etc/hosts by which the machine's name resolves to the
// task's service address, where it does not already; see hostnet.NameFor. An
// isolated task may not rename the machine instead.
func writeHosts(c *drivers.TaskConfig, dirs privateDirs, listen string) (string, error) {
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
	ip := hostnet.NameFor(addr)
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
	path, err := dirs.write(hostsName, hostsFile(string(host), name, ip))
	if err != nil {
		return "", fmt.Errorf("hosts: %w", err)
	}
	return path, nil
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
