// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package sbom writes the bill of materials of a release: an SPDX document that lists the
// modules in each program.
//
// The format is SPDX 2.3 in JSON. The list of modules is read from each built program,
// because Go's linker writes it there.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Program is a program of the release, built for one platform.
type Program struct {
	Name, OS, Arch string
	SHA256         string
	Info           *debug.BuildInfo
}

// Document describes the bill of materials of a release.
type Document struct {
	Name, Version string
	License       string // of the programs
	Supplier      string
	At            time.Time
	Programs      []Program
}

type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	Name             string     `json:"name"`
	ID               string     `json:"SPDXID"`
	Version          string     `json:"versionInfo"`
	Supplier         string     `json:"supplier,omitempty"`
	Purpose          string     `json:"primaryPackagePurpose"`
	Comment          string     `json:"comment,omitempty"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	Copyright        string     `json:"copyrightText"`
	Checksums        []checksum `json:"checksums,omitempty"`
	References       []external `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	self        = "SPDXRef-DOCUMENT"
	noAssertion = "NOASSERTION"
)

// JSON returns the document as JSON. The order of the programs does not change the
// result.
func (d Document) JSON() ([]byte, error) {
	out := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: self, Name: d.Name + "-" + d.Version,
		Creation: creation{d.At.UTC().Format(time.RFC3339), []string{"Tool: " + d.Name + "-release", "Organization: " + d.Supplier}},
	}
	programs := slices.SortedFunc(slices.Values(d.Programs), func(a, b Program) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.OS, b.OS), strings.Compare(a.Arch, b.Arch))
	})
	modules := map[string]pkg{}
	for _, p := range programs {
		if p.Info == nil {
			return nil, fmt.Errorf("%s for %s/%s has no build info: was it built with go build, as a module?", p.Name, p.OS, p.Arch)
		}
		program := d.program(p)
		out.Packages = append(out.Packages, program)
		out.Relationships = append(out.Relationships, relationship{self, "DESCRIBES", program.ID})
		for _, m := range linked(p.Info) {
			modules[m.ID] = m
			out.Relationships = append(out.Relationships, relationship{program.ID, "CONTAINS", m.ID})
		}
	}
	out.Packages = append(out.Packages, slices.SortedFunc(maps.Values(modules), func(a, b pkg) int { return strings.Compare(a.ID, b.ID) })...)
	// Documents that differ have names that differ, and the same one always has the same.
	content, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	out.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/%s-%s-%x", d.Name, d.Version, sha256.Sum256(content))
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

func (d Document) program(p Program) pkg {
	return pkg{
		Name: p.Name, ID: id("Program", p.Name, p.OS, p.Arch), Version: d.Version, Supplier: "Organization: " + d.Supplier,
		Purpose: "APPLICATION", Comment: "for " + p.OS + "/" + p.Arch, DownloadLocation: noAssertion,
		LicenseConcluded: d.License, LicenseDeclared: d.License, Copyright: noAssertion,
		Checksums: []checksum{{"SHA256", p.SHA256}},
	}
}

// linked returns the modules that a program is linked from, including the standard
// library.
func linked(info *debug.BuildInfo) []pkg {
	all := []pkg{module("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, module(m.Path, m.Version))
	}
	return all
}

func module(path, version string) pkg {
	return pkg{
		Name: path, ID: id("Module", path, version), Version: version, Purpose: "LIBRARY", DownloadLocation: noAssertion,
		LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, Copyright: noAssertion,
		References: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + purl(path) + "@" + purl(version)}},
	}
}

// purl writes a part of a package URL, in which a plus means a space.
func purl(s string) string { return strings.ReplaceAll(s, "+", "%2B") }

// notInID are the characters that an SPDX identifier cannot have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

func id(parts ...string) string {
	return "SPDXRef-" + notInID.ReplaceAllString(strings.Join(parts, "-"), "-")
}
