// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// port is the API's default port. The socket of an autoscaler with another port has
// that port in its name, so several autoscalers of one user each have a socket.
const port = 8648

// Places lists the directories in which the sockets of a user's autoscalers may be.
type Places struct {
	UID     int
	System  string // belongs to root, or to a user to whom root gave it
	Runtime string // XDG_RUNTIME_DIR, "" is none
}

// Here returns the places for the user of this process.
func Here() Places {
	return Places{UID: os.Getuid(), System: "/run/kolo", Runtime: os.Getenv("XDG_RUNTIME_DIR")}
}

// Default returns the path at which an autoscaler listens if its configuration
// names none, or "" if there is no suitable place.
func (p Places) Default(api int) string {
	name := "kolo.sock"
	if api != port {
		name = fmt.Sprintf("kolo-%d.sock", api)
	}
	switch {
	case p.UID == 0, p.owns(p.System):
		return filepath.Join(p.System, name)
	case filepath.IsAbs(p.Runtime):
		return filepath.Join(p.Runtime, "kolo", name)
	}
	return ""
}

func (p Places) owns(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && owner(info) == p.UID
}

// Find returns the socket of an autoscaler that runs on this machine and that this
// user may call, or "" if there is none. If there are several such autoscalers, it
// prefers one with the default port.
func (p Places) Find(ctx context.Context) (string, error) {
	var found []string
	for _, path := range p.candidates() {
		if !p.answers(ctx, path) {
			continue
		}
		if filepath.Base(path) == "kolo.sock" {
			return path, nil
		}
		found = append(found, path)
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several autoscalers run here; choose one with -address or KOLO_ADDR: unix://%s", strings.Join(found, ", unix://"))
}

func (p Places) candidates() []string {
	dirs := []string{p.System}
	if filepath.IsAbs(p.Runtime) {
		dirs = append(dirs, filepath.Join(p.Runtime, "kolo"))
	}
	if p.UID != 0 {
		slices.Reverse(dirs)
	}
	var out []string
	for _, dir := range dirs {
		// A directory that cannot be read has no socket for this user.
		paths, _ := filepath.Glob(filepath.Join(dir, "kolo*.sock"))
		out = append(out, paths...)
	}
	return out
}

// answers reports whether an autoscaler listens at path to which this user may send
// a token.
func (p Places) answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := p.Dial(ctx, path)
	return err == nil && c.Close() == nil
}

// Dial connects to the autoscaler at a path that Find returned. It refuses a peer
// to which this user may not send a token, because another process may have
// replaced the socket.
func (p Places) Dial(ctx context.Context, path string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	peer, err := PeerOf(c)
	if err == nil && !p.trusts(peer, path) {
		err = fmt.Errorf("the socket %s is served by uid %d, who is neither root nor this user; name it with -address if it is to have the token", path, peer.UID)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// trusts reports whether a peer may receive a token. Trusted peers are root, this
// user, and the user to whom root gave the system directory. A runtime directory
// proves nothing: its path comes from the environment, which root may have
// inherited from another user.
func (p Places) trusts(peer Peer, path string) bool {
	if peer.UID == 0 || peer.UID == p.UID {
		return true
	}
	info, err := os.Lstat(p.System)
	return err == nil && info.IsDir() && filepath.Dir(path) == filepath.Clean(p.System) && owner(info) == peer.UID
}
