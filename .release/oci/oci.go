// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package oci writes container images for several platforms as one OCI image layout. It
// needs no container engine. Podman, docker and skopeo can load or push images from the
// layout.
//
// The formats are those of the OCI image specification, version 1.1. The layout's index
// lists one image index, which lists a manifest for each platform.
package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kolo-nomad/kolo/release/tree"
)

// Media types of the specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Image is an image for several platforms. Tag is the name that engines give it when
// they load it, such as kolo:1.2.3.
type Image struct {
	Tag         string
	Labels      map[string]string
	User        string
	Entrypoint  []string
	Command     []string
	Environment []string
	At          time.Time
	Platforms   []Platform
}

// Platform holds the layers of an image for one architecture of Linux. The layer that
// changes least often comes first.
type Platform struct {
	Arch   string // Go's
	Layers []tree.Files
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Created      string    `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
	History      []history `json:"history"`
}

type runConfig struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// blobs are contents by their digests.
type blobs map[string][]byte

func (b blobs) add(mediaType string, body []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(body), Size: len(body)}
	b[d.Digest] = body
	return d
}

func (b blobs) addJSON(mediaType string, v any) (descriptor, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return b.add(mediaType, body), nil
}

func digest(body []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(body)) }

// Layout returns the files of an OCI image layout with the image.
func (i Image) Layout() (tree.Files, error) {
	all := blobs{}
	platforms := index{SchemaVersion: 2, MediaType: typeIndex, Annotations: i.Labels}
	for _, p := range i.Platforms {
		d, err := i.platform(all, p)
		if err != nil {
			return nil, fmt.Errorf("image %s for linux/%s: %w", i.Tag, p.Arch, err)
		}
		platforms.Manifests = append(platforms.Manifests, d)
	}
	image, err := all.addJSON(typeIndex, platforms)
	if err != nil {
		return nil, err
	}
	image.Annotations = map[string]string{"org.opencontainers.image.ref.name": i.Tag}
	top, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{image}})
	if err != nil {
		return nil, err
	}
	var files tree.Files
	files.Add("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	files.Add("index.json", 0o644, top)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		files.Add("blobs/sha256/"+name[len("sha256:"):], 0o644, all[name])
	}
	return files, nil
}

// platform adds the blobs of one platform and returns the descriptor of its manifest.
func (i Image) platform(all blobs, p Platform) (descriptor, error) {
	created := i.At.UTC().Format(time.RFC3339)
	c := imageConfig{
		Created: created, Architecture: p.Arch, OS: "linux", RootFS: rootFS{Type: "layers"},
		Config: runConfig{User: i.User, Env: i.Environment, Entrypoint: i.Entrypoint, Cmd: i.Command, WorkingDir: "/", Labels: i.Labels},
	}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Annotations: i.Labels}
	for _, files := range p.Layers {
		var plain bytes.Buffer
		if err := files.WriteTar(&plain, i.At); err != nil {
			return descriptor{}, err
		}
		packed, err := tree.Gzip(plain.Bytes())
		if err != nil {
			return descriptor{}, err
		}
		m.Layers = append(m.Layers, all.add(typeLayer, packed))
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, digest(plain.Bytes()))
		c.History = append(c.History, history{created, "make release"})
	}
	var err error
	if m.Config, err = all.addJSON(typeConfig, c); err != nil {
		return descriptor{}, err
	}
	d, err := all.addJSON(typeManifest, m)
	d.Platform = &platform{p.Arch, "linux"}
	return d, err
}
