// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// reproducibleCheck builds programs twice and fails if any byte differs. The builds
// use two copies of the source at different paths. One uses Go's build cache and
// the other none, so that everything in the program is compiled again.
func reproducibleCheck(ctx context.Context, w io.Writer, args []string) error {
	flags := flag.NewFlagSet("reproducible", flag.ContinueOnError)
	dir := flags.String("C", ".", "`directory` of the module")
	build := flags.String("flags", "", "`flags` of go build, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "kolo-reproducible-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	r := rebuild{flags: strings.Fields(*build), programs: flags.Args(), again: filepath.Join(work, "cache")}
	return r.run(ctx, w, *dir, work)
}

// rebuild configures the two builds.
type rebuild struct {
	flags    []string
	programs []string // packages, relative to the module
	again    string   // build cache of the second build
}

func (r rebuild) run(ctx context.Context, w io.Writer, module, work string) error {
	trees := []string{filepath.Join(work, "a"), filepath.Join(work, "somewhere", "else")}
	for _, tree := range trees {
		if err := copyTree(ctx, module, tree); err != nil {
			return fmt.Errorf("copying %s: %w", module, err)
		}
	}
	var differ []string
	for _, program := range r.programs {
		first, err := r.build(ctx, trees[0], program)
		if err != nil {
			return err
		}
		second, err := r.build(ctx, trees[1], program, "GOCACHE="+r.again, "TMPDIR="+filepath.Dir(trees[1]), "TZ=Pacific/Kiritimati", "LC_ALL=C")
		if err != nil {
			return err
		}
		if first != second {
			differ = append(differ, program)
			_, _ = fmt.Fprintf(w, "%s  %s\n%s  %s, built again elsewhere\n", first, filepath.Base(program), second, filepath.Base(program))
			continue
		}
		_, _ = fmt.Fprintf(w, "%s  %s\n", first, filepath.Base(program))
	}
	if len(differ) > 0 {
		return fmt.Errorf("not the same when built twice: %s; compare go version -m of both, then the sections that objdump -h lists", strings.Join(differ, ", "))
	}
	return nil
}

// build builds one program in a copy of the source and returns its SHA-256.
func (r rebuild) build(ctx context.Context, tree, program string, env ...string) (string, error) {
	out := filepath.Join(tree, "program.out")
	cmd := command(ctx, tree, "go", append(append([]string{"build", "-o", out}, r.flags...), "./"+filepath.ToSlash(program))...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go build %s in %s: %w", program, tree, err)
	}
	f, err := os.Open(out)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
