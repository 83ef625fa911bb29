// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// repository is what the registry calls its images.
const repository = "kolo/test"

// A registry serves images, in the form of the OCI distribution specification
// (https://github.com/opencontainers/distribution-spec), as much as engines need to
// pull them. Each tag is an image of its own.
type registry struct {
	// Address is host:port.
	Address string

	layer []byte
	mu    sync.Mutex
	blobs map[string][]byte // by digest
	tags  map[string]string // to the digest of a manifest
	held  map[string]chan struct{}
}

// startRegistry serves the image of rootfs at an address until the test ends.
func startRegistry(t testing.TB, host, rootfs string) *registry {
	t.Helper()
	layer, err := layerOf(rootfs)
	must.NoError(t, err)
	r := &registry{layer: layer, blobs: map[string][]byte{}, tags: map[string]string{}, held: map[string]chan struct{}{}}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	must.NoError(t, err)
	r.Address = l.Addr().String()
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { _ = server.Close(); wg.Wait() })
	return r
}

// image makes the image of a tag, with fields of its configuration and files of its own,
// and returns its name. No other tag has its last layer, so that an engine has to pull it.
func (r *registry) image(t testing.TB, tag string, config map[string]any, files map[string]string) string {
	t.Helper()
	all := map[string]string{"etc/kolo-tag": tag}
	maps.Copy(all, files)
	own, err := archive(all)
	must.NoError(t, err)
	return r.imageOf(t, tag, config, r.layer, own)
}

// imageOf makes the image of a tag from layers.
func (r *registry) imageOf(t testing.TB, tag string, config map[string]any, parts ...[]byte) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := map[string]any{"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}
	maps.Copy(c, config)
	var layers []any
	var contents []string
	for _, layer := range parts {
		layers = append(layers, r.add("application/vnd.oci.image.layer.v1.tar+gzip", layer))
		contents = append(contents, uncompressed(t, layer))
	}
	about, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": c,
		"rootfs": map[string]any{"type": "layers", "diff_ids": contents},
	})
	must.NoError(t, err)
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": r.add("application/vnd.oci.image.config.v1+json", about), "layers": layers,
	})
	must.NoError(t, err)
	r.blobs[digest(manifest)] = manifest
	return r.name(tag, digest(manifest))
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// name gives the manifest with a digest a tag, and returns the image's name.
func (r *registry) name(tag, manifest string) string {
	r.tags[tag] = manifest
	return fmt.Sprintf("%s/%s:%s", r.Address, repository, tag)
}

// layout makes the image of a tag from a tar file with an OCI image layout
// (https://github.com/opencontainers/image-spec, image-layout.md).
func (r *registry) layout(t testing.TB, tag, path string) string {
	t.Helper()
	file, err := os.Open(path)
	must.NoError(t, err)
	defer file.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	var index struct {
		Manifests []struct {
			Digest string `json:"digest"`
		} `json:"manifests"`
	}
	for in := tar.NewReader(file); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.NoError(t, err)
		content, err := io.ReadAll(in)
		must.NoError(t, err)
		switch {
		case header.Name == "index.json":
			must.NoError(t, json.Unmarshal(content, &index))
		case strings.HasPrefix(header.Name, "blobs/"):
			r.blobs[digest(content)] = content
		}
	}
	must.Len(t, 1, index.Manifests)
	return r.name(tag, index.Manifests[0].Digest)
}

// mediaType returns the media type of a manifest, which for several platforms is an index
// of manifests.
func mediaType(manifest []byte) string {
	var m struct {
		MediaType string `json:"mediaType"`
	}
	_ = json.Unmarshal(manifest, &m) // this test has made it, or seen to it that it is one
	return m.MediaType
}

// hold keeps layers from the engine at an address until release is called.
func (r *registry) hold(ip string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(chan struct{})
	r.held[ip] = held
	return sync.OnceFunc(func() { close(held) })
}

// add stores a blob and returns its descriptor.
func (r *registry) add(mediaType string, blob []byte) any {
	r.blobs[digest(blob)] = blob
	return map[string]any{"mediaType": mediaType, "digest": digest(blob), "size": len(blob)}
}

func digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ServeHTTP answers /v2/, manifests and blobs.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	rest, _ := strings.CutPrefix(q.URL.Path, "/v2/"+repository+"/")
	kind, reference, _ := strings.Cut(rest, "/")
	r.mu.Lock()
	if tagged, found := r.tags[reference]; found {
		reference = tagged
	}
	blob, found := r.blobs[reference]
	caller, _, _ := net.SplitHostPort(q.RemoteAddr)
	held := r.held[caller]
	r.mu.Unlock()
	switch {
	case q.URL.Path == "/v2/" || q.URL.Path == "/v2":
		return
	case !found:
		http.NotFound(w, q)
		return
	case kind == "manifests":
		w.Header().Set("Content-Type", mediaType(blob))
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		if held != nil {
			select {
			case <-held:
			case <-q.Context().Done():
				return
			}
		}
	}
	w.Header().Set("Docker-Content-Digest", reference)
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(blob))
}

// inVolume are the directories of the root file system that the image leaves out,
// and that volumes or the engine provide.
var inVolume = []string{"usr", "proc", "sys", "dev", "run", "var", "boot", "root", "home"}

// layerOf returns the root file system without its large directories, as a layer.
func layerOf(rootfs string) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(rootfs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == rootfs {
			return err
		}
		name, _ := filepath.Rel(rootfs, path)
		top, _, nested := strings.Cut(name, "/")
		if slices.Contains(inVolume, top) && nested {
			return fs.SkipDir
		}
		return writeEntry(w, path, name, d)
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = z.Close()
	}
	return out.Bytes(), err
}

// writeEntry writes a directory, a link or a file.
func writeEntry(w *tar.Writer, path, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	var target string
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil // devices and pipes: the engine makes what a container needs
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name = name
	if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// archive returns a layer of files.
func archive(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil { // before its bytes are taken
		return nil, err
	}
	return out.Bytes(), nil
}

// uncompressed returns the digest of what a layer has in it.
func uncompressed(t testing.TB, layer []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(layer))
	must.NoError(t, err)
	content, err := io.ReadAll(z)
	must.NoError(t, err)
	return digest(content)
}
