// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/nomad/jobspec2"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/config"
	"github.com/kolo-nomad/kolo/driver/framework/horovod/taskdriver"
	torchtask "github.com/kolo-nomad/kolo/driver/framework/torch/taskdriver"
	"github.com/kolo-nomad/kolo/driver/plugin"
	"github.com/kolo-nomad/kolo/driver/task/settings"
)

var hclBlock = regexp.MustCompile(`(?sm)^(job "[^"]*" \{$.*?^\})$`)

// The jobs in these pages can train. With Nomad's defaults they would have another type,
// too little memory and too little time to leave.
func TestDocumentedJobs(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte("import torch"), 0o600))
	for path, driver := range map[string]string{"README.md": "torch", "docs/tutorial.md": "torch", "docs/reference/jobspec.md": "horovod"} {
		text, err := os.ReadFile(filepath.Join("..", path))
		must.NoError(t, err)
		blocks := hclBlock.FindAllSubmatch(text, -1)
		must.SliceNotEmpty(t, blocks, must.Sprint(path))
		for _, b := range blocks {
			job, err := jobspec2.ParseWithConfig(&jobspec2.ParseConfig{Path: filepath.Join(dir, path), BaseDir: dir, AllowFS: true, Body: b[1], Strict: true})
			must.NoError(t, err)
			must.Eq(t, "batch", *job.Type)
			task := job.TaskGroups[0].Tasks[0]
			must.Eq(t, driver, task.Driver)
			must.Len(t, 1, task.Templates)
			must.Len(t, 1, task.Identities)
			must.NotNil(t, task.KillTimeout)
			must.Greater(t, 300, *task.Resources.MemoryMB)
		}
	}
}

var hclFence = regexp.MustCompile("(?sm)^ *```hcl\n(.*?)^ *```$")

// Every HCL block in the documentation is valid HCL.
func TestDocumentedHCL(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		must.NoError(t, err)
		paths = append(paths, found...)
	}
	blocks := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must.NoError(t, err)
		for _, b := range hclFence.FindAllSubmatch(text, -1) {
			blocks++
			_, diags := hclsyntax.ParseConfig(b[1], path, hcl.InitialPos)
			must.False(t, diags.HasErrors(), must.Sprintf("%s: %s\n%s", path, diags.Error(), b[1]))
		}
	}
	must.Greater(t, 10, blocks)
}

var koloBlock = regexp.MustCompile("(?s)```hcl\n(name .*?)```")

// The complete configuration in docs/reference/autoscaler.md is valid.
func TestDocumentedConfiguration(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/autoscaler.md")
	must.NoError(t, err)
	block := koloBlock.FindSubmatch(text)
	must.Len(t, 2, block)
	path := filepath.Join(t.TempDir(), "kolo.hcl")
	must.NoError(t, os.WriteFile(path, block[1], 0o600))
	c, err := config.Load(path)
	must.NoError(t, err)
	must.Eq(t, "kolo-1", c.Name)
}

// docs/reference/driver.md names every field of the task's and the plugin's config.
func TestDriverFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/driver.md")
	must.NoError(t, err)
	specs := map[string]*hclspec.Spec{}
	for _, framework := range []plugin.Framework{taskdriver.Horovod{}, torchtask.PyTorch{}} {
		driver := plugin.New(t.Context(), hclog.NewNullLogger(), framework)
		specs[framework.Name()+" task"], err = driver.TaskConfigSchema()
		must.NoError(t, err)
		specs["plugin"], err = driver.ConfigSchema()
		must.NoError(t, err)
	}
	for where, spec := range specs {
		fields := fieldsOf(spec)
		must.Greater(t, 5, len(fields), must.Sprint(where))
		for _, field := range fields {
			_, renamed := settings.Renamed[field] // refused, with the present name
			if !renamed && !strings.Contains(string(text), "`"+field+"`") {
				t.Errorf("docs/reference/driver.md does not name %s of the %s's config", field, where)
			}
		}
	}
}

// fieldsOf lists the attributes and blocks of an object, and those of blocks
// in it.
func fieldsOf(spec *hclspec.Spec) []string {
	var fields []string
	for name, field := range spec.GetObject().GetAttributes() {
		fields = append(fields, name)
		if block := field.GetBlockValue(); block != nil {
			fields = append(fields, fieldsOf(block.GetNested())...)
		}
	}
	return fields
}
