// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// installPlugins copies the binaries to the clients' plugin_dir and returns their
// configurations by file name. It copies them so that a test that kills "the
// plugin" does not hit another cluster's.
func (c *Cluster) installPlugins(plugins map[string]string) (map[string]string, error) {
	dir := filepath.Join(c.Dir, "plugins")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	configs := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(plugins)) {
		name := filepath.Base(path)
		if name == path { // a driver that is part of Nomad
			configs[name] = plugins[path]
			continue
		}
		if err := copyFile(path, filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("plugin: %w", err)
		}
		configs[name] = plugins[path]
	}
	return configs, nil
}

func copyFile(from, to string) error {
	// Check the type before opening: opening a pipe without a writer, as Nomad's
	// log collectors leave them, would block.
	st, err := os.Stat(from)
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, st.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
