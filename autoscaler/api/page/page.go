// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package page holds the web page of the autoscaler: a client of its HTTP API that runs in a
// browser. The files are served as they are in static; there is no build step.
//
// The page contains no data. It asks the API with the token of its viewer, so it shows what
// the viewer may read.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var files embed.FS

// policy lets the page use its own files and call this autoscaler, but nothing else. Inline
// scripts and styles do not run, and no other page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Prefix is the path below which the page's files are served.
const Prefix = "/page/"

// types lists the types of files that are served. Other files, such as licences, are only in
// the source tree.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// Protect sets the headers by which browsers keep answers from pages of other sites, and out
// of caches. They belong to every answer of a server of the page.
func Protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// file is a file to serve, with its headers.
type file struct {
	text, kind, tag string
}

// Handler returns a handler that serves the page at / and its files below Prefix. A browser
// checks each file again and downloads it only if it has changed. So after an upgrade, all
// files have the same version.
func Handler() http.Handler {
	served := map[string]file{}
	_ = fs.WalkDir(files, "static", func(name string, d fs.DirEntry, _ error) error { // an embedded tree has no errors
		kind := types[path.Ext(name)]
		if d.IsDir() || kind == "" {
			return nil
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		served[strings.TrimPrefix(name, "static/")] = file{string(text), kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`}
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "index.html"
		if r.URL.Path != "/" {
			name = strings.TrimPrefix(r.URL.Path, Prefix)
		}
		f, ok := served[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", f.tag)
		h.Set("Content-Security-Policy", policy)
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", f.kind)
		_, _ = w.Write([]byte(f.text)) // the reader may have disconnected
	})
}
