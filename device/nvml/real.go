// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/kolo-nomad/kolo/device/topology"
)

// Real is the NVML of this machine.
type Real struct {
	lib  nvml.Interface
	name string // of the library
	host host

	mu sync.Mutex
	// symbols holds the symbols that were looked up, and whether the library has
	// them; nil while the library is not open.
	symbols map[string]bool
	// gpus holds the cached values by UUID.
	gpus map[string]*cached
}

var _ Library = (*Real)(nil)

// Options configure an NVML whose files are in unusual places.
type Options struct {
	// Library is the file to load instead of libnvidia-ml.so.1 on the loader's
	// path.
	Library string
	// Root is prepended to /sys and /proc.
	Root string
}

// New returns the NVML of this machine, not yet open.
func New(o Options) *Real {
	name := cmp.Or(o.Library, "libnvidia-ml.so.1")
	return &Real{lib: nvml.New(nvml.WithLibraryPath(name)), name: name, host: host{root: o.Root}}
}

// do makes one call, if the library has the function.
func (r *Real) do(symbol string, f func() nvml.Return) error {
	if code := r.has(symbol); code != 0 {
		return &Error{Op: symbol, Code: code}
	}
	if ret := f(); ret != nvml.SUCCESS {
		return &Error{Op: symbol, Code: Code(ret)}
	}
	return nil
}

// has returns 0 if the function can be called. An abandoned call may continue after
// the library was closed, and must not use it.
func (r *Real) has(symbol string) Code {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.symbols == nil {
		return ErrUninitialized
	}
	there, known := r.symbols[symbol]
	if !known {
		there = r.lib.Extensions().LookupSymbol(symbol) == nil
		r.symbols[symbol] = there
	}
	if !there {
		return ErrFunctionNotFound
	}
	return 0
}

// Open loads and initializes NVML.
func (r *Real) Open() error {
	switch ret := r.lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return &Error{Op: "loading " + r.name, Code: ErrLibraryNotFound}
	default:
		return &Error{Op: "nvmlInit", Code: Code(ret)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.symbols, r.gpus = map[string]bool{}, map[string]*cached{}
	return nil
}

// cached returns the values that were read of a GPU since NVML was opened, nil if
// there are none.
func (r *Real) cached(uuid string) *cached {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gpus[uuid]
}

func (r *Real) cache(c *cached) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gpus != nil {
		r.gpus[c.facts.UUID] = c
	}
}

// Close shuts NVML down. The loader still keeps the file mapped, so only a new
// process can load a newer libnvidia-ml.so.1; see [Real.Replaced].
func (r *Real) Close() error {
	r.mu.Lock()
	r.symbols, r.gpus = nil, nil
	r.mu.Unlock()
	// The symbol of Shutdown is not looked up, because it is as old as Init.
	if ret := r.lib.Shutdown(); ret != nvml.SUCCESS {
		return &Error{Op: "nvmlShutdown", Code: Code(ret)}
	}
	return nil
}

// Driver returns the versions of the driver and of CUDA.
func (r *Real) Driver() (Driver, error) {
	var d Driver
	err := r.do("nvmlSystemGetDriverVersion", func() (ret nvml.Return) {
		d.Version, ret = r.lib.SystemGetDriverVersion()
		return ret
	})
	if err != nil {
		return d, err
	}
	var cuda int
	err = r.do("nvmlSystemGetCudaDriverVersion", func() (ret nvml.Return) {
		cuda, ret = r.lib.SystemGetCudaDriverVersion()
		return ret
	})
	if err == nil {
		// 12040 is 12.4.
		d.CUDA = decimal(cuda/1000, cuda%1000/10)
	}
	return d, nil
}

// Count returns how many GPUs NVML lists.
func (r *Real) Count() (int, error) {
	var n int
	err := r.do("nvmlDeviceGetCount_v2", func() (ret nvml.Return) {
		n, ret = r.lib.DeviceGetCount()
		return ret
	})
	return n, err
}

// GPU returns the GPU with this index.
func (r *Real) GPU(index int) (GPU, error) {
	var d nvml.Device
	err := r.do("nvmlDeviceGetHandleByIndex_v2", func() (ret nvml.Return) {
		d, ret = r.lib.DeviceGetHandleByIndex(index)
		return ret
	})
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", index, err)
	}
	return &realGPU{r: r, d: d, unsupported: map[uint32]bool{}}, nil
}

// paths maps NVML's levels. Two GPUs on one board are as close as two on one
// switch.
var paths = map[nvml.GpuTopologyLevel]topology.Path{
	nvml.TOPOLOGY_INTERNAL:   topology.PathPIX,
	nvml.TOPOLOGY_SINGLE:     topology.PathPIX,
	nvml.TOPOLOGY_MULTIPLE:   topology.PathPXB,
	nvml.TOPOLOGY_HOSTBRIDGE: topology.PathPHB,
	nvml.TOPOLOGY_NODE:       topology.PathNODE,
	nvml.TOPOLOGY_SYSTEM:     topology.PathSYS,
}

// Pair returns how two GPUs are connected. Values that the driver does not report
// remain zero. For any other failure, Pair returns an error, so that the caller
// does not cache an incomplete result.
func (r *Real) Pair(a, b GPU) (topology.Pair, error) {
	ga, okA := a.(*realGPU)
	gb, okB := b.(*realGPU)
	if !okA || !okB {
		return topology.Pair{}, fmt.Errorf("pair of %T and %T: not GPUs of this library", a, b)
	}
	var p topology.Pair
	var level nvml.GpuTopologyLevel
	err := r.do("nvmlDeviceGetTopologyCommonAncestor", func() (ret nvml.Return) {
		level, ret = ga.d.GetTopologyCommonAncestor(gb.d)
		return ret
	})
	if err == nil {
		p.Path = paths[level]
	} else if Unavailable(err) || errors.Is(err, ErrGPULost) {
		// Virtual machines report peers, but no common ancestor.
		return p, err
	}
	p2p := func(index nvml.GpuP2PCapsIndex) (ok, known bool, err error) {
		var status nvml.GpuP2PStatus
		err = r.do("nvmlDeviceGetP2PStatus", func() (ret nvml.Return) {
			status, ret = ga.d.GetP2PStatus(gb.d, index)
			return ret
		})
		if Unsupported(err) || errors.Is(err, ErrInvalidArgument) {
			return false, false, nil
		}
		return status == nvml.P2P_STATUS_OK, err == nil && status != nvml.P2P_STATUS_UNKNOWN, err
	}
	read, _, err := p2p(nvml.P2P_CAPS_INDEX_READ)
	if err != nil {
		return p, err
	}
	write, _, err := p2p(nvml.P2P_CAPS_INDEX_WRITE)
	if err != nil {
		return p, err
	}
	p.Peer = read && write
	// Older drivers do not know the NVLink index; only a clear no counts.
	link, known, err := p2p(nvml.P2P_CAPS_INDEX_NVLINK)
	p.NoNVLink = known && !link
	return p, err
}

// decimal returns 12.4 for 12 and 4.
func decimal(major, minor int) float64 {
	for div := 10; ; div *= 10 {
		if minor < div {
			return float64(major) + float64(minor)/float64(div)
		}
	}
}

// busID converts NVML's 00000000:0F:00.0 to sysfs' 0000:0f:00.0.
func busID(b string) string {
	b = strings.ToLower(b)
	if domain, rest, ok := strings.Cut(b, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return b
}
