// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultBindPaths are the paths of the client that a task with isolation = "exec" sees,
// read-only and under the same names: programs, libraries, and those configuration files
// that are public on any machine. /etc as a whole is not included, because it holds keys
// and passwords, and users other than root can read some of them. /opt is not included
// either, because Nomad's own data often lies there.
//
// The last element of a path may be a pattern.
var DefaultBindPaths = []string{
	"/bin", "/lib", "/lib32", "/lib64", "/sbin", "/usr",

	// Names of users, hosts and services.
	"/etc/gai.conf", "/etc/group", "/etc/host.conf", "/etc/hostname", "/etc/hosts", "/etc/networks",
	"/etc/nsswitch.conf", "/etc/passwd", "/etc/protocols", "/etc/resolv.conf", "/etc/rpc", "/etc/services",
	// Possible targets of /etc/resolv.conf as a link; sockets of the resolver lie next to
	// them.
	"/run/resolvconf/resolv.conf", "/run/systemd/resolve/resolv.conf", "/run/systemd/resolve/stub-resolv.conf",
	// Certificate authorities, without /etc/ssl/private and /etc/pki/tls/private.
	"/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies", "/etc/pki/ca-trust",
	"/etc/pki/tls/cert.pem", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf",
	// The loader, and the system's choice among several programs and languages.
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/python3*",
	"/etc/lsb-release", "/etc/os-release", "/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/fonts",
	// GPUs and fast networks.
	"/etc/OpenCL", "/etc/glvnd", "/etc/nvidia", "/etc/vulkan", "/etc/nccl.conf", "/etc/dat.conf",
	"/etc/libibverbs.d", "/etc/openmpi", "/etc/rdma", "/etc/ucx",
}

// Present expands patterns and omits paths that this client does not have.
func Present(paths []string) []string {
	var there []string
	for _, path := range paths {
		matches, err := filepath.Glob(path)
		if err != nil || !strings.Contains(path, "*") {
			matches = []string{path}
		}
		for _, path := range matches {
			if _, err := os.Stat(path); err == nil {
				there = append(there, path)
			}
		}
	}
	return there
}

// hostLinks returns, with their targets, the bind paths in /etc that are links to files
// that the task sees anyway. Such a path becomes a link in the task, too: a link remains
// right when the client replaces its target, while a bound file stays as it was when the
// task began.
func hostLinks(bindPaths []string) map[string]string {
	links := map[string]string{}
	seen := func(path string) bool {
		return slices.ContainsFunc(bindPaths, func(p string) bool { return within(path, p) })
	}
	for _, path := range bindPaths {
		if !within(path, "/etc") {
			continue
		}
		target, err := os.Readlink(path)
		if err != nil {
			continue
		}
		next := target
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		if end, err := filepath.EvalSymlinks(path); err == nil && seen(next) && seen(end) {
			links[path] = target
		}
	}
	return links
}
