// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package topology

// GPU holds the connections of one GPU. A MIG instance also counts as a GPU, without
// ports, because instances cannot use NVLink.
type GPU struct {
	// Bus is the PCI bus id, by which ports of other GPUs refer to this one.
	Bus string
	// Fabric names the NVLink fabric and the clique in it, empty if the driver
	// reports none. Two GPUs with different names are never linked through a
	// switch.
	Fabric string
	// Ports are the NVLinks that are up.
	Ports []Port
}

// Port is one NVLink of a GPU that is up.
type Port struct {
	// Switch states that the other end is an NVSwitch.
	Switch bool
	// Remote is the PCI bus id of the GPU at the other end; empty for a switch.
	Remote string
	// MBps is the rate in one direction, in MB/s; 0 if the driver does not report
	// it.
	MBps int
}

// Pair holds the facts that NVIDIA's driver reports about two GPUs, other than
// their NVLink ports (see [GPU]).
type Pair struct {
	// Path is the path over PCIe.
	Path Path
	// Peer states that each can read and write the other's memory.
	Peer bool
	// NoNVLink states that the driver denies NVLink between the two although their
	// ports are up (a partitioned NVSwitch system).
	NoNVLink bool
}

// Matrix holds the links between all GPUs of a machine. It is symmetric and
// immutable.
type Matrix struct {
	links   []Link // row by row, n*n
	n       int
	islands [][]int
	island  []int // index of each GPU's island
	// egress is the total bandwidth of a GPU's NVLinks to switches, in MB/s.
	egress []int
}

// New returns the matrix that follows from the facts about each GPU and each pair.
// It calls pair once for each i < j. If pair is nil, nothing is known about pairs.
func New(gpus []GPU, pair func(i, j int) Pair) *Matrix {
	n := len(gpus)
	m := &Matrix{n: n, links: make([]Link, n*n), egress: make([]int, n)}
	for i, g := range gpus {
		for _, p := range g.Ports {
			if p.Switch {
				m.egress[i] += p.MBps
			}
		}
	}
	for i := range gpus {
		for j := i + 1; j < n; j++ {
			var p Pair
			if pair != nil {
				p = pair(i, j)
			}
			l := Link{Path: p.Path, Peer: p.Peer}
			if !p.NoNVLink {
				l.NVLinks, l.MBps, l.Switched = nvlinks(gpus[i], gpus[j])
			}
			m.set(i, j, l)
		}
	}
	m.findIslands()
	return m
}

// nvlinks returns the NVLinks between two GPUs. Direct links have precedence over a
// switch; no machine has both. If the two ends disagree, because a port is up at
// one end only, the smaller number counts.
func nvlinks(a, b GPU) (links, mbps int, switched bool) {
	al, am := portsTo(a, b.Bus)
	bl, bm := portsTo(b, a.Bus)
	if links = min(al, bl); links > 0 {
		return links, min(am, bm), false
	}
	if a.Fabric != "" && b.Fabric != "" && a.Fabric != b.Fabric {
		return 0, 0, false
	}
	al, am = portsToSwitch(a)
	bl, bm = portsToSwitch(b)
	links = min(al, bl)
	return links, min(am, bm), links > 0
}

func portsTo(g GPU, bus string) (links, mbps int) {
	for _, p := range g.Ports {
		if !p.Switch && bus != "" && p.Remote == bus {
			links++
			mbps += p.MBps
		}
	}
	return links, mbps
}

func portsToSwitch(g GPU) (links, mbps int) {
	for _, p := range g.Ports {
		if p.Switch {
			links++
			mbps += p.MBps
		}
	}
	return links, mbps
}

func (m *Matrix) set(i, j int, l Link) {
	m.links[i*m.n+j] = l
	m.links[j*m.n+i] = l
}

// Len returns the number of GPUs.
func (m *Matrix) Len() int { return m.n }

// Link returns the connection between GPUs i and j; the zero Link if i == j.
func (m *Matrix) Link(i, j int) Link { return m.links[i*m.n+j] }

// Islands returns the islands, each as the ascending indices of its GPUs, ordered
// by their first GPU. Together they contain every GPU once. The caller must not
// modify them.
func (m *Matrix) Islands() [][]int { return m.islands }

// Island returns the index in [Matrix.Islands] of the island of GPU i.
func (m *Matrix) Island(i int) int { return m.island[i] }

// Sub returns the matrix of some of the GPUs, in the given order. Only links between
// these GPUs count for its islands.
func (m *Matrix) Sub(set []int) *Matrix {
	s := &Matrix{n: len(set), links: make([]Link, len(set)*len(set)), egress: make([]int, len(set))}
	for a, i := range set {
		s.egress[a] = m.egress[i]
		for b, j := range set {
			s.links[a*s.n+b] = m.Link(i, j)
		}
	}
	s.findIslands()
	return s
}

// Joined reports whether any two GPUs of the set can reach each other's memory. It
// is true for a set of one GPU.
func (m *Matrix) Joined(set []int) bool {
	for a, i := range set {
		for _, j := range set[a+1:] {
			if !m.Link(i, j).Peer {
				return false
			}
		}
	}
	return true
}

// findIslands follows the NVLinks from each GPU not seen yet.
func (m *Matrix) findIslands() {
	m.island = make([]int, m.n)
	for i := range m.island {
		m.island[i] = -1
	}
	for first := range m.n {
		if m.island[first] >= 0 {
			continue
		}
		id := len(m.islands)
		m.island[first] = id
		todo := []int{first}
		for len(todo) > 0 {
			i := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for j := range m.n {
				if m.island[j] < 0 && m.Link(i, j).NVLinks > 0 {
					m.island[j] = id
					todo = append(todo, j)
				}
			}
		}
		m.islands = append(m.islands, nil)
	}
	for i, id := range m.island {
		m.islands[id] = append(m.islands[id], i)
	}
}
