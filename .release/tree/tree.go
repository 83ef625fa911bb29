// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package tree represents the files of a container image. It writes them as an archive,
// and the same files always give the same bytes.
package tree

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file or a directory, owned by root.
type File struct {
	Path string      // relative, with slashes
	Mode fs.FileMode // permissions, with fs.ModeDir for a directory
	Body []byte
}

// Files are the files of one image, or of one of its layers.
type Files []File

// Add appends a regular file.
func (f *Files) Add(path string, mode fs.FileMode, body []byte) {
	*f = append(*f, File{Path: path, Mode: mode, Body: body})
}

// WithDirs returns the files sorted by path, together with all directories above them.
// It returns an error if two files have the same path.
func (f Files) WithDirs() (Files, error) {
	all := map[string]File{}
	for _, file := range f {
		if path.Clean(file.Path) != file.Path || path.IsAbs(file.Path) || strings.HasPrefix(file.Path, "..") {
			return nil, fmt.Errorf("%q is no clean relative path", file.Path)
		}
		if _, twice := all[file.Path]; twice {
			return nil, fmt.Errorf("%s is listed twice", file.Path)
		}
		all[file.Path] = file
	}
	for _, file := range f {
		for dir := path.Dir(file.Path); dir != "."; dir = path.Dir(dir) {
			if _, exists := all[dir]; !exists {
				all[dir] = File{Path: dir, Mode: fs.ModeDir | 0o755}
			}
		}
	}
	sorted := make(Files, 0, len(all))
	for _, file := range all {
		sorted = append(sorted, file)
	}
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return sorted, nil
}

// WriteTar writes the files, and the directories above them, as a tar archive.
func (f Files) WriteTar(w io.Writer, at time.Time) error {
	files, err := f.WithDirs()
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, file := range files {
		h := &tar.Header{
			Name: file.Path, Mode: int64(mode(file.Mode)), ModTime: at.UTC().Truncate(time.Second),
			Uname: "root", Gname: "root", Format: tar.FormatGNU,
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(file.Body))
		if file.Mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
		if _, err := tw.Write(file.Body); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	return tw.Close()
}

// mode returns a file's mode in the form of tar.
func mode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// Gzip compresses a text. The result contains no file name and no time, so it depends
// only on the text.
func Gzip(text []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
