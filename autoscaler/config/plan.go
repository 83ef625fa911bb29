// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kolo-nomad/kolo/autoscaler/text/nesting"
)

// PoolBlocks returns the text of the pool blocks of sources that Parse accepts: all that a
// plan needs of a configuration, without its tokens and paths.
func PoolBlocks(sources map[string][]byte) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		f, _ := hclparse.NewParser().ParseHCL(sources[name], name)
		body, ok := f.Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		for _, b := range body.Blocks {
			if b.Type == "pool" {
				out = append(append(out, b.Range().SliceBytes(sources[name])...), '\n')
			}
		}
	}
	return out
}

// ParsePools reads pool blocks, as PoolBlocks returns them, by node pool. policyDir is
// where external policies are, "" for none.
func ParsePools(text []byte, policyDir string) (map[string]Pool, error) {
	const name = "pools"
	if err := nesting.File(name, text); err != nil {
		return nil, err
	}
	f, diags := hclparse.NewParser().ParseHCL(text, name)
	if diags.HasErrors() {
		return nil, asError(diags)
	}
	c := Default()
	c.PolicyDir = policyDir
	content, diags := f.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "pool", LabelNames: []string{"node pool"}}}})
	for _, b := range content.Blocks {
		diags = append(diags, c.pool(b)...)
	}
	if diags.HasErrors() {
		return nil, asError(diags)
	}
	return c.Pools, nil
}
