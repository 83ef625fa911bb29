// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/kolo-nomad/kolo/release/deb"
	"github.com/kolo-nomad/kolo/release/packaging"
	"github.com/kolo-nomad/kolo/release/rpm"
	"github.com/kolo-nomad/kolo/release/tree"
)

// Package is what a package for Debian or RPM consists of.
type Package struct {
	Name        string
	Summary     string
	Description string
	Program     string
	Examples    []string // of the repository
}

// PluginDir is where packages install the plugins of Nomad.
const PluginDir = "usr/lib/nomad/plugins"

// Packages of the release: each can be installed without the others.
func Packages() []Package {
	return []Package{
		{
			Name: "kolo", Program: "kolo", Summary: "autoscaler for elastic deep-learning training on Nomad",
			Description: "Kolo sets the counts of elastic training jobs by a scheduling policy, simulates\n" +
				"policies on traces, and answers who has what and why. This package has the\nautoscaler as a systemd service without root, and its command line.",
			Examples: []string{"jobspecs/kolo.nomad.hcl", "jobspecs/kolo.policy.hcl"},
		},
		{
			Name: "kolo-worker", Program: "kolo-worker", Summary: "elastic deep-learning training as the program of a Nomad task",
			Description: "One static program that starts and supervises the training processes of a task\nunder docker, podman, exec or raw_exec.",
			Examples:    []string{"jobspecs/container.nomad.hcl"},
		},
		{
			Name: "kolo-nomad-driver", Program: "nomad-driver-horovod", Summary: "Nomad task drivers for elastic PyTorch and Horovod",
			Description: "Task drivers \"torch\" and \"horovod\": jobs grow and shrink while they train. For\nNomad clients with plugin_dir = \"/" + PluginDir + "\".",
			Examples:    []string{"jobspecs/agent/client.hcl", "jobspecs/torch.nomad.hcl", "jobspecs/torchrun.nomad.hcl", "jobspecs/horovod.nomad.hcl"},
		},
		{
			Name: "kolo-nomad-device", Program: "nomad-device-nvtopo", Summary: "Nomad device plugin for NVIDIA GPUs and their topology",
			Description: "Reports NVIDIA GPUs to Nomad with NVLink islands, PCIe, NUMA and MIG. For Nomad\nclients with plugin_dir = \"/" + PluginDir + "\". Needs NVIDIA's driver to find any.",
			Examples:    []string{"jobspecs/agent/gpu-topology.hcl", "jobspecs/gpu-topology.nomad.hcl"},
		},
	}
}

func program(name string) Program {
	all := Programs()
	return all[slices.IndexFunc(all, func(p Program) bool { return p.Name == name })]
}

// files are what a package installs on a platform.
func (r Release) files(p Package, on Platform) (tree.Files, error) {
	var files tree.Files
	prog := program(p.Program)
	names := []string{prog.Name}
	if prog.Alias != "" {
		names = append(names, prog.Alias)
	}
	if prog.Cgo { // a plugin
		files.Add(path.Join(PluginDir, prog.Name), 0o755, r.Binaries[prog.Name][on])
		if prog.Alias != "" {
			files.AddLink(path.Join(PluginDir, prog.Alias), prog.Name)
		}
		for _, name := range names {
			files.AddLink("usr/bin/"+name, "../"+strings.TrimPrefix(PluginDir, "usr/")+"/"+name)
		}
	} else {
		files.Add("usr/bin/"+prog.Name, 0o755, r.Binaries[prog.Name][on])
	}
	for _, name := range names {
		page, err := tree.Gzip(r.Manuals[name])
		if err != nil {
			return nil, err
		}
		files.Add("usr/share/man/man1/"+name+".1.gz", 0o644, page)
	}
	if err := r.addDocs(&files, p, on); err != nil {
		return nil, err
	}
	if p.Name != "kolo" {
		return files, nil
	}
	return files, addService(&files)
}

// addDocs adds the licences, the changelog and the examples of a package.
func (r Release) addDocs(files *tree.Files, p Package, on Platform) error {
	doc := "usr/share/doc/" + p.Name
	license, err := fs.ReadFile(r.Repository, "LICENSE")
	if err != nil {
		return err
	}
	files.Add(doc+"/copyright", 0o644, slices.Concat([]byte("Copyright (c) "+Vendor+"\nSource: "+Homepage+"\nLicense: "+License+
		"\n\nThe licences of the modules that the program is linked from are in THIRD-PARTY.txt.gz.\n\n"), license))
	changes, err := fs.ReadFile(r.Repository, "CHANGELOG.md")
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"changelog.gz": changes, "THIRD-PARTY.txt.gz": []byte(r.Licenses[on])} {
		packed, err := tree.Gzip(text)
		if err != nil {
			return err
		}
		files.Add(path.Join(doc, name), 0o644, packed)
	}
	return r.addRepository(files, doc+"/examples", p.Examples...)
}

// addService adds what the autoscaler has as a service.
func addService(files *tree.Files) error {
	for name, to := range map[string]string{"kolo.service": "usr/lib/systemd/system/kolo.service", "kolo.sysusers": "usr/lib/sysusers.d/kolo.conf"} {
		if err := addPackaging(files, name, to); err != nil {
			return err
		}
	}
	for to, name := range completions {
		if err := addPackaging(files, name, "usr/"+to); err != nil {
			return err
		}
	}
	hcl, err := packaging.Files.ReadFile("kolo.hcl")
	if err != nil {
		return err
	}
	env, err := packaging.Files.ReadFile("environment")
	*files = append(*files, tree.File{Path: "etc/kolo/kolo.hcl", Mode: 0o644, Body: hcl, Config: true},
		tree.File{Path: "etc/kolo/environment", Mode: 0o600, Body: env, Config: true}) // has a token
	return err
}

// scripts are the maintainer scripts of a package, by their names in package packaging
// without the package's name.
func scripts(name string, kinds ...string) (map[string]string, error) {
	all := map[string]string{}
	if name != "kolo" {
		return all, nil
	}
	for _, kind := range kinds {
		text, err := packaging.Files.ReadFile(name + "." + kind)
		if err != nil {
			return nil, err
		}
		all[kind] = string(text)
	}
	return all, nil
}

// Deb is a package for Debian and Ubuntu.
func (r Release) Deb(p Package, on Platform) (deb.Package, error) {
	files, err := r.files(p, on)
	if err != nil {
		return deb.Package{}, err
	}
	scripts, err := scripts(p.Name, "postinst", "prerm", "postrm")
	if err != nil {
		return deb.Package{}, err
	}
	d := deb.Package{
		Name: p.Name, Version: r.Version.Package() + "-1", Arch: on.Arch, Section: "admin", Maintainer: Maintainer, Homepage: Homepage,
		Summary: p.Summary, Description: p.Description, Scripts: scripts, Files: files, At: r.At,
	}
	if glibc := r.Glibc[p.Program][on]; glibc != "" {
		d.Depends = append(d.Depends, "libc6 (>= "+glibc+")")
	}
	if len(scripts) > 0 {
		d.Depends = append(d.Depends, "passwd")
	}
	return d, nil
}

// RPM is a package for Fedora, RHEL and SUSE.
func (r Release) RPM(p Package, on Platform) (rpm.Package, error) {
	files, err := r.files(p, on)
	if err != nil {
		return rpm.Package{}, err
	}
	scripts, err := scripts(p.Name, "post.rpm", "preun.rpm", "postun.rpm")
	if err != nil {
		return rpm.Package{}, err
	}
	pkg := rpm.Package{
		Name: p.Name, Version: r.Version.Package(), Release: "1", Arch: map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[on.Arch],
		License: License, Vendor: Vendor, URL: Homepage, Summary: p.Summary, Description: p.Description,
		Scripts: rpm.Scripts{PostInstall: scripts["post.rpm"], PreRemove: scripts["preun.rpm"], PostRemove: scripts["postun.rpm"]},
		Files:   files, At: r.At,
	}
	if glibc := r.Glibc[p.Program][on]; glibc != "" {
		pkg.Requires = append(pkg.Requires, "glibc >= "+glibc)
	}
	return pkg, nil
}
