// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"fmt"
	"text/template"
)

// agentConfig holds the values for an agent's configuration file.
type agentConfig struct {
	Name      string
	Dir       string
	IP        string
	Interface string
	ServerIP  string
	HTTP, RPC int
	Serf      int
	ServerRPC int
	ACL       bool
	PluginDir string
	Plugins   map[string]string
	Drivers   []string
	ClientHCL string
	CPU       int
	MemoryMB  int
	GraceS    int
}

var commonTemplate = `
name       = "{{.Name}}"
data_dir   = "{{.Dir}}/data"
bind_addr  = "{{.IP}}"
log_level  = "DEBUG"
disable_update_check = true
leave_on_interrupt   = false
leave_on_terminate   = false

# Nomad does not take loopback addresses by itself.
advertise {
  http = "{{.IP}}"
  rpc  = "{{.IP}}"
  serf = "{{.IP}}"
}

ports {
  http = {{.HTTP}}
  rpc  = {{.RPC}}
  serf = {{.Serf}}
}

acl {
  enabled = {{.ACL}}
}
`

var serverTemplate = template.Must(template.New("server").Parse(commonTemplate + `
server {
  enabled          = true
  bootstrap_expect = 1
  raft_multiplier  = 1

  # A lost node is noticed in seconds rather than in half a minute.
  heartbeat_grace   = "{{.GraceS}}s"
  min_heartbeat_ttl = "5s"
}
`))

var clientTemplate = template.Must(template.New("client").Parse(commonTemplate + `
plugin_dir = "{{.PluginDir}}"

client {
  enabled           = true
  servers           = ["{{.ServerIP}}:{{.ServerRPC}}"]
  network_interface = "{{.Interface}}"
  alloc_dir         = "{{.Dir}}/alloc"
  cpu_total_compute = {{.CPU}}
  memory_total_mb   = {{.MemoryMB}}
  max_kill_timeout  = "5m"

  # Tests read ended allocations: a disk that is nearly full must not have them
  # collected.
  gc_interval              = "1h"
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
  gc_max_allocs            = 10000

  options {
    # These ask addresses that a test machine does not have.
    "fingerprint.denylist" = "env_aws,env_gce,env_azure,env_digitalocean"
    "driver.allowlist"     = "horovod,torch,raw_exec,exec{{range .Drivers}},{{.}}{{end}}"
  }
{{.ClientHCL}}
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}
{{range $name, $config := .Plugins}}
plugin "{{$name}}" {
  config {
{{$config}}
  }
}
{{end}}`))

func (c agentConfig) render(t *template.Template) ([]byte, error) {
	var buf bytes.Buffer
	if err := t.Execute(&buf, c); err != nil {
		return nil, fmt.Errorf("agent configuration of %s: %w", c.Name, err)
	}
	return buf.Bytes(), nil
}
