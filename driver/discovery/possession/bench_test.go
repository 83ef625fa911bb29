// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package possession

import "testing"

func BenchmarkProof(b *testing.B) {
	for _, c := range []struct {
		name string
		s    signer
	}{{"RSA-2048", rsaSigner(b, 2048)}, {"RSA-4096", rsaSigner(b, 4096)}} {
		token := c.s.token(`{"sub":"a"}`)
		p := must1(Prove(token, c.s.public, testContext))
		b.Run(c.name+"/prove", func(b *testing.B) {
			for b.Loop() {
				must1(Prove(token, c.s.public, testContext))
			}
		})
		b.Run(c.name+"/verify", func(b *testing.B) {
			for b.Loop() {
				if err := p.Verify(c.s.public, testContext); err != nil {
					b.Fatal(err)
				}
			}
			der, _ := p.Marshal()
			b.ReportMetric(float64(len(der)), "bytes")
		})
	}
}
