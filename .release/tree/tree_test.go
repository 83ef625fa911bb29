// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package tree_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/release/tree"
)

var at = time.Date(2026, 11, 20, 10, 0, 0, 123, time.FixedZone("", 3600))

func example() tree.Files {
	var files tree.Files
	files.Add("usr/bin/kolo", 0o755, []byte("program"))
	files.Add("etc/kolo/environment", 0o600, []byte("NOMAD_ADDR="))
	files = append(files, tree.File{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777})
	return files
}

func written(t *testing.T, files tree.Files, at time.Time) []byte {
	t.Helper()
	var out bytes.Buffer
	must.NoError(t, files.WriteTar(&out, at))
	return out.Bytes()
}

func TestWriteTar(t *testing.T) {
	r := tar.NewReader(bytes.NewReader(written(t, example(), at)))
	var names []string
	modes := map[string]int64{}
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must.NoError(t, err)
		must.Eq(t, "root root 0 0", h.Uname+" "+h.Gname+" 0 0")
		must.Eq(t, at.Unix(), h.ModTime.Unix())
		names, modes[h.Name] = append(names, h.Name), h.Mode
	}
	must.Eq(t, []string{"etc/", "etc/kolo/", "etc/kolo/environment", "tmp/", "usr/", "usr/bin/", "usr/bin/kolo"}, names)
	must.Eq(t, 0o600, modes["etc/kolo/environment"])
	must.Eq(t, 0o1777, modes["tmp/"])
}

// The order in which files were added, and the time zone, make no difference.
func TestWriteTar_SameBytes(t *testing.T) {
	files := example()
	first := written(t, files, at)
	slices.Reverse(files)
	must.True(t, bytes.Equal(first, written(t, files, at.UTC())))
}

func TestGzip(t *testing.T) {
	packed, err := tree.Gzip([]byte("text"))
	must.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must.NoError(t, err)
	must.Eq(t, "", z.Name)
	must.True(t, z.ModTime.IsZero())
	text, err := io.ReadAll(z)
	must.NoError(t, err)
	must.Eq(t, "text", string(text))
}

func TestWithDirs_Refuses(t *testing.T) {
	for _, path := range []string{"/usr/bin/kolo", "usr//bin", "../up", "usr/./bin", ""} {
		_, err := tree.Files{{Path: path}}.WithDirs()
		must.ErrorContains(t, err, "is no clean relative path")
	}
	_, err := tree.Files{{Path: "a"}, {Path: "a"}}.WithDirs()
	must.ErrorContains(t, err, "a is listed twice")
}
