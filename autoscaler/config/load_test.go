// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/autoscaler/plan/planner"
	"github.com/kolo-nomad/kolo/autoscaler/policy/builtin"
)

func parse(src string) (*Config, error) {
	return Parse(map[string][]byte{"kolo.hcl": []byte(src)})
}

func TestParse_Everything(t *testing.T) {
	c, err := parse(`
name       = "kolo-1"
log_level  = "debug"
log_json   = true
policy_dir = "/etc/kolo/policies"

nomad {
  address           = "https://nomad.example:4646"
  namespace         = "ml"
  region            = "eu"
  token             = "secret"
  tls_server_name   = "server.eu.nomad"
  skip_verify       = true
  timeout           = "5s"
  writes_per_second = 20
  resync            = "30s"
}
http {
  bind  = "0.0.0.0"
  port  = 9000
  debug = true
  open  = false

  advertise = "http://10.0.0.1:9000/"
}
leader {
  namespace = "ml"
  path      = "kolo/other"
  ttl       = "20s"
  delay     = "5s"
}
planner {
  hold              = "1m"
  placement_timeout = "45s"
  placement_retry   = "5m"
  gc_protection     = "30m"
  max_writes        = 10
  debounce          = "1s"
  manual_hold       = "10m"
  resize_cost       = "2s"
  progress          = "0s"
  tick              = "1m"
}
telemetry {
  per_job = false
}
pool "default" {
  device = "nvidia/gpu"
  policy "elastic-fifo" {}
}
pool "cpu" {
  cpu_slot = 1000
  pack     = "node"
}
`)
	must.NoError(t, err)
	must.Eq(t, "kolo-1", c.Name)
	must.Eq(t, Nomad{
		Address: "https://nomad.example:4646", Namespace: "ml", Region: "eu", Token: "secret", TLSServerName: "server.eu.nomad",
		SkipVerify: true, Timeout: 5 * time.Second, WritesPerSecond: 20, Resync: 30 * time.Second,
	}, c.Nomad)
	must.Eq(t, 9000, c.HTTP.Port)
	must.Eq(t, "http://10.0.0.1:9000", c.HTTP.Advertise)
	must.False(t, c.HTTP.Open)
	must.False(t, c.HTTP.Loopback())
	must.Eq(t, Leader{"ml", "kolo/other", 20 * time.Second, 5 * time.Second}, c.Leader)
	must.Eq(t, time.Minute, c.Planner.Hold)
	must.Eq(t, 10, c.Planner.MaxWrites)
	must.Eq(t, 0, c.Planner.Progress)
	must.False(t, c.Telemetry.PerJob)
	must.Eq(t, "elastic-fifo", c.Pool("default").Policy)
	must.Eq(t, 1000, c.Pool("cpu").CPUSlot)
	must.Eq(t, "", c.Pool("cpu").Device)
	must.Eq(t, PackNode, c.Pool("cpu").Pack)
	must.Eq(t, "none", c.Pool("default").Pack)
	must.Eq(t, "gpu", c.Pool("elsewhere").Device)
	must.Eq(t, "elsewhere", c.Pool("elsewhere").Name)
}

func TestLoad_Default(t *testing.T) {
	c, err := Load("")
	must.NoError(t, err)
	must.True(t, c.HTTP.Loopback())
	empty, err := parse("")
	must.NoError(t, err)
	must.Eq(t, c, empty)
}

// A file without any setting is taken for one that is still being written, or was
// truncated.
func TestLoad_Empty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kolo.hcl")
	for text, empty := range map[string]bool{"": true, " \n\t": true, "# the defaults\n": false} {
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Load(path)
		must.Eq(t, empty, err != nil)
		if empty {
			must.ErrorContains(t, err, path+" is empty; write a comment into it to use the defaults on purpose")
		}
	}
}

func TestLoad_Directory(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(dir)
	must.ErrorContains(t, err, "no *.hcl file in "+dir)
	write := func(name, src string) { must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600)) }
	write("a.hcl", `http { port = 1 }`)
	write("b.hcl", `leader { path = "x" }`)
	write("ignored.txt", `{{{`)
	c, err := Load(dir)
	must.NoError(t, err)
	must.Eq(t, 1, c.HTTP.Port)
	must.Eq(t, "x", c.Leader.Path)
	write("b.hcl", "")
	_, err = Load(dir)
	must.ErrorContains(t, err, filepath.Join(dir, "b.hcl")+" is empty")
	write("b.hcl", `leader { path = "x" }`)
	write("c.hcl", `http { port = 2 }`)
	_, err = Load(dir)
	must.ErrorContains(t, err, "c.hcl:1: Repeated block: http was already written at "+filepath.Join(dir, "a.hcl")+":1")
	_, err = Load(filepath.Join(dir, "absent"))
	must.ErrorContains(t, err, "no such file")
}

// TestParse_Mistakes has one mistake per line, with its position and the words that help.
func TestParse_Mistakes(t *testing.T) {
	for name, tc := range map[string]struct{ src, want string }{
		"not HCL":                 {"http {", "kolo.hcl:1: Unclosed configuration block"},
		"unknown top argument":    {"\nverbose = true", "kolo.hcl:2: Unsupported argument: An argument named \"verbose\" is not expected here. The arguments here are log_json, log_level, name, policy_dir."},
		"misspelt block":          {"htpp {}", `kolo.hcl:1: Unsupported block type: Blocks of type "htpp" are not expected here. Did you mean "http"?`},
		"outside of its pool":     {"topology {}", `kolo.hcl:1: Unsupported block type: Blocks of type "topology" are not expected here. Write it inside of pool "<node pool>" { … }.`},
		"misspelt argument":       {"http {\n prot = 80 \n}", `kolo.hcl:2: Unsupported argument: An argument named "prot" is not expected here. Did you mean "port"?`},
		"block without label":     {"pool {}", "kolo.hcl:1: Missing node pool for pool"},
		"too many labels":         {`http "x" {}`, "kolo.hcl:1: Extraneous label for http"},
		"argument as block":       {"name {}", "kolo.hcl:1: Unsupported block type"},
		"block as argument":       {"http = 1", "kolo.hcl:1: Unsupported argument"},
		"port as text":            {`http { port = "80" }`, "kolo.hcl:1: Wrong value for port: A number is expected; write port = 80"},
		"port too large":          {`http { port = 70000 }`, "70000 is not a whole number from 0 to 65535"},
		"port in half":            {`http { port = 80.5 }`, "80.5 is not a whole number"},
		"a number with its unit":  {"pool \"default\" {\n  cpu_slot = \"1000MHz\"\n}", "kolo.hcl:2: Wrong value for cpu_slot: A number is expected; write cpu_slot = 1000"},
		"a unit is missing":       {"pool \"default\" {\n  idle_after = 30\n}", `kolo.hcl:2: Wrong value for idle_after: A string is expected; write idle_after = "1m"`},
		"half-life as number":     {"pool \"default\" {\n  half_life = 24\n}", `kolo.hcl:2: Wrong value for half_life: A string is expected; write half_life = "168h"`},
		"port null":               {`http { port = null }`, "A number is expected"},
		"bind with port":          {`http { bind = "127.0.0.1:80" }`, "without a port"},
		"bind a name":             {`http { bind = "example.org" }`, "is not an IP address"},
		"advertise no URL":        {`http { advertise = "10.0.0.1:8648" }`, `kolo.hcl:1: Wrong value for advertise: "10.0.0.1:8648" is not the URL of an API; write one such as "http://10.0.0.1:8648"`},
		"advertise a page":        {`http { advertise = "http://kolo.example/page" }`, "is not the URL of an API"},
		"debug as text":           {`http { debug = "yes" }`, "A bool is expected; write debug = true"},
		"empty text":              {`nomad { address = "" }`, "It is empty; write a value, or leave the line out"},
		"absent certificate":      {`nomad { ca_cert = "/nowhere/ca.pem" }`, "no such file or directory; write the path of a file that is there"},
		"timeout without unit":    {`nomad { timeout = "10" }`, `write a number with its unit, such as "500ms"`},
		"timeout as number":       {`nomad { timeout = 10 }`, `A string is expected; write timeout = "30s"`},
		"timeout too short":       {`nomad { timeout = "1ms" }`, "1ms is outside 1s to 10m"},
		"ttl too short for Nomad": {`leader { ttl = "5s" }`, "5s is outside 10s to 24h"},
		"delay too long":          {`leader { delay = "48h" }`, "48h0m0s is outside 1s to 24h"},
		"no writes":               {`nomad { writes_per_second = 0 }`, "0 is not a whole number from 1 to 10000"},
		"negative hold":           {`planner { hold = "-1s" }`, "-1s is outside 0s to 24h"},
		"protection too long":     {`planner { gc_protection = "5h" }`, "5h0m0s is outside 1m to 3h"},
		"a former name":           {"planner {\n hold = \"1s\"\n hand_hold = \"1m\"\n}", "kolo.hcl:3: Renamed argument: hand_hold was renamed to manual_hold; write manual_hold = …."},
		"another former name":     {`planner { batch = "1s" }`, "batch was renamed to debounce"},
		"a third former name":     {`planner { keep_alive = "1h" }`, "keep_alive was renamed to gc_protection"},
		"log level":               {`log_level = "loud"`, `"loud" is not known; write one of trace, debug, info, warn, error`},
		"variable":                {`name = hostname`, "kolo.hcl:1: Variables not allowed"},
		"two http blocks":         {"http {}\nhttp {}", "kolo.hcl:2: Repeated block: http was already written at kolo.hcl:1"},
		"two pools of one name":   {"pool \"a\" {}\npool \"a\" {}", `kolo.hcl:2: Repeated block: pool "a" was already written at kolo.hcl:1`},
		"two policies":            {"pool \"a\" {\n policy \"fifo\" {}\n policy \"fifo\" {}\n}", "kolo.hcl:3: Repeated block: A pool has one policy"},
		"unknown policy":          {"pool \"a\" {\n policy \"best\" {}\n}", `kolo.hcl:2: Unknown policy: There is no policy "best"; write one of`},
		"unknown policy option":   {"pool \"a\" {\n policy \"fifo\" {\n  speed = 1\n }\n}", "kolo.hcl:3: "},
		"own policy with options": {"policy_dir = \"/p\"\npool \"a\" {\n policy \"mine\" {\n  x = 1\n }\n}", "kolo.hcl:3: Options for an external policy"},
		"pool all":                {`pool "all" {}`, `write pool "*"`},
		"pack what":               {"pool \"a\" {\n\n pack = \"rack\"\n}", `kolo.hcl:3: Wrong value for pack: "rack" is not known; write one of none, node`},
		"adapt batch as text":     {"pool \"a\" {\n adapt_batch = \"no\"\n}", "kolo.hcl:2: Wrong value for adapt_batch: A bool is expected; write adapt_batch = true"},
		"idle action alone":       {"pool \"a\" {\n idle_action = \"shrink\"\n}", "kolo.hcl:2: Missing argument: No job of this pool is ever idle; write idle_after = \"30m\", or remove idle_action."},
		"unknown idle action":     {"pool \"a\" {\n idle_after = \"30m\"\n idle_action = \"kill\"\n}", "kolo.hcl:3: Wrong value for idle_action"},
		"short idle time":         {"pool \"a\" {\n idle_after = \"5s\"\n}", "kolo.hcl:2: Wrong value for idle_after: 5s is outside 1m to 168h."},
		"two kinds of spares":     {"pool \"a\" {\n spares { slots = 1 }\n spares { slots = 1 }\n}", "kolo.hcl:3: Repeated block: A pool has one spares block; remove all but one."},
		"spares of no size":       {"pool \"a\" {\n\n spares {}\n}", "kolo.hcl:3: Missing argument: The spares block has no slots; write slots = 2, or remove the block."},
		"no slots for spares":     {"pool \"a\" {\n spares {\n  slots = 0\n }\n}", "kolo.hcl:3: Wrong value for slots: 0 is not a whole number from 1 to 1000000"},
		"spares of a queue":       {"pool \"a\" {\n queue \"b\" {\n  spares { slots = 1 }\n }\n}", "kolo.hcl:3: Unsupported block type"},
		"device and cpu":          {"pool \"a\" {\n device = \"gpu\"\n cpu_slot = 100\n}", "kolo.hcl:3: Contradiction"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(tc.src)
			must.Nil(t, c)
			must.ErrorContains(t, err, tc.want)
			must.StrHasPrefix(t, "kolo.hcl:", err.Error())
		})
	}
}

// TestParse_EverySettingIsChecked gives each setting of each block a value that no setting
// accepts.
func TestParse_EverySettingIsChecked(t *testing.T) {
	settings := 0
	for _, block := range []string{"", "nomad", "http", "leader", "planner", "telemetry", "usage", `pool "p"`} {
		open, end := block+" {", "}"
		if block == "" {
			open, end = "", ""
		}
		// The answer to a setting that there is not names those that there are.
		_, err := parse(open + "\n  zzzzzz = 1\n" + end)
		must.Error(t, err)
		_, list, ok := strings.Cut(err.Error(), "The arguments here are ")
		must.True(t, ok, must.Sprint(err))
		for _, name := range strings.Split(strings.TrimSuffix(list, "."), ", ") {
			settings++
			t.Run(block+" "+name, func(t *testing.T) {
				c, err := parse(open + "\n\n  " + name + " = {}\n" + end)
				must.Nil(t, c)
				must.ErrorContains(t, err, "kolo.hcl:3: Wrong value for "+name+": A ")
				must.ErrorContains(t, err, " is expected; write "+name+" = ")
				_, err = parse(open + "\n\n  " + name + " = " + name + "\n" + end)
				must.ErrorContains(t, err, "kolo.hcl:3: Variables not allowed")
			})
		}
	}
	must.Greater(t, 30, settings)
}

// TestParse_EveryPolicyOptionIsChecked does the same for the options of policies.
func TestParse_EveryPolicyOptionIsChecked(t *testing.T) {
	for _, name := range builtin.Policies.Names() {
		info, _ := builtin.Policies.Describe(name)
		for _, o := range info.Options {
			t.Run(name+" "+o.Name, func(t *testing.T) {
				_, err := parse(fmt.Sprintf("pool \"p\" {\n policy %q {\n  %s = [{}]\n }\n}", name, o.Name))
				must.ErrorContains(t, err, "kolo.hcl:3: ")
				_, err = parse(fmt.Sprintf("pool \"p\" {\n policy %q {\n  %sx = 1\n }\n}", name, o.Name))
				must.ErrorContains(t, err, "kolo.hcl:3: ")
				must.ErrorContains(t, err, o.Name)
			})
		}
	}
}

func TestParse_AllMistakesAtOnce(t *testing.T) {
	_, err := parse("log_level = \"loud\"\nhttp { port = -1 }\nleader { ttl = \"x\" }")
	must.ErrorContains(t, err, "kolo.hcl:1:")
	must.ErrorContains(t, err, "kolo.hcl:2:")
	must.ErrorContains(t, err, "kolo.hcl:3:")
}

func TestParse_OwnPolicies(t *testing.T) {
	c, err := parse("policy_dir = \"/p\"\npool \"a\" {\n policy \"mine\" {}\n}")
	must.NoError(t, err)
	must.Eq(t, "mine", c.Pool("a").Policy)
}

func FuzzParse(f *testing.F) {
	f.Add(`http { port = 80 }`)
	f.Add("pool \"a\" {\n policy \"fifo\" {}\n}")
	f.Add(`nomad { timeout = "1s" }`)
	f.Fuzz(func(t *testing.T, src string) {
		c, err := parse(src)
		if (c == nil) == (err == nil) {
			t.Fatalf("%q: configuration %v with error %v", src, c, err)
		}
	})
}

func TestParse_DeepOrLongFileIsRefused(t *testing.T) {
	_, err := Parse(map[string][]byte{"kolo.hcl": []byte("name = " + strings.Repeat("[", 65<<10))})
	must.ErrorContains(t, err, "kolo.hcl:1,")
	must.ErrorContains(t, err, "at most 64 are read")
	_, err = Parse(map[string][]byte{"kolo.hcl": []byte(strings.Repeat("# a comment\n", 1<<17))})
	must.ErrorContains(t, err, "kolo.hcl: the file has 1572864 bytes; at most 1048576 are read")
}

// TestDefault_IsThePlanners covers settings of the planner that the configuration does not
// have.
func TestDefault_IsThePlanners(t *testing.T) {
	must.Eq(t, planner.DefaultOptions(), Default().Planner.Options)
	c, err := parse("planner {\n  hold = \"1s\"\n}\n")
	must.NoError(t, err)
	want := planner.DefaultOptions()
	want.Hold = time.Second
	must.Eq(t, want, c.Planner.Options)
}
