// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Command nvidia-smi is a stub of NVIDIA's program for a machine of package
// nvmltest, for the dry run of `make gpu`. It reads the machine file itself rather
// than through the stub library, and prints the requested values in NVIDIA's
// format. The format was written from nvidia-smi's manual and from published
// outputs.
//
// NVMLTEST_SMI_LIE makes it print wrong values for the first GPU. Its value is a
// list separated by semicolons. An entry is field=value for a field of --query-gpu,
// or one of the words matrix, numa, nvlinks and instances.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/kolo-nomad/kolo/device/nvml/nvmltest"
)

func main() {
	text, err := os.ReadFile(os.Getenv("NVMLTEST_MACHINE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver:", err)
		os.Exit(9)
	}
	d := nvmltest.Describe(string(text))
	args := strings.Join(os.Args[1:], " ")
	switch {
	case strings.HasPrefix(args, "--query-gpu="):
		fields, format, _ := strings.Cut(strings.TrimPrefix(args, "--query-gpu="), " ")
		if format != "--format=csv,noheader,nounits" {
			fmt.Fprintln(os.Stderr, "the stub does not have the format", format)
			os.Exit(2)
		}
		os.Exit(query(d, strings.Split(fields, ",")))
	case args == "-L":
		list(d)
	case args == "topo -m":
		topo(d)
	case args == "nvlink -s":
		nvlinks(d)
	default:
		fmt.Fprintln(os.Stderr, "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.")
		os.Exit(2)
	}
}

func printf(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format, args...) }

// lie returns what to print instead of the truth.
func lie(about string) (instead string, yes bool) {
	for _, l := range strings.Split(os.Getenv("NVMLTEST_SMI_LIE"), ";") {
		if name, instead, _ := strings.Cut(l, "="); name == about {
			return instead, true
		}
	}
	return "", false
}

func lies(about string) bool {
	_, yes := lie(about)
	return yes
}

// query prints the fields of each GPU as CSV.
func query(d nvmltest.Description, fields []string) int {
	for i, g := range d.GPUs {
		var row []string
		for _, f := range fields {
			v, known := field(d, g, f)
			if !known {
				printf("Field %q is not a valid field to query.\n\n", f)
				return 2
			}
			if instead, yes := lie(f); yes && i == 0 {
				v = instead
			}
			row = append(row, v)
		}
		printf("%s\n", strings.Join(row, ", "))
	}
	return 0
}

func field(d nvmltest.Description, g nvmltest.GPU, name string) (value string, known bool) {
	plain := map[string]string{
		"name": "name", "memory.total": "memory", "clocks.max.graphics": "core_clock", "clocks.max.memory": "memory_clock",
		"temperature.gpu": "temperature",
	}
	if key, ok := plain[name]; ok {
		return g.Get(key), true
	}
	switch name {
	case "uuid":
		return g.UUID, true
	case "pci.bus_id":
		return g.Get("bus"), true
	case "driver_version":
		return d.Machine["driver"], true
	case "compute_cap":
		return strings.ReplaceAll(g.Get("compute"), " ", "."), true
	case "enforced.power.limit":
		return milli(g, "power_limit"), true
	case "power.draw":
		return milli(g, "power"), true
	case "pcie.link.gen.max":
		return pcie(g)[0], true
	case "pcie.link.width.max":
		return pcie(g)[1], true
	case "display_mode":
		// Drivers since 575 print this.
		return "[Requested functionality has been deprecated]", true
	case "persistence_mode":
		return state(g, "persistence", "Disabled"), true
	case "ecc.mode.current":
		return state(g, "ecc", "[N/A]"), true
	case "mig.mode.current":
		if len(g.Keys["mig"]) > 0 {
			return "Enabled", true
		}
		return state(g, "mig_mode", "[N/A]"), true
	default:
		return reading(g, name)
	}
}

// reading returns a frequently changing field.
func reading(g nvmltest.GPU, name string) (value string, known bool) {
	switch name {
	case "temperature.memory": // as in the NVML stub
		if number(g.Get("arch")) < 7 {
			return "N/A", true
		}
		return fmt.Sprint(number(g.Get("temperature")) + 9), true
	case "memory.used":
		return fmt.Sprint(max(0, number(g.Get("memory_used"))-1)), true
	case "memory.reserved": // part of what NVML's first version calls used
		return fmt.Sprint(min(1, number(g.Get("memory_used")))), true
	case "ecc.errors.uncorrected.volatile.total":
		if g.Get("ecc") != "1" {
			return "[N/A]", true
		}
		return fmt.Sprint(number(g.Get("ecc_uncorrected"))), true
	case "clocks_event_reasons.active":
		return fmt.Sprintf("0x%016x", int(number(g.Get("throttle")))), true
	default:
		return "", false
	}
}

func milli(g nvmltest.GPU, key string) string { return fmt.Sprintf("%.2f", number(g.Get(key))/1000) }

// pcie returns generation and width.
func pcie(g nvmltest.GPU) []string {
	return append(strings.Fields(g.Get("pcie")), "[N/A]", "[N/A]")
}

func state(g nvmltest.GPU, key, otherwise string) string {
	switch g.Get(key) {
	case "1":
		return "Enabled"
	case "0":
		return "Disabled"
	default:
		return otherwise
	}
}

func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64) // an empty text is 0
	return v
}

func list(d nvmltest.Description) {
	for i, g := range d.GPUs {
		printf("GPU %d: %s (UUID: %s)\n", i, g.Get("name"), g.UUID)
		for j, mig := range g.Keys["mig"] {
			f := strings.Fields(mig)
			if lies("instances") && j == 0 {
				continue
			}
			printf("  MIG %s     Device %2d: (UUID: %s)\n", f[0], j, f[1])
		}
	}
}

func topo(d nvmltest.Description) {
	printf("\t\033[4m")
	for i := range d.GPUs {
		printf("GPU%d\t", i)
	}
	printf("NIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n")
	for i, a := range d.GPUs {
		printf("GPU%d\t", i)
		for j, b := range d.GPUs {
			printf("%s\t", link(d, a, b, i == j))
		}
		node := a.Get("numa")
		if lies("numa") && i == 0 {
			node = "5"
		}
		printf("SYS\t0-51,104-155\t%s\t\tN/A\n", node)
	}
	printf("NIC0\t%s X \t\t\t\t\n\nLegend:\n\n  X    = Self\n", strings.Repeat("SYS\t", len(d.GPUs)))
}

// link returns a cell of the matrix.
func link(d nvmltest.Description, a, b nvmltest.GPU, self bool) string {
	n := 0
	for _, l := range a.Keys["links"] {
		var to string
		var count int
		_, _ = fmt.Sscan(l, &to, &count)
		if to == b.Get("bus") || to == "switch" {
			n += count
		}
	}
	mig := len(a.Keys["mig"])+len(b.Keys["mig"]) > 0
	switch {
	case self:
		return " X "
	case lies("matrix") && b.UUID == d.GPUs[0].UUID:
		return "NV3"
	case n > 0 && !mig:
		return fmt.Sprintf("NV%d", n)
	case a.Get("switch") != "" && a.Get("switch") == b.Get("switch"):
		return "PIX"
	case a.Get("root") == b.Get("root"):
		return "PHB"
	case a.Get("numa") == b.Get("numa"):
		return "NODE"
	default:
		return "SYS"
	}
}

func nvlinks(d nvmltest.Description) {
	for i, g := range d.GPUs {
		printf("GPU %d: %s (UUID: %s)\n", i, g.Get("name"), g.UUID)
		n := 0
		for _, l := range g.Keys["links"] {
			var to string
			var count int
			_, _ = fmt.Sscan(l, &to, &count)
			for range count {
				switch {
				case to == "down", lies("nvlinks") && i == 0 && n == 0:
					printf("\t Link %d: <inactive>\n", n)
				default:
					printf("\t Link %d: %.3f GB/s\n", n, number(g.Get("nvlink_mbps"))/1000)
				}
				n++
			}
		}
	}
}
