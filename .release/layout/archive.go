// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package layout

import (
	"io/fs"

	"github.com/kolo-nomad/kolo/release/tree"
)

// completions of kolo, by the places that shells look in.
var completions = map[string]string{
	"share/bash-completion/completions/kolo":    "kolo.bash",
	"share/zsh/vendor-completions/_kolo":        "kolo.zsh",
	"share/fish/vendor_completions.d/kolo.fish": "kolo.fish",
}

// Archive is the tar archive for a platform: programs, manual pages, completions, the
// systemd unit, and jobs and configurations to start from.
func (r Release) Archive(p Platform) (name string, files tree.Files, err error) {
	for _, program := range Programs() {
		if !program.Builds(p) {
			continue
		}
		files.Add("bin/"+program.Name, 0o755, r.Binaries[program.Name][p])
		files.Add("share/man/man1/"+program.Name+".1", 0o644, r.Manuals[program.Name])
		if program.Alias != "" {
			files.AddLink("bin/"+program.Alias, program.Name)
			files.Add("share/man/man1/"+program.Alias+".1", 0o644, r.Manuals[program.Alias])
		}
	}
	for to, name := range completions {
		if err := addPackaging(&files, name, to); err != nil {
			return "", nil, err
		}
	}
	files.Add("THIRD-PARTY.txt", 0o644, []byte(r.Licenses[p]))
	if err := r.addRepository(&files, "", "LICENSE", "CHANGELOG.md"); err != nil {
		return "", nil, err
	}
	if p.OS == "linux" {
		for to, name := range map[string]string{
			"systemd/kolo.service": "kolo.service", "systemd/kolo.conf": "kolo.sysusers", "etc/kolo.hcl": "kolo.hcl", "etc/environment": "environment",
		} {
			if err := addPackaging(&files, name, to); err != nil {
				return "", nil, err
			}
		}
		jobs, err := fs.Glob(r.Repository, "jobspecs/*.hcl")
		if err != nil {
			return "", nil, err
		}
		agents, err := fs.Glob(r.Repository, "jobspecs/agent/*.hcl")
		if err != nil {
			return "", nil, err
		}
		if err := r.addRepository(&files, "jobspecs", jobs...); err != nil {
			return "", nil, err
		}
		if err := r.addRepository(&files, "jobspecs/agent", agents...); err != nil {
			return "", nil, err
		}
	}
	name = r.Name("kolo", p, "")
	return name + ".tar.gz", files.Below(name), nil
}
