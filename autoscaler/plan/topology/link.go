// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"strconv"
	"strings"
)

// Link is the class of a link between two devices of a node, in the terms of nvidia-smi. A
// higher class is slower.
type Link int

// Classes of links.
const (
	NVLink  Link = iota + 1 // NVLinks, direct or through NVSwitch
	PIX                     // one PCIe switch
	PXB                     // several PCIe switches
	PHB                     // the host bridge of a NUMA node
	NODE                    // several host bridges of a NUMA node
	SYS                     // across NUMA nodes
	Unknown                 // not reported
)

// String returns the class as nvidia-smi prints it.
func (l Link) String() string {
	if l < NVLink || l > SYS {
		return "?"
	}
	return []string{"NV", "PIX", "PXB", "PHB", "NODE", "SYS"}[l-1]
}

// maxLinks is the most links in a link matrix: those of 256 devices.
const maxLinks = 256 * 255 / 2

// SlowestLink returns the slowest class in a link matrix in the encoding of the device
// plugin, such as "4;NV4,4xSYS,NV4". This is the class to assume for two workers if it is
// unknown which of the devices they have. The matrix of a single device has no link, and
// counts as NVLink. For an invalid matrix, the result is Unknown.
func SlowestLink(matrix string) Link {
	count, list, found := strings.Cut(matrix, ";")
	n, err := strconv.Atoi(count)
	if !found || err != nil || n < 1 || n > 256 {
		return Unknown
	}
	slowest, left := NVLink, n*(n-1)/2
	for item := range strings.SplitSeq(list, ",") {
		if item == "" && list == "" {
			break
		}
		times := 1
		if k, rest, repeated := strings.Cut(item, "x"); repeated {
			if times, err = strconv.Atoi(k); err != nil || times < 1 || times > maxLinks {
				return Unknown
			}
			item = rest
		}
		class := linkOf(item)
		if left -= times; class == Unknown || left < 0 {
			return Unknown
		}
		slowest = max(slowest, class)
	}
	if left != 0 {
		return Unknown
	}
	return slowest
}

func linkOf(word string) Link {
	for l := PIX; l <= SYS; l++ {
		if word == l.String() {
			return l
		}
	}
	if n, ok := strings.CutPrefix(word, "NV"); ok {
		if k, err := strconv.Atoi(strings.TrimSuffix(n, "s")); err == nil && k > 0 {
			return NVLink
		}
	}
	return Unknown
}
