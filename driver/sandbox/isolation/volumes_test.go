// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

const (
	testAllocDir = "/data/alloc/a1"
	testTaskDir  = testAllocDir + "/train"
)

func TestVolumesDoNotCoverWhatRuns(t *testing.T) {
	const system, own = "covers the system's own files", "covers the task's directory"
	cases := map[string]struct {
		path, says string
	}{
		"elsewhere":             {"/volumes/data", ""},
		"relative":              {"local/data", ""},
		"in /etc":               {"/etc/app", ""},
		"in /usr":               {"/usr/local/share/data", ""},
		"in /dev":               {"/dev/hugepages", ""},
		"the root":              {"/", system},
		"the host's programs":   {"/usr", system},
		"libraries":             {"lib64", system},
		"a library":             {"/usr/lib/x86_64-linux-gnu/libc.so.6", system},
		"the driver":            {"/.kolo", system},
		"the loader's settings": {"/etc/ld.so.preload", system},
		"all of /etc":           {"/etc", system},
		"a process":             {"/proc/self", system},
		"a device":              {"/dev/nvidia0", system},
		"in huge pages":         {"/dev/hugepages/x", system},
		"devices":               {"/x/../dev", system},
		"the client's data":     {"/data", own},
		"secrets":               {"/secrets", own},
		"shared":                {"/alloc/data", "other tasks of the group can move"},
		"shared, on the host":   {testAllocDir + "/alloc/x", "other tasks of the group can move"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := Layout{TaskDir: testTaskDir, AllocDir: testAllocDir, Volumes: []*drivers.MountConfig{{TaskPath: c.path, HostPath: "/srv/v"}}}
			p := l.CheckVolumes()
			if c.says == "" {
				must.SliceEmpty(t, p)
				return
			}
			must.Len(t, 1, p)
			must.ErrorContains(t, p[0], c.says)
		})
	}
}

// TestVolumesDoNotNest has a volume that would be mounted in another one, where a
// link may lead to code that runs before privileges are dropped.
func TestVolumesDoNotNest(t *testing.T) {
	cases := map[string]struct {
		path   string
		nested bool
	}{
		"in a volume":           {"/outer/x", true},
		"in a volume, relative": {"outer/y/../x", true},
		"in a volume of local":  {"local/outer/x", true},
		"by its other name":     {testTaskDir + "/local/outer/x", true},
		"next to a volume":      {"/outer2", false},
		"in place of a volume":  {"/outer", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := Layout{TaskDir: testTaskDir, AllocDir: testAllocDir, Volumes: []*drivers.MountConfig{
				{TaskPath: c.path, HostPath: "/srv/v"}, {TaskPath: "/outer"}, {TaskPath: "/local/outer"},
			}}
			p := l.CheckVolumes()
			if !c.nested {
				must.SliceEmpty(t, p)
				return
			}
			must.Len(t, 1, p)
			must.ErrorContains(t, p[0], "lies in another volume")
		})
	}
}

func TestVolumesLieBehindNoLink(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "local"), 0o755))
	must.NoError(t, os.Symlink("/etc", filepath.Join(dir, "local/link")))
	for path, refused := range map[string]bool{"/local/link/x": true, "local/link": true, "/local/data": false} {
		p := Layout{TaskDir: dir, AllocDir: testAllocDir, Volumes: []*drivers.MountConfig{{TaskPath: path, HostPath: "/srv/v"}}}.CheckVolumes()
		if !refused {
			must.SliceEmpty(t, p)
			continue
		}
		must.Len(t, 1, p, must.Sprint(path))
		must.ErrorContains(t, p[0], "the task has made a link")
	}
}

func TestThroughLink(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "local/data"), 0o755))
	must.NoError(t, os.Symlink("../..", filepath.Join(dir, "local/link")))
	for path, want := range map[string]bool{
		"": false, "local/data": false, "local/data/missing/x": false, "local/link": true, "local/link/x/y": true,
	} {
		if path != "" {
			must.Eq(t, want, throughLink(dir, filepath.Join(dir, path)), must.Sprint(path))
		}
	}
	must.False(t, throughLink(dir, ""), must.Sprint("not in the task's directory"))
}
