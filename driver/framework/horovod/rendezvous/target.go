// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// NotifyTarget holds the address at which a process listens for notices, and the key
// that signs them. Anyone who has the key can run code in the process (Horovod
// unpickles the messages it gets), so the key never leaves the agent.
type NotifyTarget struct {
	// Port is a port on 127.0.0.1: the service listens on all addresses, and the
	// agent is on the same host. The hosts in the process's registration are
	// ignored, so the process cannot make the agent connect to another machine. It
	// can choose the port on this machine, but it could connect to that port
	// itself, as the same user in the same network. The agent only sends a request
	// there, signed with the key that the process chose.
	Port int
	// Key is the key of the HMAC-SHA256 signature.
	Key []byte
}

// String omits the key, so that it is in no log.
func (t NotifyTarget) String() string { return "127.0.0.1:" + strconv.Itoa(t.Port) }

// Bounds for the notification service that a process may register.
const (
	maxTargetBody  = 64 << 10 // bytes, base64
	maxInterfaces  = 256
	maxAddresses   = 256 // per interface
	maxTargetKey   = 1 << 10
	maxPickleDepth = 1 << 12 // values on the unpickler's stack
)

// DecodeNotifyTarget reads the body of a PUT to worker_addresses: a pickled,
// base64-encoded pair of {interface: [(address, port), …]} and key. All addresses
// must have the same port. It refuses anything that is not plain data.
func DecodeNotifyTarget(body []byte) (NotifyTarget, error) {
	t, err := decodeTarget(body)
	if err != nil {
		return NotifyTarget{}, fmt.Errorf("worker address: %w", err)
	}
	return t, nil
}

func decodeTarget(body []byte) (NotifyTarget, error) {
	if len(body) > maxTargetBody {
		return NotifyTarget{}, fmt.Errorf("%d bytes, more than %d", len(body), maxTargetBody)
	}
	data, err := base64.StdEncoding.DecodeString(string(body))
	if err != nil {
		return NotifyTarget{}, err
	}
	value, err := unpickle(data)
	if err != nil {
		return NotifyTarget{}, err
	}
	pair, ok := value.(pyTuple)
	if !ok || len(pair) != 2 {
		return NotifyTarget{}, fmt.Errorf("a %T, not a pair", value)
	}
	key, ok := pair[1].([]byte)
	if !ok || len(key) == 0 || len(key) > maxTargetKey {
		return NotifyTarget{}, fmt.Errorf("key is not 1 to %d bytes", maxTargetKey)
	}
	port, err := commonPort(pair[0])
	if err != nil {
		return NotifyTarget{}, err
	}
	return NotifyTarget{Port: port, Key: key}, nil
}

// commonPort returns the port that all addresses of all interfaces share.
func commonPort(value any) (int, error) {
	interfaces, ok := value.(*pyDict)
	if !ok || len(interfaces.items) > maxInterfaces {
		return 0, fmt.Errorf("addresses are a %T, not a dict of at most %d interfaces", value, maxInterfaces)
	}
	port := int64(-1)
	for _, item := range interfaces.items {
		name, isName := item.key.(string)
		list, isList := item.value.(*pyList)
		if !isName || !isList || len(list.items) > maxAddresses {
			return 0, fmt.Errorf("interface is not a name with at most %d addresses", maxAddresses)
		}
		for _, a := range list.items {
			address, ok := a.(pyTuple)
			if !ok || len(address) != 2 {
				return 0, fmt.Errorf("interface %q: address is not a pair", clip(name))
			}
			_, isHost := address[0].(string)
			p, isPort := address[1].(int64)
			if !isHost || !isPort || p < 1 || p > 65535 {
				return 0, fmt.Errorf("interface %q: address is not a host and a port", clip(name))
			}
			if port >= 0 && p != port {
				return 0, fmt.Errorf("several ports: %d and %d", port, p)
			}
			port = p
		}
	}
	if port < 0 {
		return 0, errors.New("no address")
	}
	return int(port), nil
}
