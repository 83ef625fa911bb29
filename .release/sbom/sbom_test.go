// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package sbom_test

import (
	"encoding/json"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/sbom"
)

func example() sbom.Document {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "github.com/docker/docker", Version: "v28.5.2+incompatible"},
		{Path: "github.com/hashicorp/hcl", Version: "v1.0.1-vault-7", Replace: &debug.Module{Path: "github.com/hashicorp/hcl", Version: "v1.0.1-nomad-1"}},
	}}
	return sbom.Document{
		Name: "kolo", Version: "1.2.3", License: "MPL-2.0", Supplier: "Kolo authors", At: time.Unix(1800000000, 0),
		Programs: []sbom.Program{
			{Name: "kolo", OS: "linux", Arch: "arm64", SHA256: "b0", Info: info}, {Name: "kolo", OS: "linux", Arch: "amd64", SHA256: "a0", Info: info},
		},
	}
}

// The document describes every program, and a module that several contain is listed
// once, as the one that was linked.
func TestJSON(t *testing.T) {
	text, err := example().JSON()
	must.NoError(t, err)
	var doc struct {
		SpdxVersion, DocumentNamespace string
		CreationInfo                   struct{ Created string }
		Packages                       []struct {
			Name, SPDXID, VersionInfo string
			ExternalRefs              []struct{ ReferenceLocator string }
		}
		Relationships []struct{ SpdxElementID, RelationshipType, RelatedSpdxElement string }
	}
	must.NoError(t, json.Unmarshal(text, &doc))
	must.Eq(t, "SPDX-2.3", doc.SpdxVersion)
	must.Eq(t, "2027-01-15T08:00:00Z", doc.CreationInfo.Created)
	var ids, urls []string
	for _, p := range doc.Packages {
		ids = append(ids, p.SPDXID)
		for _, ref := range p.ExternalRefs {
			urls = append(urls, ref.ReferenceLocator)
		}
	}
	must.Eq(t, []string{
		"SPDXRef-Program-kolo-linux-amd64", "SPDXRef-Program-kolo-linux-arm64",
		"SPDXRef-Module-github.com-docker-docker-v28.5.2-incompatible", "SPDXRef-Module-github.com-hashicorp-hcl-v1.0.1-nomad-1", "SPDXRef-Module-stdlib-1.26.8",
	}, ids)
	must.Eq(t, []string{"pkg:golang/github.com/docker/docker@v28.5.2%2Bincompatible", "pkg:golang/github.com/hashicorp/hcl@v1.0.1-nomad-1", "pkg:golang/stdlib@1.26.8"}, urls)
	must.Len(t, 2+2*3, doc.Relationships)
	for _, r := range doc.Relationships {
		must.SliceContains(t, append(ids, "SPDXRef-DOCUMENT"), r.RelatedSpdxElement)
		must.SliceContains(t, append(ids, "SPDXRef-DOCUMENT"), r.SpdxElementID)
	}
}

func TestJSON_SameBytes(t *testing.T) {
	d := example()
	first, err := d.JSON()
	must.NoError(t, err)
	slices.Reverse(d.Programs)
	second, err := d.JSON()
	must.NoError(t, err)
	must.Eq(t, string(first), string(second))
	d.Programs[0].SHA256 = "c0"
	third, err := d.JSON()
	must.NoError(t, err)
	must.NotEq(t, string(first), string(third))
}

func TestJSON_WithoutBuildInfo(t *testing.T) {
	d := example()
	d.Programs[0].Info = nil
	_, err := d.JSON()
	must.ErrorContains(t, err, "kolo for linux/arm64 has no build info")
}
