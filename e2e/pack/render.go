// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package pack

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Vars are values of a pack's variables: texts, numbers, booleans, and lists and maps of
// texts.
type Vars map[string]any

// Render returns the job of the pack in a directory.
func Render(dir string, vars Vars) (string, error) {
	return execute(dir, filepath.Join("templates", filepath.Base(dir)+".nomad.tpl"), vars)
}

// Output returns the text that nomad-pack run prints at the end for the pack in a
// directory.
func Output(dir string, vars Vars) (string, error) {
	return execute(dir, "outputs.tpl", vars)
}

// execute renders a template of a pack with the values of its variables.
func execute(dir, name string, vars Vars) (string, error) {
	values, err := variables(filepath.Join(dir, "variables.hcl"))
	if err != nil {
		return "", err
	}
	for name, value := range vars {
		if _, declared := values[name]; !declared {
			return "", fmt.Errorf("%s: no variable %q", dir, name)
		}
		values[name] = value
	}
	for name, value := range values {
		if value == nil {
			return "", fmt.Errorf("%s: variable %q is required", dir, name)
		}
	}
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	functions := sprig.TxtFuncMap()
	maps.Copy(functions, template.FuncMap{"var": func(name string, from map[string]any) (any, error) {
		value, declared := from[name]
		if !declared {
			return nil, fmt.Errorf("no variable %q", name)
		}
		return value, nil
	}})
	t, err := template.New(path).Delims("[[", "]]").Funcs(functions).Parse(string(text))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&out, values); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Program returns the path of nomad-pack, in bin/tools below the project's root (make
// nomad-pack) or on the PATH.
func Program(root string) (string, error) {
	path := filepath.Join(root, "bin", "tools", "nomad-pack")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("nomad-pack")
	if err != nil {
		return "", fmt.Errorf("needs nomad-pack: make nomad-pack: %w", err)
	}
	return path, nil
}

// Argument returns the argument of nomad-pack that sets a variable. It has two hyphens,
// because nomad-pack accepts no others after a pack's name.
func Argument(name string, value any) (string, error) {
	text, isText := value.(string)
	if !isText {
		form, err := json.Marshal(value)
		if err != nil {
			return "", fmt.Errorf("variable %q: %w", name, err)
		}
		text = string(form)
	}
	return "--var=" + name + "=" + text, nil
}

// declared holds the variables of a pack.
type declared struct {
	Variables []struct {
		Name        string         `hcl:"name,label"`
		Description string         `hcl:"description"`
		Type        hcl.Expression `hcl:"type"`
		Default     cty.Value      `hcl:"default,optional"`
	} `hcl:"variable,block"`
}

// variables returns the defaults of the variables that a file declares, nil for those
// without one.
func variables(path string) (map[string]any, error) {
	file, diags := hclparse.NewParser().ParseHCLFile(path)
	if diags.HasErrors() {
		return nil, diags
	}
	var all declared
	if diags := gohcl.DecodeBody(file.Body, nil, &all); diags.HasErrors() {
		return nil, diags
	}
	values := map[string]any{}
	for _, v := range all.Variables {
		values[v.Name] = nil
		if v.Default == cty.NilVal || v.Default.IsNull() {
			continue
		}
		text, err := ctyjson.Marshal(v.Default, v.Default.Type())
		if err != nil {
			return nil, fmt.Errorf("%s: variable %q: %w", path, v.Name, err)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, fmt.Errorf("%s: variable %q: %w", path, v.Name, err)
		}
		values[v.Name] = value
	}
	return values, nil
}
