// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// NewHostID names a run of the agent of an allocation.
func NewHostID(alloc string, begun time.Time) elastic.HostID {
	return elastic.HostID(AllocPrefix(elastic.HostID(alloc)) + "-" + strconv.FormatInt(begun.UnixMilli()%(1<<40), 36))
}

// AllocPrefix returns the part of a host's name that is its allocation's: what
// stands before the first hyphen.
func AllocPrefix(id elastic.HostID) string {
	prefix, _, _ := strings.Cut(string(id), "-")
	return prefix
}
