// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/kolo-nomad/kolo/release/layout"
	"github.com/kolo-nomad/kolo/release/tree"
)

// stage writes the files that archives and packages have and the repository does not, as
// .goreleaser.yaml expects them in a directory.
func stage(ctx context.Context, c checkout, s stamp, dir string) error {
	work, err := os.MkdirTemp("", "kolo-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	manuals, err := c.manuals(ctx, s, work)
	if err != nil {
		return err
	}
	texts := map[layout.Platform]string{}
	for _, p := range append(layout.Linux, layout.MacOS...) {
		if texts[p], err = c.licenses(ctx, p); err != nil {
			return err
		}
	}
	return writeStage(c, dir, manuals, texts)
}

// thirdParty returns the staged file of the licences of a platform.
func thirdParty(dir string, p layout.Platform) string {
	return filepath.Join(dir, "THIRD-PARTY_"+p.String()+".txt")
}

func writeStage(c checkout, dir string, manuals map[string][]byte, texts map[layout.Platform]string) error {
	license, err := os.ReadFile(filepath.Join(c.dir, "LICENSE"))
	if err != nil {
		return err
	}
	changes, err := os.ReadFile(filepath.Join(c.dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"copyright": append([]byte("Copyright (c) "+layout.Vendor+"\nSource: "+layout.Homepage+"\nLicense: "+layout.License+
			"\n\nThe licences of the modules that the program is linked from are in THIRD-PARTY.txt.gz.\n\n"), license...),
		"changelog": changes,
	}
	for name, page := range manuals {
		files["man/"+name+".1"] = page
	}
	for p, text := range texts {
		files[filepath.Base(thirdParty(dir, p))] = []byte(text)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "man"), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		packed, err := tree.Gzip(text)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".gz"), packed, 0o644); err != nil {
			return err
		}
	}
	// GoReleaser has no links in archives but those that it finds.
	for _, p := range layout.Programs() {
		if p.Alias == "" {
			continue
		}
		if err := os.Symlink(p.Name, filepath.Join(dir, p.Alias)); err != nil {
			return err
		}
	}
	return nil
}
