// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e || gpu

package device

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
)

// pluginName is the binary's name.
const pluginName = "nomad-device-nvtopo"

// binary is the plugin: the one next to the test binary, as in the kit for
// machines without Go, else one that is built here.
var binary = sync.OnceValues(func() (string, error) {
	if path, err := sibling(pluginName); err == nil {
		return path, nil
	}
	path := filepath.Join(buildDir, pluginName)
	out, err := exec.Command("go", "build", "-o", path, "../../device/cmd/"+pluginName).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// buildDir is where binary builds.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "kolo-device-e2e-"); err != nil {
		log.Fatal(err)
	}
	m.Run()
	_ = os.RemoveAll(buildDir)
}

// sibling finds a file in the test binary's directory.
func sibling(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	_, err = os.Stat(path)
	return path, err
}

// nomadPath returns the Nomad next to the test binary, else the one of make nomad. Where
// there is none, the test is skipped.
func nomadPath(t *testing.T) string {
	t.Helper()
	path, err := sibling("nomad")
	if _, kit := sibling(pluginName); err != nil && kit != nil {
		var root string
		root, err = filepath.Abs("../..")
		must.NoError(t, err)
		path = cluster.Binary(root)
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skip("there is no bin/nomad; make nomad builds it")
	}
	return path
}

// horovod finds the task driver and a Python with Horovod, if they are there.
func horovod(t *testing.T) (driver, python string, ok bool) {
	t.Helper()
	root, err := filepath.Abs("../..")
	must.NoError(t, err)
	driver = filepath.Join(root, "bin", "nomad-driver-horovod")
	python = filepath.Join(root, ".venv", "bin", "python")
	_, errD := os.Stat(driver)
	_, errP := os.Stat(python)
	return driver, python, errD == nil && errP == nil
}
