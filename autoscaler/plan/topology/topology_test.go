// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
	"pgregory.net/rapid"
)

func levels(t testing.TB, names ...string) []Level {
	t.Helper()
	out, err := ParseLevels(names)
	must.NoError(t, err)
	return out
}

// rows returns nodes of one bin each from their values, separated by slashes: "b1/r1/n1".
// "-" means no value.
func rows(all ...string) []Node {
	var out []Node
	for _, row := range all {
		values := strings.Split(row, "/")
		for i := range values {
			if values[i] == "-" {
				values[i] = ""
			}
		}
		out = append(out, Node{Values: values, Bins: []Bin{{Link: NVLink}}})
	}
	return out
}

// draw returns a tree as an indented list, with the leaves of each domain.
func draw(t *Tree) string {
	var out strings.Builder
	var walk func(level, parent int)
	walk = func(level, parent int) {
		if level == len(t.Levels()) {
			return
		}
		for d, dom := range t.Domains(level) {
			if dom.Parent == parent {
				fmt.Fprintf(&out, "%s%s %v\n", strings.Repeat(" ", level), t.Title(level, d), t.Within(level, d))
				walk(level+1, d)
			}
		}
	}
	walk(0, -1)
	return out.String()
}

func TestParseLevels(t *testing.T) {
	for name, tc := range map[string]struct {
		levels []string
		want   string // names, or the entry and what is wrong with it
	}{
		"all of them":          {[]string{"node.datacenter", "meta.block", "attr.platform.aws.placement.zone", "node", "device.island"}, "node.datacenter meta.block attr.platform.aws.placement.zone node device.island"},
		"none is the node":     {nil, "node"},
		"the node is added":    {[]string{"meta.rack"}, "meta.rack node"},
		"outside of devices":   {[]string{"meta.rack", "device.numa_node"}, "meta.rack node device.numa_node"},
		"unknown":              {[]string{"meta.rack", "rack"}, `1: Level "rack" is not known; write node, or one that begins with meta., attr., node. or device., such as meta.rack.`},
		"unknown fact":         {[]string{"node.rack"}, `0: Level "node.rack" is not known; after node. write one of class, datacenter.`},
		"unknown of devices":   {[]string{"device.switch"}, `0: Level "device.switch" is not known; after device. write one of island, numa_node, pcie_root, pcie_switch.`},
		"no key":               {[]string{"meta."}, `0: Level "meta." has no usable key`},
		"a key with a brace":   {[]string{"meta.a}b"}, `0: Level "meta.a}b" has no usable key`},
		"a key that is long":   {[]string{"meta." + strings.Repeat("k", 129)}, "0: Level"},
		"twice, so cyclic":     {[]string{"meta.block", "meta.rack", "meta.block"}, `2: Level "meta.block" is listed twice, and a level cannot be inside itself; keep one of the two.`},
		"a rack inside a node": {[]string{"node", "meta.rack"}, `1: Level "meta.rack" is inside "node", but all of a node has one value of it; write levels outermost first.`},
		"a node inside a GPU":  {[]string{"device.island", "node"}, `1: Level "node" is inside "device.island", but a device is inside a node; write levels outermost first.`},
		"a node in two ways":   {[]string{"node", "device.island", "device.numa_node"}, `2: Level "device.numa_node" is inside "device.island", but a node is divided in one way only`},
		"more than allowed":    {[]string{"meta.a", "meta.b", "meta.c", "meta.d", "meta.e", "meta.f", "meta.g", "meta.h", "meta.i"}, "8: 9 levels are more than 8"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseLevels(tc.levels)
			var wrong *LevelError
			if errors.As(err, &wrong) {
				must.StrHasPrefix(t, tc.want, fmt.Sprintf("%d: %s", wrong.Entry, wrong.What))
				return
			}
			var names []string
			for _, l := range got {
				names = append(names, l.Name)
			}
			must.Eq(t, tc.want, strings.Join(names, " "))
		})
	}
}

func FuzzParseLevels(f *testing.F) {
	f.Add("meta.rack node device.island")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseLevels(strings.Fields(text))
		if err != nil {
			return
		}
		var names []string
		for _, l := range all {
			names = append(names, l.Name)
		}
		again, err := ParseLevels(names)
		must.NoError(t, err)
		must.Eq(t, all, again)
	})
}

func TestTree(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes    []Node
		want     string
		problems []string
	}{
		"blocks and racks, in any order of the nodes": {
			rows("b2/r3/n4", "b1/r2/n3", "b1/r1/n2", "b1/r1/n1"),
			"b1 [3 2 1]\n r1 [3 2]\n  n1 [3]\n  n2 [2]\n r2 [1]\n  n3 [1]\nb2 [0]\n r3 [0]\n  n4 [0]\n", nil,
		},
		"a node without a rack": {
			rows("b1/r1/n1", "b1/-/n2"),
			"b1 [0 1]\n r1 [0]\n  n1 [0]\n (no meta.rack) [1]\n  n2 [1]\n",
			[]string{"meta.rack: 1 node in b1 without a value of meta.rack (n2); set it, to at most 256 bytes, with nomad node meta apply -node-id <node> rack=<value>, or in the client's configuration"},
		},
		"uneven depth: a block without racks": {
			rows("b1/r1/n1", "b2/-/n2", "b2/-/n3"),
			"b1 [0]\n r1 [0]\n  n1 [0]\nb2 [1 2]\n (no meta.rack) [1 2]\n  n2 [1]\n  n3 [2]\n",
			[]string{"meta.rack: 2 nodes in b2 without a value of meta.rack (n2, n3); set it, to at most 256 bytes, with nomad node meta apply -node-id <node> rack=<value>, or in the client's configuration"},
		},
		"a level that no node has": {
			rows("-/r1/n1", "-/r1/n2"),
			"(no meta.block) [0 1]\n r1 [0 1]\n  n1 [0]\n  n2 [1]\n",
			[]string{"meta.block: no node has a value of meta.block; set it, to at most 256 bytes, with nomad node meta apply -node-id <node> block=<value>, or in the client's configuration"},
		},
		"a rack in two blocks": {
			rows("b1/r1/n1", "b2/r1/n2", "b2/r2/n3"),
			"b1 [0]\n r1 [0]\n  n1 [0]\nb2 [1 2]\n r1 [1]\n  n2 [1]\n r2 [2]\n  n3 [2]\n",
			[]string{`meta.rack: meta.rack "r1" is in b1 (n1) and in b2 (n2); they count as 2 domains, which a constraint on meta.rack does not tell apart: give each a name of its own`},
		},
		"two nodes of one name are two": {
			rows("b1/r1/n1", "b1/r1/n1"),
			"b1 [0 1]\n r1 [0 1]\n  n1 [0]\n  n1 [1]\n", nil,
		},
		"fewer values than levels": {
			rows("b1"),
			"b1 [0]\n (no meta.rack) [0]\n  (no node) [0]\n",
			[]string{
				"meta.rack: no node has a value of meta.rack; set it, to at most 256 bytes, with nomad node meta apply -node-id <node> rack=<value>, or in the client's configuration",
				"node: no node has a value of node; such nodes count as one domain of their own",
			},
		},
		"no nodes": {nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tree := New(levels(t, "meta.block", "meta.rack"), tc.nodes)
			must.Eq(t, tc.want, draw(tree))
			var problems []string
			for _, p := range tree.Problems() {
				problems = append(problems, p.Level+": "+p.What)
			}
			must.Eq(t, tc.problems, problems)
		})
	}
}

func TestTree_Islands(t *testing.T) {
	tree := New(levels(t, "device.island"), []Node{
		{Values: []string{"n1"}, Bins: []Bin{{Value: "nvlink1"}, {Value: "nvlink0"}}},
		{Values: []string{"n2"}, Bins: []Bin{{}}},
		{Values: []string{"n3"}},
	})
	must.Eq(t, "n1 [1 0]\n nvlink0 [1]\n nvlink1 [0]\nn2 [2]\n (no device.island) [2]\nn3 [3]\n (no device.island) [3]\n", draw(tree))
	must.Eq(t, []Problem{{"device.island", "2 nodes without a value of device.island (n2, n3); the device plugin divides a node by group_by; one group has one value"}}, tree.Problems())
	must.Eq(t, []int{0, 1, 2, 3}, []int{tree.Leaf(0, -1), tree.Leaf(0, 1), tree.Leaf(1, 0), tree.Leaf(2, -1)})
	must.Eq(t, []int{-1, -1, -1}, []int{tree.Leaf(-1, 0), tree.Leaf(3, 0), tree.Leaf(1, 1)})
	must.Eq(t, []string{"n1", "nvlink0"}, tree.Path(1, tree.Domain(1, 1)))
}

func TestTree_NodesOfOtherPools(t *testing.T) {
	nodes := rows("r1/n0", "r1/n1", "r2/n2")
	nodes[1].Outside = true
	tree := New(levels(t, "meta.rack"), nodes)
	must.Eq(t, "r1 [0]\n n0 [0]\nr2 [1]\n n2 [1]\n", draw(tree))
	must.Eq(t, []int{0, -1, 1}, []int{tree.Leaf(0, 0), tree.Leaf(1, 0), tree.Leaf(2, -1)})
}

func TestTree_ManyProblemsAreBounded(t *testing.T) {
	var all []Node
	for i := range 2 * maxProblems {
		all = append(all, rows(fmt.Sprintf("b%d/-/n%d", i, i), fmt.Sprintf("b%d/r%d/m%d", i, i, i))...)
	}
	problems := New(levels(t, "meta.block", "meta.rack"), all).Problems()
	must.Len(t, maxProblems+1, problems)
	must.Eq(t, "and 50 more", problems[maxProblems].What)
}

func TestCommon(t *testing.T) {
	tree := New(levels(t, "meta.block", "meta.rack"), rows("b1/r1/n1", "b1/r1/n2", "b1/r2/n3", "b2/r3/n4"))
	for name, tc := range map[string]struct {
		leaves []int
		want   string
	}{
		"one node":   {[]int{1}, "b1/r1/n2"},
		"one rack":   {[]int{1, 0, -1}, "b1/r1"},
		"one block":  {[]int{2, 0}, "b1"},
		"two blocks": {[]int{2, 3}, "none"},
		"nowhere":    {[]int{-1}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			got := "none"
			if level, d, ok := tree.Common(tc.leaves); ok {
				got = strings.Join(tree.Path(level, d), "/")
			}
			must.Eq(t, tc.want, got)
		})
	}
}

func TestSlots(t *testing.T) {
	tree := New(levels(t, "meta.rack"), rows("r1/n1", "r1/n2", "r2/n3"))
	s := tree.Slots()
	for leaf := range 3 {
		s.Add(leaf, 4, 0)
	}
	s.Add(1, -3, 3)
	before := s.Clone()
	s.Add(-1, 0, 1)
	must.Eq(t, Amount{9, 4}, s.Pool())
	must.Eq(t, Amount{5, 3}, s.Of(0, 0))
	must.Eq(t, Amount{4, 0}, s.Of(0, 1))
	must.Eq(t, Amount{1, 3}, s.At(1))
	must.Eq(t, Amount{9, 3}, before.Pool())
}

func TestSlowestLink(t *testing.T) {
	for matrix, want := range map[string]Link{
		"8;28xNV18s": NVLink, "4;NV4,4xSYS,NV4": SYS, "1;": NVLink, "2;PIX": PIX, "3;PIX,2xNODE": NODE, "3;PXB,PHB,PXB": PHB,
		"": Unknown, "0;": Unknown, "2;": Unknown, "2;?": Unknown, "2;NV0": Unknown, "2;NV1,NV1": Unknown, "2;99999999999xNV1": Unknown,
		"2;0xNV1": Unknown, "257;32896xNV1": Unknown, "3;NV1": Unknown, "-1;": Unknown, "2;32000xNV1": Unknown,
	} {
		must.Eq(t, want, SlowestLink(matrix), must.Sprint(matrix))
	}
}

func FuzzSlowestLink(f *testing.F) {
	f.Add("4;NV4,4xSYS,NV4")
	f.Fuzz(func(t *testing.T, s string) {
		if l := SlowestLink(s); l < NVLink || l > Unknown {
			t.Fatalf("class %d", l)
		}
	})
}

func TestScore(t *testing.T) {
	tree := New(levels(t, "meta.block", "meta.rack", "device.island"), []Node{
		{Values: []string{"b1", "r1", "n0"}, Bins: []Bin{{"nvlink0", NVLink}, {"nvlink1", NVLink}}}, // leaves 0, 1
		{Values: []string{"b1", "r1", "n1"}, Bins: []Bin{{"nvlink0", NVLink}, {"nvlink1", SYS}}},    // 2, 3
		{Values: []string{"b1", "r2", "n2"}, Bins: []Bin{{"nvlink0", NVLink}}},                      // 4
		{Values: []string{"b2", "r3", "n3"}, Bins: []Bin{{"nvlink0", NVLink}}},                      // 5
	})
	// From the best to the worst, for 16 workers.
	ranked := []struct {
		name  string
		parts []Part
		want  Spread
	}{
		{"one island", []Part{{0, 16}}, Spread{4, 1}},
		{"one island over slow links", []Part{{3, 16}}, Spread{4, 1}},
		{"two islands, uneven", []Part{{0, 15}, {1, 1}}, Spread{3, 2}},
		{"two islands, even", []Part{{0, 8}, {1, 8}}, Spread{3, 2}},
		{"two nodes, uneven", []Part{{2, 1}, {0, 15}}, Spread{2, 2}},
		{"two nodes, even", []Part{{0, 8}, {2, 8}}, Spread{2, 2}},
		{"two nodes, four islands", []Part{{0, 4}, {1, 4}, {2, 4}, {3, 4}}, Spread{2, 2}},
		{"one worker in another rack", []Part{{0, 15}, {4, 1}}, Spread{1, 2}},
		{"two racks", []Part{{0, 8}, {4, 8}}, Spread{1, 2}},
		{"one worker in another block", []Part{{0, 15}, {5, 1}}, Spread{0, 2}},
	}
	for i, r := range ranked {
		t.Run(r.name, func(t *testing.T) {
			s := tree.Score(r.parts)
			must.Eq(t, r.want, s.Spread)
			must.Eq(t, r.want, tree.Spread(r.parts))
			must.Eq(t, 0, s.Compare(s))
			for _, worse := range ranked[i+1:] {
				must.Negative(t, s.Compare(tree.Score(worse.parts)), must.Sprint(worse.name))
				must.Positive(t, tree.Score(worse.parts).Compare(s), must.Sprint(worse.name))
			}
		})
	}
	must.Eq(t, Score{Spread: Spread{4, 0}}, tree.Score([]Part{{-1, 3}, {0, 0}}))
	must.Eq(t, []Share{{0, 7}, {1, 2}}, tree.By(0, []Part{{5, 2}, {0, 3}, {4, 4}, {-1, 9}}))
}

func drawTree(t *rapid.T) *Tree {
	names := [][]string{{}, {"meta.rack"}, {"meta.block", "meta.rack"}, {"meta.block", "meta.rack", "device.island"}}
	all, err := ParseLevels(rapid.SampledFrom(names).Draw(t, "levels"))
	must.NoError(t, err)
	self := 0
	for !isSelf(all[self]) {
		self++
	}
	var nodes []Node
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		n := Node{}
		for range self {
			n.Values = append(n.Values, rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "value"))
		}
		n.Values = append(n.Values, fmt.Sprint("n", i))
		for range rapid.IntRange(0, 3).Draw(t, "bins") {
			n.Bins = append(n.Bins, Bin{rapid.SampledFrom([]string{"", "i0", "i1"}).Draw(t, "island"), Link(rapid.IntRange(0, int(Unknown)).Draw(t, "link"))})
		}
		nodes = append(nodes, n)
	}
	return New(all, nodes)
}

func drawParts(t *rapid.T, tree *Tree) []Part {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Part {
		return Part{rapid.IntRange(-1, tree.Leaves()-1).Draw(t, "leaf"), rapid.IntRange(0, 4).Draw(t, "workers")}
	}), 0, 8).Draw(t, "parts")
}

// crossed returns the outermost level at which two leaves are apart.
func (t *Tree) crossed(x, y int) int {
	for l := range t.levels {
		if t.Domain(l, x) != t.Domain(l, y) {
			return l
		}
	}
	return len(t.levels)
}

// TestProperty_Cost compares the cost with the sum over all pairs of workers.
func TestProperty_Cost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		parts := drawParts(t, tree)
		var workers []int
		for _, p := range parts {
			for range p.Workers {
				if p.Leaf >= 0 {
					workers = append(workers, p.Leaf)
				}
			}
		}
		var want int64
		level, seen := len(tree.levels), map[int]bool{}
		for i, x := range workers {
			for _, y := range workers[:i] {
				level = min(level, tree.crossed(x, y))
				if x == y {
					want += int64(tree.links[x])
				} else {
					want += tree.Distance(tree.crossed(x, y))
				}
			}
		}
		if level < len(tree.levels) {
			for _, x := range workers {
				seen[tree.Domain(level, x)] = true
			}
		} else if len(workers) > 0 {
			seen[0] = true
		}
		must.Eq(t, Score{Spread{level, len(seen)}, want}, tree.Score(parts))
		must.Eq(t, Spread{level, len(seen)}, tree.Spread(parts))
	})
}

// TestProperty_Monotone checks that a placement never gets better if a worker moves such
// that, to each other worker, it crosses the same level as before or one further out.
func TestProperty_Monotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		others := drawParts(t, tree)
		near := rapid.IntRange(0, tree.Leaves()-1).Draw(t, "near")
		far := rapid.IntRange(0, tree.Leaves()-1).Draw(t, "far")
		for _, p := range others {
			if p.Leaf < 0 || p.Workers == 0 {
				continue
			}
			if tree.crossed(far, p.Leaf) > tree.crossed(near, p.Leaf) || far == p.Leaf && near != p.Leaf {
				t.Skip("it is nearer to some")
			}
			if near == p.Leaf && far == p.Leaf {
				continue
			}
		}
		better := tree.Score(append(others[:len(others):len(others)], Part{near, 1}))
		worse := tree.Score(append(others[:len(others):len(others)], Part{far, 1}))
		if better.Compare(worse) > 0 {
			t.Fatalf("%+v at leaf %d is worse than %+v at leaf %d", better, near, worse, far)
		}
	})
}

// TestProperty_DistancesGrow checks that each level adds more distance than the levels
// inside it, and than any link.
func TestProperty_DistancesGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		for l := range tree.levels {
			must.Greater(t, tree.Distance(l+1), tree.Distance(l))
		}
		must.GreaterEq(t, int64(Unknown), tree.Distance(len(tree.levels)))
	})
}

// TestProperty_Order checks that another order of the nodes changes only the numbering.
func TestProperty_Order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := levels2(t)
		var nodes []Node
		for i := range rapid.IntRange(0, 10).Draw(t, "nodes") {
			nodes = append(nodes, Node{Values: []string{
				rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "block"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rack"), fmt.Sprint("n", i),
			}})
		}
		shuffled := rapid.Permutation(nodes).Draw(t, "shuffled")
		a, b := New(all, nodes), New(all, shuffled)
		must.Eq(t, a.Problems(), b.Problems())
		for l := range all {
			must.Eq(t, len(a.Domains(l)), len(b.Domains(l)))
			for d := range a.Domains(l) {
				must.Eq(t, a.Path(l, d), b.Path(l, d))
				must.Eq(t, a.Domains(l)[d].Nodes, b.Domains(l)[d].Nodes)
			}
		}
	})
}

func levels2(t *rapid.T) []Level {
	all, err := ParseLevels([]string{"meta.block", "meta.rack"})
	must.NoError(t, err)
	return all
}

// TestProperty_Slots checks that the slots of each domain are the sum of its leaves.
func TestProperty_Slots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		s := tree.Slots()
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			s.Add(rapid.IntRange(-1, tree.Leaves()-1).Draw(t, "leaf"), rapid.IntRange(-4, 4).Draw(t, "free"), rapid.IntRange(-4, 4).Draw(t, "used"))
		}
		for l := range tree.levels {
			for d := range tree.Domains(l) {
				var want Amount
				for _, leaf := range tree.Within(l, d) {
					must.Eq(t, d, tree.Domain(l, leaf))
					want.add(s.At(leaf).Free, s.At(leaf).Used)
				}
				must.Eq(t, want, s.Of(l, d))
			}
		}
	})
}

// large returns the nodes of 100,000 GPUs: 12,500 nodes of two islands each, in racks of 16
// nodes and blocks of 16 racks.
func large(b *testing.B) ([]Level, []Node) {
	var nodes []Node
	for i := range 12500 {
		nodes = append(nodes, Node{
			Values: []string{fmt.Sprint("b", i/256), fmt.Sprint("r", i/16), fmt.Sprint("n", i)},
			Bins:   []Bin{{"nvlink0", NVLink}, {"nvlink1", NVLink}},
		})
	}
	return levels(b, "meta.block", "meta.rack", "node", "device.island"), nodes
}

func BenchmarkNew(b *testing.B) {
	all, nodes := large(b)
	for b.Loop() {
		New(all, nodes)
	}
}

// BenchmarkSlotsAndScores counts the slots of 100,000 GPUs and scores 10,000 jobs
// of 4 parts each.
func BenchmarkSlotsAndScores(b *testing.B) {
	tree := New(large(b))
	parts := make([]Part, 4)
	for b.Loop() {
		s := tree.Slots()
		for leaf := range tree.Leaves() {
			s.Add(leaf, 4, 0)
		}
		for j := range 10000 {
			for k := range parts {
				parts[k] = Part{(j*37 + k*911) % tree.Leaves(), 2}
				s.Add(parts[k].Leaf, -2, 2)
			}
			tree.Score(parts)
		}
	}
}
