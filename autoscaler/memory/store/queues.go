// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"encoding/json"
	"maps"

	"github.com/kolo-nomad/kolo/autoscaler/memory/history"
	"github.com/kolo-nomad/kolo/autoscaler/plan/ledger"
)

// An account of a queue is in one shard, together with the time up to which it counts. If a
// leader dies between two writes, accounts have different times, but each is right for its
// own time. So the next leader continues from there, and counts nothing twice.

// accountName returns the name of a queue's account in a shard. It never equals the name of
// a job or a kind, which begin with a namespace.
func accountName(pool, key string) string { return "\x00" + pool + "\x00" + key }

// addAccounts distributes the accounts of queues over the shards.
func addAccounts(all *[shards]shard, h *history.History) {
	for pool, l := range h.Queues {
		for key, a := range l {
			s := &all[shardOf(accountName(pool, key))]
			if s.Queues == nil {
				s.Queues = map[string]ledger.Ledger{}
			}
			if s.Queues[pool] == nil {
				s.Queues[pool] = ledger.Ledger{}
			}
			s.Queues[pool][key] = a
		}
	}
}

// loadAccounts adds the accounts of a shard to a history.
func (s *shard) loadAccounts(h *history.History) {
	for pool, l := range s.Queues {
		for key, a := range l {
			if a != nil {
				h.Ledger(pool)[key] = a
			}
		}
	}
}

// accounts returns the accounts of the shard as entries.
func (s *shard) accounts() (out []entry) {
	for pool, l := range s.Queues {
		for key, a := range l {
			out = append(out, entry{namespace: pool, name: accountName(pool, key), size: size(a) + len(key)})
		}
	}
	return out
}

func (s *shard) fairAccounts() []entry { return fair(s.accounts()) }

// accountsWithout returns the accounts of a shard, except those with the given names.
func (s *shard) accountsWithout(names map[string]bool) map[string]ledger.Ledger {
	out := maps.Clone(s.Queues)
	for pool, l := range out {
		out[pool] = maps.Clone(l)
		maps.DeleteFunc(out[pool], func(key string, _ *ledger.Account) bool { return names[accountName(pool, key)] })
	}
	return out
}

// dropUnencodableAccounts returns how many accounts it omitted.
func (s *shard) dropUnencodableAccounts() int {
	bad := map[string]bool{}
	for pool, l := range s.Queues {
		for key, a := range l {
			if _, err := json.Marshal(a); err != nil {
				bad[accountName(pool, key)] = true
			}
		}
	}
	s.Queues = s.accountsWithout(bad)
	return len(bad)
}
