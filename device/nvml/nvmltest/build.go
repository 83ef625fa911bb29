// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvmltest

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed c/*.c c/*.h
var source embed.FS

//go:embed machines/*.machine
var machines embed.FS

// ErrNoCompiler means that there is no cc to build the library with.
var ErrNoCompiler = errors.New("no cc on PATH to build the NVML stub with")

// LibraryName is the name by which programs load NVML.
const LibraryName = "libnvidia-ml.so.1"

// Build compiles the stub library and returns its path. It reuses a library that
// was built before from the same source with the same flags. The flags are passed
// to the compiler; -DOLD_DRIVER omits functions that drivers before 2023 do not
// have, -DNO_FABRIC_HEALTH omits a function that came with driver 550.
func Build(flags ...string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", ErrNoCompiler
	}
	sum := sha256.New()
	sum.Write([]byte(strings.Join(flags, " ")))
	sources := map[string][]byte{}
	files, err := source.ReadDir("c")
	if err != nil {
		return "", fmt.Errorf("building the NVML stub: %w", err)
	}
	for _, f := range files {
		text, err := source.ReadFile("c/" + f.Name())
		if err != nil {
			return "", fmt.Errorf("building the NVML stub: %w", err)
		}
		sources[f.Name()] = text
		sum.Write(text)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("kolo-nvmltest-%d-%x", os.Getuid(), sum.Sum(nil)[:8]))
	lib := filepath.Join(dir, LibraryName)
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("building the NVML stub: %w", err)
	}
	return lib, compile(cc, dir, lib, sources, flags)
}

// compile replaces the library atomically, because other tests may be building the
// same one.
func compile(cc, dir, lib string, sources map[string][]byte, flags []string) error {
	src, err := os.MkdirTemp(dir, "src")
	if err != nil {
		return fmt.Errorf("building the NVML stub: %w", err)
	}
	defer os.RemoveAll(src) //nolint:errcheck // at worst it leaves a temporary file
	args := []string{
		"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-pthread",
		"-Wl,-soname," + LibraryName, "-o", LibraryName,
	}
	args = append(args, flags...)
	for name, text := range sources {
		if filepath.Ext(name) == ".c" {
			args = append(args, name)
		}
		if err := os.WriteFile(filepath.Join(src, name), text, 0o600); err != nil {
			return fmt.Errorf("building the NVML stub: %w", err)
		}
	}
	cmd := exec.Command(cc, args...) //nolint:noctx // a compiler ends by itself
	cmd.Dir = src
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the NVML stub: %w\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(src, LibraryName), lib); err != nil {
		return fmt.Errorf("building the NVML stub: %w", err)
	}
	return nil
}
