// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"time"

	"github.com/kolo-nomad/kolo/device/topology"
)

// Library is the interface to NVML, which may become unavailable at any time. Its
// methods may be called concurrently, except for Open and Close.
type Library interface {
	// Open loads and initializes NVML. It may be called again after an error.
	Open() error
	// Close shuts NVML down. Its GPUs and watches must not be used afterwards.
	Close() error
	// Driver returns the versions of the driver and of CUDA.
	Driver() (Driver, error)
	// Count returns how many GPUs NVML lists.
	Count() (int, error)
	// GPU returns the GPU with NVML's index, which may change with a reboot.
	GPU(index int) (GPU, error)
	// Pair returns how two GPUs are connected.
	Pair(a, b GPU) (topology.Pair, error)
	// Watch starts to listen for events of the GPUs. The map has the errors of GPUs
	// that cannot be watched, by their position.
	Watch(gpus []GPU) (Watch, map[int]error, error)
}

// GPU is one GPU of an open Library.
type GPU interface {
	// Facts reads the rarely changing facts. An error means that the GPU could not
	// be identified; other unreadable facts are just missing.
	Facts() (Facts, error)
	// Sample reads the frequently changing values. Without all, it omits values
	// that are slow to read or to change.
	Sample(all bool) (Sample, error)
}

// Watch is a stream of events.
type Watch interface {
	// Next waits for an event. It returns false if none came in time.
	Next(wait time.Duration) (Event, bool, error)
	// Close ends the watch.
	Close() error
}

// Driver holds the versions of the driver and of CUDA.
type Driver struct {
	// Version is the driver's version, such as 550.54.15.
	Version string
	// CUDA is the newest CUDA version that the driver supports, such as 12.4; 0 if
	// unknown.
	CUDA float64
}

// Facts are the rarely changing facts about a GPU. A nil pointer, an empty string
// or a 0 means that the GPU or the driver does not report the fact.
type Facts struct {
	UUID string
	Name string
	// Bus is the PCI address in sysfs' format: 0000:07:00.0.
	Bus string
	// Minor is the number in /dev/nvidia<minor>.
	Minor *int

	MemoryMiB      *uint64
	BAR1MiB        *uint64
	PowerLimitW    *uint
	CoreClockMHz   *uint // maximum
	MemoryClockMHz *uint // maximum
	Display        *bool
	Persistence    *bool
	ECC            *bool

	// PCIeGen and PCIeWidth are the highest that GPU and slot support together.
	PCIeGen, PCIeWidth int

	// Architecture is the code name in lower case: hopper.
	Architecture string
	// Compute is the CUDA compute capability: 9.0.
	Compute float64

	// NVLinkVersion is the NVLink version, such as 4.0; 0 without NVLink.
	NVLinkVersion float64
	// Ports are the NVLinks that are up.
	Ports []topology.Port
	// Fabric is the GPU's NVLink fabric, nil if there is none.
	Fabric *Fabric

	// NUMA is the NUMA node; -1 if unknown.
	NUMA int
	// Switch is the PCIe bridge that the GPU is attached to, and Root the PCIe root
	// (pci0000:00), both in sysfs' format.
	Switch, Root string

	// MIG states that the GPU is split into instances, of which there may be none.
	MIG       bool
	Instances []Instance
}

// Fabric describes the NVLink fabric that a GPU has registered with.
type Fabric struct {
	// Cluster is the UUID of the NVLink domain (an NVL72 rack). It is empty if the
	// fabric does not span machines.
	Cluster string
	// Clique is the part of the domain in which NVLink works.
	Clique uint32
	// Ready states that the fabric manager has set up the GPU. Before that, CUDA
	// does not start on it.
	Ready bool
	// Problem is the reason why the fabric cannot be used, empty if it can. A GPU
	// that was set up can have a problem, too.
	Problem string
}

// Instance is a MIG instance.
type Instance struct {
	UUID string
	// Name is NVML's name: the GPU's name, MIG and the profile.
	Name string
	// Profile is the shape of the instance, such as 1g.10gb.
	Profile string
	// MemoryMiB is the memory of this instance.
	MemoryMiB *uint64
	// GI and CI are the numbers of the GPU instance and compute instance.
	GI, CI int
}

// Sample is a reading of the frequently changing values. A nil pointer means that
// the driver does not report the value, or that the sample omits it.
type Sample struct {
	Time time.Time

	MemoryUsedMiB, MemoryTotalMiB *uint64
	PowerW                        *float64
	TemperatureC                  *uint
	GPUUtil, MemoryUtil           *uint // percent

	// Counters of the bytes sent over NVLink and PCIe. They can wrap.
	NVLinkTx, NVLinkRx *uint64
	PCIeTx, PCIeRx     *uint64

	Rest
}

// Rest holds the values that take long to read, or that rarely change. Only a
// complete sample contains them.
type Rest struct {
	// Counters of ECC errors since the driver was loaded.
	ECCCorrected, ECCUncorrected *uint64
	ECCL1, ECCL2, ECCMemory      *uint64 // corrected

	// RetiredPending and RemapPending state that bad memory waits for a reset to be
	// taken out of use, RemapFailed that this failed.
	RetiredPending, RemapPending, RemapFailed *bool
	// Recovery is the action that the driver requests, empty if none.
	Recovery string

	MemoryTemperatureC        *uint
	PowerLimitW               *float64
	BAR1UsedMiB, BAR1TotalMiB *uint64
	EncoderUtil, DecoderUtil  *uint // percent
	CoreClockMHz              *uint
	MemoryClockMHz            *uint
	// Throttle is NVML's bit mask of reasons for lower clocks.
	Throttle *uint64
	// PCIeTxRate and PCIeRxRate are in bytes per second. They come from drivers
	// that have no PCIe counters.
	PCIeTxRate, PCIeRxRate *float64
	// Fabric is the same as in Facts, but newer.
	Fabric *Fabric
	// Instances holds the used memory of MIG instances in MiB, by UUID.
	Instances map[string]uint64
}

// EventKind is a kind of event.
type EventKind int

// The events that affect health.
const (
	// EventXID is an error that the driver reports with a number, its XID.
	EventXID EventKind = iota
	// EventDoubleBit is an ECC error that could not be corrected.
	EventDoubleBit
)

// Event is an event of a GPU.
type Event struct {
	Kind EventKind
	// UUID identifies the GPU. It is empty if the driver does not report which.
	UUID string
	// XID is the driver's number of the error.
	XID uint64
	// GI and CI identify the MIG instance; -1 means the whole GPU.
	GI, CI int
}
