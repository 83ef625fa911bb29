// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build e2e

package security

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/e2e/cluster"
	"github.com/kolo-nomad/kolo/e2e/train"
)

//go:embed attacks/*.py
var attacks embed.FS

// systemPython runs attacks: it is in every isolated task's file system.
const systemPython = "/usr/bin/python3"

func root(t testing.TB) string {
	dir, err := filepath.Abs("../..")
	must.NoError(t, err)
	return dir
}

// world is a cluster of one client that two tenants share.
type world struct {
	*cluster.Cluster
	victim, attacker *tenant
}

// start starts the cluster with the driver as an operator installs it. The operator
// only adds the path of this Python.
func start(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("tasks are isolated only where the Nomad client runs as root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	venv, err := filepath.EvalSymlinks(filepath.Join(root(t), ".venv"))
	must.NoError(t, err)
	driver := filepath.Join(root(t), "bin", "nomad-driver-horovod")
	torch, torchConfig := train.Torch.Plugin(root(t))
	c, err := cluster.Start(ctx, cluster.Options{
		Nomad: cluster.Binary(root(t)), Clients: 1, ACL: true, Log: t.Logf,
		Plugins: map[string]string{
			driver: fmt.Sprintf("python = %q\nbind_paths = [%q]", filepath.Join(venv, "bin", "python"), filepath.Dir(venv)),
			torch:  fmt.Sprintf("%sbind_paths = [%q, %q]", torchConfig, filepath.Join(root(t), filepath.Dir(train.Torch.Python)), filepath.Join(root(t), "python")),
		},
	})
	must.NoError(t, err)
	c.StopAfter(t, filepath.Join(root(t), "e2e", ".work", "security-"+t.Name()))
	w := &world{Cluster: c}
	w.victim, w.attacker = w.tenant(t, "team-a"), w.tenant(t, "team-b")
	return w
}

// tenant is a team that may do everything in its own namespace and nothing else.
type tenant struct {
	w         *world
	api       *api.Client
	namespace string
	token     string
}

func (w *world) tenant(t *testing.T, name string) *tenant {
	t.Helper()
	_, err := w.API.Namespaces().Register(&api.Namespace{Name: name}, nil)
	must.NoError(t, err)
	_, err = w.API.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: fmt.Sprintf(`namespace %q { policy = "write" }`, name)}, nil)
	must.NoError(t, err)
	token, _, err := w.API.ACLTokens().Create(&api.ACLToken{Name: name, Type: "client", Policies: []string{name}}, nil)
	must.NoError(t, err)
	client, err := api.NewClient(&api.Config{Address: w.Address, SecretID: token.SecretID, Namespace: name})
	must.NoError(t, err)
	return &tenant{w: w, api: client, namespace: name, token: token.SecretID}
}

// attack is one job that runs a script of attacks/.
type attack struct {
	Script, User string
	Args         []string
	Env          map[string]string
	// Restarts lets Nomad start the task again after a failure.
	Restarts int
	// Python is systemPython when empty.
	Python string
	// Name is the job's, "attack-" and the script's when empty.
	Name string
}

var attackJob = template.Must(template.New("attack").Funcs(template.FuncMap{
	"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
}).Parse(`
job {{json .Name}} {
  type = "batch"
  group "g" {
    restart {
      attempts = {{.Restarts}}
      delay    = "1s"
      interval = "10m"
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    network {
      port "kolo" {}
    }
    shutdown_delay = "1ms"
    service {
      name     = {{json .Name}}
      port     = "kolo"
      provider = "nomad"
    }
    task "attack" {
      driver       = "horovod"
      kill_timeout = "5s"
      {{- if .User}}
      user = {{json .User}}
      {{- end}}
      config {
        command       = {{json .Python}}
        args          = {{json .Args}}
        service       = {{json .Name}}
        slot_restarts = 0
      }
      env {
        {{- range $k, $v := .Env}}
        {{$k}} = {{json $v}}
        {{- end}}
      }
      identity {
        env  = true
        file = true
      }
      {{- range .Files}}
      template {
        destination = "local/{{.Name}}"
        data        = <<-EOT
{{.Text}}
        EOT
      }
      {{- end}}
      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}`))

type file struct{ Name, Text string }

func script(t *testing.T, name string) file {
	t.Helper()
	text, err := attacks.ReadFile("attacks/" + name)
	must.NoError(t, err)
	return file{name, string(text)}
}

// run submits the attack; the tenant's jobs are purged at the end of the test.
func (tn *tenant) run(t *testing.T, a attack) string {
	t.Helper()
	if a.Name == "" {
		a.Name = "attack-" + strings.TrimSuffix(a.Script, ".py")
	}
	if a.Python == "" {
		a.Python = systemPython
	}
	a.Args = append([]string{"local/" + a.Script}, a.Args...)
	var text bytes.Buffer
	must.NoError(t, attackJob.Execute(&text, struct {
		attack
		Files []file
	}{a, []file{script(t, "findings.py"), script(t, a.Script)}}))
	tn.register(t, text.String(), nil)
	return a.Name
}

// register submits a job to the tenant's namespace.
func (tn *tenant) register(t *testing.T, hcl string, edit func(*api.Job)) {
	t.Helper()
	job, err := tn.api.Jobs().ParseHCL(hcl, true)
	must.NoError(t, err)
	job.Namespace = &tn.namespace
	if edit != nil {
		edit(job)
	}
	_, _, err = tn.api.Jobs().Register(job, nil)
	must.NoError(t, err)
	t.Cleanup(func() {
		_, _, err := tn.api.Jobs().Deregister(*job.ID, true, nil)
		must.NoError(t, err)
	})
}

// allocs returns a job's allocations, oldest first.
func (tn *tenant) allocs(ctx context.Context, job string) ([]*api.AllocationListStub, error) {
	allocs, _, err := tn.api.Jobs().Allocations(job, true, new(api.QueryOptions).WithContext(ctx))
	slices.SortFunc(allocs, func(a, b *api.AllocationListStub) int { return int(a.CreateIndex) - int(b.CreateIndex) })
	return allocs, err
}

// outcome is the result of an attack.
type outcome struct {
	Achieved, Refused map[string]string
	// Reported is whether the script came to its end.
	Reported bool
	Events   []string
	Alloc    *api.AllocationListStub
}

// outcome waits until an attack has reported, or its task has ended without.
func (tn *tenant) outcome(ctx context.Context, t *testing.T, job string) outcome {
	t.Helper()
	var out outcome
	must.NoError(t, cluster.Until(ctx, "the outcome of "+job, func(ctx context.Context) error {
		allocs, err := tn.allocs(ctx, job)
		if err != nil || len(allocs) == 0 {
			return fmt.Errorf("no allocation yet: %w", err)
		}
		out = outcome{Alloc: allocs[len(allocs)-1]}
		out.Events = cluster.Events(out.Alloc)
		log, err := tn.w.Logs(out.Alloc.ID, "attack", "stdout")
		if err != nil {
			return err
		}
		if _, line, found := strings.Cut(log, "findings: "); found && strings.Contains(line, "\n") {
			line, _, _ = strings.Cut(line, "\n")
			out.Reported = true
			return json.Unmarshal([]byte(line), &out)
		}
		if !terminal(out.Alloc) {
			return fmt.Errorf("it is %s, and has printed %q; %s", out.Alloc.ClientStatus, log, strings.Join(out.Events, " | "))
		}
		return nil
	}))
	for name, what := range out.Achieved {
		t.Logf("%s achieved: %s: %s", job, name, what)
	}
	for name, why := range out.Refused {
		t.Logf("%s was refused: %s: %s", job, name, why)
	}
	return out
}

// ended waits until the job's last allocation is over.
func (tn *tenant) ended(ctx context.Context, t *testing.T, job string) {
	t.Helper()
	must.NoError(t, cluster.Until(ctx, job+" to end", func(ctx context.Context) error {
		allocs, err := tn.allocs(ctx, job)
		if err != nil || len(allocs) == 0 {
			return fmt.Errorf("no allocation: %w", err)
		}
		if a := allocs[len(allocs)-1]; !terminal(a) {
			return fmt.Errorf("it is %s; %s", a.ClientStatus, strings.Join(cluster.Events(a), " | "))
		}
		return nil
	}))
}

func terminal(a *api.AllocationListStub) bool {
	return slices.Contains([]string{api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost}, a.ClientStatus)
}

// within returns a context with a generous bound for operations that may hang.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, fmt.Errorf("not within %s", d))
	t.Cleanup(cancel)
	return ctx
}

// write makes a file of root on the host, which the test removes again.
func write(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	must.NoError(t, os.WriteFile(path, []byte("not for tasks\n"), mode))
	t.Cleanup(func() { must.NoError(t, os.Remove(path)) })
	return path
}
