// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package nvml

import (
	"time"

	"github.com/kolo-nomad/kolo/device/topology"
)

// Library is an NVML that may become unavailable. Its methods may be called from
// several goroutines, but not Open and Close at the same time as others.
type Library interface {
	// Open loads and initializes NVML. It may be repeated after an error.
	Open() error
	// Close shuts NVML down. Its GPUs and watches cannot be used after it.
	Close() error
	// Driver returns the versions.
	Driver() (Driver, error)
	// Count returns how many GPUs NVML lists.
	Count() (int, error)
	// GPU returns the GPU with NVML's index, which is not stable over reboots.
	GPU(index int) (GPU, error)
	// Pair returns how two GPUs reach each other.
	Pair(a, b GPU) (topology.Pair, error)
	// Watch starts to listen for events of the GPUs. The second result has the
	// errors of GPUs that cannot be watched, by their position.
	Watch(gpus []GPU) (Watch, map[int]error, error)
}

// GPU is one GPU of an open Library.
type GPU interface {
	// Facts reads what seldom changes. Only what identifies the GPU is an
	// error when it cannot be read.
	Facts() (Facts, error)
	// Sample reads what changes all the time. What is slow to read or slow to
	// change is left out unless all is wanted.
	Sample(all bool) (Sample, error)
}

// Watch is a stream of events.
type Watch interface {
	// Next waits for an event. It returns false when none came in time.
	Next(wait time.Duration) (Event, bool, error)
	// Close ends the watch.
	Close() error
}

// Driver holds the versions of the driver.
type Driver struct {
	// Version is the driver's, such as 550.54.15.
	Version string
	// CUDA is the newest CUDA the driver can run, such as 12.4; 0 when unknown.
	CUDA float64
}

// Facts is what is known of a GPU and seldom changes. A nil pointer, an empty
// string or a 0 is a fact that the GPU or the driver does not report.
type Facts struct {
	UUID string
	Name string
	// Bus is the PCI address as sysfs writes it: 0000:07:00.0.
	Bus string
	// Minor is the number in /dev/nvidia<minor>.
	Minor *int

	MemoryMiB      *uint64
	BAR1MiB        *uint64
	PowerLimitW    *uint
	CoreClockMHz   *uint // highest
	MemoryClockMHz *uint // highest
	Display        *bool
	Persistence    *bool
	ECC            *bool

	// PCIeGen and PCIeWidth are the highest that GPU and slot can do together.
	PCIeGen, PCIeWidth int

	// Architecture is the code name in small letters: hopper.
	Architecture string
	// Compute is the CUDA compute capability: 9.0.
	Compute float64

	// NVLinkVersion is 4.0 and the like; 0 without NVLink.
	NVLinkVersion float64
	// Ports are the NVLinks that are up.
	Ports []topology.Port
	// Fabric is nil for a GPU that belongs to none.
	Fabric *Fabric

	// NUMA is the NUMA node; -1 when unknown.
	NUMA int
	// Switch is the PCIe bridge that the GPU hangs on, Root the PCIe root
	// (pci0000:00), both as sysfs writes them.
	Switch, Root string

	// MIG is true when the GPU is split into instances. There may be none.
	MIG       bool
	Instances []Instance
}

// Fabric is the NVLink fabric that a GPU has registered with.
type Fabric struct {
	// Cluster is the UUID of the NVLink domain (an NVL72 rack); empty when the
	// fabric does not span machines.
	Cluster string
	// Clique is the part of the domain in which NVLink works.
	Clique uint32
	// Ready is true when the fabric manager has set up the GPU: before that,
	// CUDA does not start on it.
	Ready bool
	// Problem is why the fabric cannot be used; empty when it can. A GPU that
	// was set up can have one too.
	Problem string
}

// Instance is a MIG instance.
type Instance struct {
	UUID string
	// Name is NVML's: the GPU's name, MIG and the profile.
	Name string
	// Profile is the shape, such as 1g.10gb.
	Profile string
	// MemoryMiB is the memory of this instance.
	MemoryMiB *uint64
	// GI and CI are the numbers of the GPU instance and compute instance.
	GI, CI int
}

// Sample is a reading of what changes. A nil pointer is what the driver does not
// report or, in a sample that is not of all, was not read.
type Sample struct {
	Time time.Time

	MemoryUsedMiB, MemoryTotalMiB *uint64
	PowerW                        *float64
	TemperatureC                  *uint
	GPUUtil, MemoryUtil           *uint // percent

	// Counters of what went over NVLink and PCIe, in bytes. They can wrap.
	NVLinkTx, NVLinkRx *uint64
	PCIeTx, PCIeRx     *uint64

	Rest
}

// Rest is the part that only a sample of all has.
type Rest struct {
	// ECC errors since the driver was loaded.
	ECCCorrected, ECCUncorrected *uint64
	ECCL1, ECCL2, ECCMemory      *uint64 // corrected

	// RetiredPending and RemapPending are true when bad memory waits for a reset
	// to be taken out of use, RemapFailed when that failed.
	RetiredPending, RemapPending, RemapFailed *bool
	// Recovery is the action that the driver requests; empty is none.
	Recovery string

	MemoryTemperatureC        *uint
	PowerLimitW               *float64
	BAR1UsedMiB, BAR1TotalMiB *uint64
	EncoderUtil, DecoderUtil  *uint // percent
	CoreClockMHz              *uint
	MemoryClockMHz            *uint
	// Throttle is NVML's bit mask of reasons for lower clocks.
	Throttle *uint64
	// PCIeTxRate and PCIeRxRate are bytes per second, of drivers that have no
	// PCIe counters.
	PCIeTxRate, PCIeRxRate *float64
	// Fabric is as in Facts, but newer.
	Fabric *Fabric
	// Instances is the used memory of MIG instances in MiB, by UUID.
	Instances map[string]uint64
}

// EventKind is a kind of event.
type EventKind int

// The events that affect health.
const (
	// EventXID is an error that the driver reports with a number.
	EventXID EventKind = iota
	// EventDoubleBit is an ECC error that could not be corrected.
	EventDoubleBit
)

// Event is something that happened to a GPU.
type Event struct {
	Kind EventKind
	// UUID is the GPU; empty when the driver does not report which.
	UUID string
	// XID is the driver's number of the error.
	XID uint64
	// GI and CI name the MIG instance; -1 is the whole GPU.
	GI, CI int
}
