// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package container

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/pack"
	"github.com/kolo-nomad/kolo/e2e/train"
)

// isolated is Nomad's exec driver, which needs no engine.
var isolated = engine{
	driver:  "exec",
	missing: func(string) string { return "" },
	options: func(string, *cluster.Options) {},
	start:   func(context.Context, *cluster.Node, string) error { return nil },
}

func TestPacksUnderExec(t *testing.T) {
	program := buildKolo(t)
	e := isolated
	e.clientHCL = fmt.Sprintf("chroot_env {\n %q = \"/usr/local/bin/kolo\"\n \"/etc/hosts\" = \"/etc/hosts\"\n}\n", program)
	ctx := testContext(t, 5*time.Minute)
	w := e.startCluster(ctx, t)
	s := testAutoscalerPack(ctx, t, w, program, pack.Vars{}, false, true)
	must.StrHasPrefix(t, "https://", s.env["KOLO_ADDR"])
	_, err := w.Register(ctx, scaled, nil)
	must.NoError(t, err)
	s.waitStatus(ctx, regexp.MustCompile(`(?m)^scaled +running +2 `))
}

// scaled is a job for the autoscaler that no driver of Kolo runs.
const scaled = `
job "scaled" {
  type = "batch"
  group "workers" {
    scaling {
      enabled = true
      min     = 1
      max     = 2
      policy {
        kolo {}
      }
    }
    task "sleep" {
      driver       = "raw_exec"
      kill_timeout = "1s"
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
      resources {
        cpu = 1000
      }
    }
  }
}`

func TestPacksUnderDocker(t *testing.T) { testPacks(t, docker, true) }

func TestPacksUnderPodman(t *testing.T) {
	if docker.missing("") == "" && os.Getenv("KOLO_E2E_ALL") == "" {
		t.Skip("the packs run under docker, which is here; KOLO_E2E_ALL=1 has them run under both")
	}
	testPacks(t, podman, false)
}

// testPacks runs both packs under an engine: the autoscaler, and training for it to scale.
func testPacks(t *testing.T, e engine, tls bool) {
	program := buildKolo(t)
	ctx := testContext(t, 6*time.Minute)
	w := e.startCluster(ctx, t)
	vars := pack.Vars{"driver": e.driver, "image": w.koloImage(t, program)}
	s := testAutoscalerPack(ctx, t, w, program, vars, tls)
	testTrainingPack(ctx, t, s)
}

// testAutoscalerPack follows packs/kolo/README.md, from nothing to kolo status: without
// TLS, with it, or one after the other.
func testAutoscalerPack(ctx context.Context, t *testing.T, w *world, program string, vars pack.Vars, tls ...bool) *shell {
	s := w.shell(t, program)
	t.Cleanup(func() {
		if t.Failed() {
			w.explain(context.WithoutCancel(ctx), t, "kolo", "agent")
		}
	})
	commands := s.commands("packs/kolo/README.md")
	must.Len(t, 3, commands, must.Sprint("rights, autoscaler, autoscaler with TLS"))
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	must.NoError(t, err)
	must.StrContains(t, string(readme), commands[1], must.Sprint("both READMEs have the same commands"))

	s.run(ctx, commands[0], nil)
	user := "65520" // a number of its own; exec knows users by name only
	if w.engine.driver == isolated.driver {
		user = "65534"
	}
	vars["pools"] = "pool \"default\" {\n  cpu_slot = 1000\n  policy \"kolo\" {}\n}"
	for _, vars["tls"] = range tls {
		follow := commands[1]
		if vars["tls"] == true {
			s.certificates()
			follow = commands[2]
		}
		must.RegexMatch(t, answer, s.run(ctx, follow, vars))
		mustRunAs(t, user)
	}
	return s
}

// answer is how kolo status begins: with the name of the autoscaler that was asked.
var answer = regexp.MustCompile(`(?m)^[0-9a-f]{8} `)

// testTrainingPack follows packs/kolo-train/README.md, as far as there is an image with
// PyTorch: the test's has it in volumes. The autoscaler gives the job what there is.
func testTrainingPack(ctx context.Context, t *testing.T, s *shell) {
	w := s.w
	tr := w.training(t, "train")
	t.Cleanup(tr.cleanUp)
	vars := pack.Vars{
		"image": w.image, "driver": w.engine.driver, "autoscaler": true, "max_workers": 2, "memory": 1024, "volumes": map[string]any{}, "read_only_volumes": map[string]any{}, "env": map[string]any{},
		"command": append([]any{"/usr/bin/python3", filepath.Join(root(t), train.Torch.Script)}, tr.arguments()...),
	}
	for name, v := range volumes(w.torch, root(t)) {
		switch {
		case name == "kolo": // is the pack's own
		case v.readOnly:
			vars["read_only_volumes"].(map[string]any)[v.mounted] = name
		default:
			vars["volumes"].(map[string]any)[v.mounted] = name
		}
	}
	for name, value := range train.Torch.Env(root(t)) {
		vars["env"].(map[string]any)[name] = value
	}
	w.allow(t, "train")
	s.run(ctx, "nomad-pack run packs/kolo-train", vars)
	tr.waitSize(ctx, 2)
	if s.env["KOLO_ADDR"] == "" {
		s.run(ctx, "export KOLO_ADDR=$(nomad service info -t '{{ (index . 0).Address }}:{{ (index . 0).Port }}' kolo)", nil)
	}
	s.waitStatus(ctx, regexp.MustCompile(`(?m)^train +running +2 `))
}

// buildKolo builds kolo as releases have it: static, for it is alone in its root.
func buildKolo(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kolo")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./autoscaler/cmd/kolo")
	build.Dir, build.Env = root(t), append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	return program
}

// koloImage returns the image of the autoscaler: that of bin/release, where there is one
// (make release), else one like it.
func (w *world) koloImage(t *testing.T, program string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root(t), "bin", "release", "kolo_*_oci.tar"))
	must.NoError(t, err)
	if len(found) > 0 {
		t.Logf("image: %s", found[0])
		return w.registry.layout(t, "autoscaler", found[0])
	}
	content, err := os.ReadFile(program)
	must.NoError(t, err)
	layer, err := archive(map[string]string{"usr/bin/kolo": string(content)})
	must.NoError(t, err)
	return w.registry.imageOf(t, "autoscaler", map[string]any{"User": "65532:65532", "Entrypoint": []string{"/usr/bin/kolo"}, "Cmd": []string{"agent"}}, layer)
}

// mustRunAs checks the user of the two autoscalers.
func mustRunAs(t *testing.T, uid string) {
	t.Helper()
	found := cluster.Processes(func(p cluster.Process) bool {
		return filepath.Base(p.Args[0]) == "kolo" && p.Env["NOMAD_JOB_ID"] == "kolo"
	})
	must.SliceNotEmpty(t, found)
	for _, p := range found {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		must.NoError(t, err)
		must.RegexMatch(t, regexp.MustCompile(`(?m)^Uid:(\s+`+uid+`){4}$`), string(status))
	}
}

// A shell is where a user types what a README says.
type shell struct {
	t   testing.TB
	w   *world
	dir string
	// pack is nomad-pack, empty where there is none.
	pack string
	// env is what earlier commands have exported.
	env map[string]string
}

// shell is in a directory with the project's packs and policies, and has nomad and kolo.
func (w *world) shell(t testing.TB, program string) *shell {
	t.Helper()
	s := &shell{t: t, w: w, dir: t.TempDir(), env: map[string]string{
		"NOMAD_ADDR": w.Address, "NOMAD_TOKEN": w.Token, "PATH": filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME": t.TempDir(), // nomad-pack keeps a cache
	}}
	nomad, err := filepath.Abs(cluster.Binary(root(t)))
	must.NoError(t, err)
	must.NoError(t, os.Symlink(nomad, filepath.Join(filepath.Dir(program), "nomad")))
	for _, name := range []string{"packs", "jobspecs"} {
		must.NoError(t, os.Symlink(filepath.Join(root(t), name), filepath.Join(s.dir, name)))
	}
	s.pack, err = pack.Program(root(t))
	if err != nil {
		t.Logf("%v: the packs are rendered by the test", err)
	}
	return s
}

// commands returns the blocks of commands of a document.
func (s *shell) commands(path string) []string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(root(s.t), path))
	must.NoError(s.t, err)
	var blocks []string
	fence := "" // with its language, which commands have none of
	for line := range strings.Lines(string(text)) {
		switch mark := strings.TrimSpace(line); {
		case fence == "" && strings.HasPrefix(mark, "```"):
			if fence = mark; fence == "```" {
				blocks = append(blocks, "")
			}
		case mark == "```":
			fence = ""
		case fence == "```":
			blocks[len(blocks)-1] += line
		}
	}
	return blocks
}

// run runs commands and returns what they print. Running a pack gets the variables in
// addition. What is exported stays so for the next commands.
func (s *shell) run(ctx context.Context, script string, vars pack.Vars) string {
	s.t.Helper()
	s.t.Logf("$ %s", strings.ReplaceAll(strings.TrimSpace(script), "\n", "\n$ "))
	out, err := s.try(ctx, script, vars)
	must.NoError(s.t, err)
	return out
}

// try is run without a record of it in the test's log.
func (s *shell) try(ctx context.Context, script string, vars pack.Vars) (string, error) {
	const command = "nomad-pack run packs/"
	at := strings.Index(script, command)
	if at >= 0 {
		line, rest, _ := strings.Cut(script[at:], "\n")
		script = script[:at] + s.packCommand(line, strings.Fields(line[len(command):])[0], vars) + "\n" + rest
	}
	exported := filepath.Join(s.dir, ".exported")
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script+"\nenv -0 >"+exported)
	cmd.Dir = s.dir
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	text, err := os.ReadFile(exported)
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(strings.TrimRight(string(text), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		s.env[name] = value
	}
	return string(out), nil
}

// packCommand returns a line that runs a pack with more variables, or does the same without
// nomad-pack.
func (s *shell) packCommand(line, name string, vars pack.Vars) string {
	s.t.Helper()
	if s.pack == "" {
		text, err := pack.Render(filepath.Join(root(s.t), "packs", name), vars)
		must.NoError(s.t, err)
		path := filepath.Join(s.dir, name+".nomad.hcl")
		must.NoError(s.t, os.WriteFile(path, []byte(text), 0o644))
		return "nomad job run " + path
	}
	words := []string{strings.Replace(line, "nomad-pack", s.pack, 1)}
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		arg, err := pack.Argument(key, vars[key])
		must.NoError(s.t, err)
		words = append(words, "'"+strings.ReplaceAll(arg, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// waitStatus waits until kolo status prints something.
func (s *shell) waitStatus(ctx context.Context, want *regexp.Regexp) {
	s.t.Helper()
	must.NoError(s.t, cluster.Until(ctx, "kolo status", func(ctx context.Context) error {
		out, err := s.try(ctx, "kolo status", nil)
		if err != nil || want.MatchString(out) {
			return err
		}
		return fmt.Errorf("there is no %s in %s", want, out)
	}))
}

// certificates makes an authority, and a certificate of the clients' addresses.
func (s *shell) certificates() {
	s.t.Helper()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		}
	}
	ca, leaf := template("test authority"), template("kolo")
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, n := range s.w.Nodes {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(n.IP))
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(s.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(s.t, err)
	caBytes, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	must.NoError(s.t, err)
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	must.NoError(s.t, err)
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	must.NoError(s.t, err)
	for name, block := range map[string]pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: caBytes}, "kolo.pem": {Type: "CERTIFICATE", Bytes: leafBytes}, "kolo-key.pem": {Type: "PRIVATE KEY", Bytes: keyBytes},
	} {
		must.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), pem.EncodeToMemory(&block), 0o600))
	}
}
