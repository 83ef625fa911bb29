// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package expand

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/shoenig/test/must"
	"github.com/zclconf/go-cty/cty"

	"github.com/kolo-nomad/kolo/autoscaler/plan/topology"
)

func level(t testing.TB, name string) topology.Level {
	t.Helper()
	l, err := topology.ParseLevel(name)
	must.NoError(t, err)
	return l
}

// trainJob is a job with a group to expand, and one that is not elastic.
const trainJob = `# Mine.
job "train" {
  type = "batch"

  group "workers" { # all of them
    count = 2

    scaling {
      enabled = true
      min     = 2 # two at least
      max     = var.most
      policy {
        kolo {}
      }
    }

    task "train" {
      driver = "horovod"
      template {
        data = <<EOF
if true:
  }  ${NOMAD_ALLOC_ID}
EOF
      }

	  /* with a tab */
    }
  }

  group "log" {
    count=1
  }
}`

func TestJob(t *testing.T) {
	want := `# Mine.
job "train" {
  type = "batch"

  dynamic "group" {
    for_each = var.meta_rack
    labels   = ["workers-${group.value}"]

    content { # all of them
      count = 0

      scaling {
        enabled = true
        min     = 0 # two at least
        max     = var.most
        policy {
          kolo {
            min = 2
            max = var.most
          }
        }
      }

      task "train" {
        driver = "horovod"
        template {
          data = <<EOF
if true:
  }  ${NOMAD_ALLOC_ID}
EOF
        }

  	  /* with a tab */
      }

      constraint {
        attribute = "${meta.rack}"
        value     = group.value
      }
    }
  }

  group "log" {
    count=1
  }
}

variable "meta_rack" {
  type        = list(string)
  description = "Values of meta.rack, one group of workers each: kolo topology vars -level meta.rack"
}
`
	out, err := Job("train.nomad.hcl", []byte(trainJob), level(t, "meta.rack"))
	must.NoError(t, err)
	must.Eq(t, want, string(out))

	_, err = Job("train.nomad.hcl", out, level(t, "meta.rack"))
	must.EqError(t, err, "train.nomad.hcl:5: a dynamic group is there already; a job is expanded once, and later needs only its list: kolo topology vars -level meta.rack")
}

// elastic is a group with these lines in its scaling and kolo blocks.
func elastic(name, lines, scaling, kolo string) string {
	return "  group \"" + name + "\" {\n" + lines + "    scaling {\n" + scaling + "      policy {\n        kolo {" + kolo + "}\n      }\n    }\n  }\n"
}

// TestJob_KeepsWhatItMeansByGroup: in a text, HCL keeps a name that it does not know. If a
// text uses the iterator's name, the block's iterator gets another one.
func TestJob_KeepsWhatItMeansByGroup(t *testing.T) {
	for text, want := range map[string]string{
		"${NOMAD_ALLOC_ID}":     "group",
		"${group}":              "domain1",
		"${group} ${domain1}":   "domain2",
		"${upper(group.value)}": "domain1",
	} {
		out, err := Job("train.nomad.hcl", []byte(strings.ReplaceAll(trainJob, "${NOMAD_ALLOC_ID}", text)), level(t, "meta.rack"))
		must.NoError(t, err)
		must.StrContains(t, string(out), `labels   = ["workers-${`+want+`.value}"]`)
		must.StrContains(t, string(out), "value     = "+want+".value\n")
		must.Eq(t, want != "group", strings.Contains(string(out), "iterator = "+want+"\n"))
	}
}

func TestJob_Bounds(t *testing.T) {
	for name, tc := range map[string]struct {
		groups string
		want   []string // lines of the result, and "!" and lines that are not of it
	}{
		"the kolo block has them": {
			elastic("w", "    count = 3\n", "      min = 2\n      max = 8\n", "\n          min = 1\n          max = 4\n        "),
			[]string{"count = 0", "min = 0", "max = 8", "min = 1", "max = 4", "!min = 2"},
		},
		"the count is the smallest, where there is no min": {
			elastic("w", "    count = var.n\n", "      max = 8\n", ""),
			[]string{"count = 0", "min = 0", "min = var.n", "max = 8"},
		},
		"neither count nor min": {
			elastic("w", "", "      max = 8\n", ""),
			[]string{"min = 0", "max = 8", "!count = 0", "!min = 1"},
		},
		"one worker is what a kolo block starts from": {
			elastic("w", "    count = 1\n", "      min = 1\n      max = 8\n", " queue = \"a\" "),
			[]string{"count = 0", "min = 0", `queue = "a"`, "max = 8", "!min = 1"},
		},
		"of two groups together": {
			elastic("a", "", "      min = 2\n      max = 8\n", "") + elastic("b", "", "      min = 1\n      max = var.most\n", ""),
			[]string{"min = 3", "max = (var.most) + 8", `labels   = ["a-${group.value}"]`, `labels   = ["b-${group.value}"]`},
		},
		"a name with a template in it": {
			elastic("a$${b}", "", "      min = 0\n      max = 8\n", ""),
			[]string{`labels   = ["a$${b}-${group.value}"]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Job("j.hcl", []byte("job \"j\" {\n"+tc.groups+"}\n"), level(t, "meta.rack"))
			must.NoError(t, err)
			lines := map[string]bool{}
			for line := range strings.Lines(string(out)) {
				lines[strings.TrimSpace(line)] = true
			}
			for _, w := range tc.want {
				line, absent := strings.CutPrefix(w, "!")
				must.Eq(t, !absent, lines[line], must.Sprint(w, "\n", string(out)))
			}
		})
	}
}

func TestJob_Refuses(t *testing.T) {
	plain := elastic("w", "", "      max = 8\n", "")
	for name, tc := range map[string]struct{ level, src, want string }{
		"no HCL":                {"meta.rack", "job {", "reading the job: j.hcl:1"},
		"no job":                {"meta.rack", "x = 1\n", "j.hcl: 0 job blocks, and a jobspec has one"},
		"two jobs":              {"meta.rack", "job \"a\" {}\njob \"b\" {}\n", "j.hcl: 2 job blocks"},
		"no elastic group":      {"meta.rack", "job \"a\" {\n  group \"b\" {\n    scaling {\n      max = 2\n    }\n  }\n}\n", "j.hcl:1: no group has scaling { policy { kolo {} } }"},
		"bound already":         {"meta.rack", "job \"j\" {\n" + elastic("w", "    constraint {\n      attribute = \"${meta.rack}\"\n      value = \"r1\"\n    }\n", "", "") + "}\n", `j.hcl:3: group "w" is bound to a value of meta.rack already; remove the constraint`},
		"a gang":                {"meta.rack", "job \"j\" {\n" + elastic("w", "", "      max = 8\n", "\n          gang = [\"w\", \"v\"]\n        ") + "}\n", "the groups of a gang are placed by their ratio"},
		"a level inside a node": {"device.island", "job \"j\" {\n" + plain + "}\n", "a group cannot be bound to a value of device.island: it is inside a node"},
		"kolo is no block":      {"meta.rack", "job \"j\" {\n  group \"w\" {\n    scaling {\n      policy {\n        kolo = {}\n      }\n    }\n  }\n}\n", "j.hcl:5: kolo is not a block; write kolo { … }"},
		"deeper than is read":   {"meta.rack", strings.Repeat("a {", 70), "nested"},
		"two blocks on a line":  {"meta.rack", "job \"j\" {\n  group \"w\" {\n    scaling { policy { kolo {} } }\n  }\n}\n", "j.hcl:3"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Job("j.hcl", []byte(tc.src), level(t, tc.level))
			must.Error(t, err, must.Sprint(string(out)))
			must.ErrorContains(t, err, tc.want)
		})
	}
}

func TestJob_TheVariableIsThere(t *testing.T) {
	src := "variable \"meta_rack\" {\n  type = list(string)\n}\njob \"j\" {\n" + elastic("w", "", "      max = 8\n", "") + "}\n"
	out, err := Job("j.hcl", []byte(src), level(t, "meta.rack"))
	must.NoError(t, err)
	must.Eq(t, 1, strings.Count(string(out), `variable "meta_rack"`))
}

// TestJob_OfEveryLevel has groups bound to each attribute that a constraint of Nomad may
// name.
func TestJob_OfEveryLevel(t *testing.T) {
	src := "job \"j\" {\n" + elastic("w", "", "      max = 8\n", "") + "}\n"
	for name, want := range map[string][2]string{
		"meta.rack": {"${meta.rack}", "meta_rack"}, "attr.cpu.arch": {"${attr.cpu.arch}", "attr_cpu_arch"}, "node": {"${node.unique.name}", "node"},
		"node.class": {"${node.class}", "node_class"}, "meta.my-rack": {"${meta.my-rack}", "meta_my_rack"},
	} {
		out, err := Job("j.hcl", []byte(src), level(t, name))
		must.NoError(t, err)
		must.StrContains(t, string(out), `attribute = "`+want[0]+`"`)
		must.StrContains(t, string(out), "for_each = var."+want[1]+"\n")
	}
}

func TestVars(t *testing.T) {
	out := Vars(level(t, "meta.rack"), []string{"r1", `r"2`, "${r3}"})
	must.Eq(t, `# Values of meta.rack, as kolo topology vars found them.
meta_rack = [
  "r1",
  "r\"2",
  "$${r3}",
]
`, string(out))
	f, diags := hclsyntax.ParseConfig(out, "v.hcl", hcl.InitialPos)
	must.False(t, diags.HasErrors())
	attrs, _ := f.Body.JustAttributes()
	v, diags := attrs["meta_rack"].Expr.Value(nil)
	must.False(t, diags.HasErrors())
	must.True(t, v.RawEquals(cty.TupleVal([]cty.Value{cty.StringVal("r1"), cty.StringVal(`r"2`), cty.StringVal("${r3}")})))
}

// FuzzJob expands files of any content. The result must be HCL, with the text of heredocs
// unchanged.
func FuzzJob(f *testing.F) {
	f.Add([]byte(trainJob))
	f.Add([]byte("job \"j\" {\n" + elastic("w", "    count = 2\n", "      min = 2\n      max = var.m\n", "") + "}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		out, err := Job("j.hcl", src, level(t, "meta.rack"))
		if err != nil {
			must.StrNotContains(t, err.Error(), "fault of kolo")
			return
		}
		must.StrContains(t, string(out), `dynamic "group" {`)
		must.Eq(t, heredocs(src), heredocs(out))
	})
}

// heredocs are the texts of the heredocs of a file.
func heredocs(src []byte) []string {
	tx := &text{src: src}
	var out []string
	for _, h := range tx.heredocs() {
		out = append(out, string(src[h[0]:h[1]]))
	}
	return out
}
