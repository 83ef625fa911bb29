// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import (
	"bytes"
	"testing"

	"github.com/shoenig/test/must"
)

// FuzzParse: a parsed proof is encoded the same again, and holds only if it is the
// original proof.
func FuzzParse(f *testing.F) {
	all := signers(f)
	made := map[string]Proof{}
	for name, s := range all {
		p := must1(Prove(s.token(`{"sub":"a"}`), s.public, testContext))
		made[name] = p
		der, err := p.Marshal()
		must.NoError(f, err)
		f.Add(der)
		f.Add(der[:len(der)/2])
	}
	f.Add([]byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, der []byte) {
		p, err := Parse(der)
		if err != nil {
			must.ErrorIs(t, err, ErrInvalid)
			return
		}
		again, err := p.Marshal()
		must.NoError(t, err)
		must.Eq(t, der, again)
		for name, s := range all {
			if p.Verify(s.public, testContext) == nil {
				must.True(t, bytes.Equal(made[name].Body, p.Body) && made[name].Message == p.Message)
			}
		}
	})
}
