// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/kolo-nomad/kolo/driver/elastic"
)

// NewHostID returns the HostID of an allocation's agent that was started at begun.
func NewHostID(alloc string, begun time.Time) elastic.HostID {
	return elastic.HostID(AllocPrefix(elastic.HostID(alloc)) + "-" + strconv.FormatInt(begun.UnixMilli()%(1<<40), 36))
}

// AllocPrefix returns the part of a HostID before the first hyphen. The ID of the host's
// allocation begins with it.
func AllocPrefix(id elastic.HostID) string {
	prefix, _, _ := strings.Cut(string(id), "-")
	return prefix
}
