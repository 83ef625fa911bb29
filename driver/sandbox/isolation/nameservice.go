// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

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

	"github.com/kolo-nomad/kolo/driver/sandbox/account"
	"github.com/kolo-nomad/kolo/driver/sandbox/privatedirs"
)

// NameService holds the settings with which an isolated task resolves names, where they
// differ from the client's.
type NameService struct {
	// DNS is the group's dns block, nil if there is none.
	DNS *drivers.DNSConfig
	// OwnNetwork states that the task cannot reach the client's loopback addresses, where a
	// resolver may listen.
	OwnNetwork bool
	// Address is the address that the machine's name must resolve to, empty if it already
	// does. The task gets a hosts entry for it, because it may not rename the machine.
	Address string
	// User is the task's user. A user that is in no user database gets a line in the
	// task's.
	User account.Account
	// Home is that user's.
	Home string
}

// Files writes the files that replace files of the client. It returns the paths of the
// written files, keyed by their paths in the task.
func (n NameService) Files(dirs privatedirs.Dirs) (map[string]string, error) {
	contents := map[string]func(host string) []byte{}
	if dns := n.DNS; dns != nil || n.OwnNetwork {
		if dns == nil {
			dns = &drivers.DNSConfig{}
		}
		contents["/etc/resolv.conf"] = func(host string) []byte {
			if n.OwnNetwork {
				host = reachable(host, upstreams)
			}
			return resolvConf(dns, host)
		}
	}
	if n.Address != "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("the machine's name: %w", err)
		}
		contents["/etc/hosts"] = func(host string) []byte { return hostsFile(host, name, n.Address) }
	}
	if u := n.User; u.Dynamic {
		contents["/etc/passwd"] = func(host string) []byte {
			return appendLine(host, fmt.Sprintf("%s:x:%d:%d::%s:/usr/sbin/nologin", u.Name, u.UID, u.GID, n.Home))
		}
		contents["/etc/group"] = func(host string) []byte { return appendLine(host, fmt.Sprintf("%s:x:%d:", u.Name, u.GID)) }
	}
	files := map[string]string{}
	for path, content := range contents {
		host, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("name service: %w", err)
		}
		if files[path], err = dirs.Write(filepath.Base(path), content(string(host))); err != nil {
			return nil, fmt.Errorf("name service: %w", err)
		}
	}
	return files, nil
}

// upstreams is the file in which systemd-resolved lists its own upstream servers.
const upstreams = "/run/systemd/resolve/resolv.conf"

// reachable returns a resolv.conf for a network without the client's loopback addresses. It
// is text, or the content of the file at instead if text names a server at a loopback
// address.
func reachable(text, instead string) string {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || !net.ParseIP(f[1]).IsLoopback() {
			continue
		}
		if other, err := os.ReadFile(instead); err == nil {
			return string(other)
		}
	}
	return text
}

// hostsFile returns the given hosts file with one address for name.
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

// resolvConf returns a resolv.conf for the dns block. Settings that the block leaves out
// come from the client's file.
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

// appendLine returns the text with one more line.
func appendLine(text, line string) []byte {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text + line + "\n")
}
