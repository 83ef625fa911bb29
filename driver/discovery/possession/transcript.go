// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"encoding/binary"
	"hash"
)

// domainRSA separates the hashes of this package from all others.
const domainRSA = "kolo.possession.v1 RS256 Guillou-Quisquater"

// transcript hashes what both sides know before the challenge. Each field is
// preceded by its length, so that different lists of fields have different hashes.
type transcript struct{ hash.Hash }

func newTranscript(h hash.Hash, domain string, fields ...[]byte) transcript {
	t := transcript{h}
	t.add([]byte(domain))
	for _, f := range fields {
		t.add(f)
	}
	return t
}

func (t transcript) add(field []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(field)))
	t.Write(n[:]) // never fails
	t.Write(field)
}
