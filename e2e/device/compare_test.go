// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

//go:build gpu

package device

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/hashicorp/nomad/plugins/shared/structs"
	"github.com/shoenig/test/must"
)

// facts maps fields of nvidia-smi to attributes.
var facts = map[string]string{
	"memory.total": "memory", "enforced.power.limit": "power", "clocks.max.graphics": "cores_clock",
	"clocks.max.memory": "memory_clock", "pcie.link.gen.max": "pcie_gen", "pcie.link.width.max": "pcie_width",
	"display_mode": "display_state", "persistence_mode": "persistence_mode", "ecc.mode.current": "ecc",
	"compute_cap": "cuda_compute_capability", "driver_version": "driver_version",
}

// readings maps fields of nvidia-smi to statistics, and by how much they may
// differ: the two are not read in the same moment.
var readings = map[string]struct {
	name string
	by   float64
}{
	"temperature.gpu":                       {"Temperature", 10},
	"temperature.memory":                    {"Memory temperature", 10},
	"power.draw":                            {"Power usage", 60},
	"memory.used":                           {"Memory state", 256},
	"ecc.errors.uncorrected.volatile.total": {"ECC uncorrected errors", 0},
	"clocks_event_reasons.active":           {"Throttle reasons", 0},
	"clocks_throttle_reasons.active":        {"Throttle reasons", 0}, // before driver 535
}

// smiFields returns all fields that are queried.
func smiFields() []string {
	fields := []string{"uuid", "name", "pci.bus_id", "mig.mode.current", "memory.reserved"}
	for f := range facts {
		fields = append(fields, f)
	}
	for f := range readings {
		fields = append(fields, f)
	}
	slices.Sort(fields)
	return fields
}

// nvidiaSMI runs the nvidia-smi of the PATH.
func nvidiaSMI(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// Without persistence mode it takes seconds for each GPU.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", args...).CombinedOutput()
	return string(out), err
}

var invalidField = regexp.MustCompile(`Field "([^"]+)" is not a valid field to query`)

// query queries fields of each GPU. Fields that this version of nvidia-smi does
// not know are left out, and so are values that it does not report.
func query(t *testing.T, fields []string) []map[string]string {
	t.Helper()
	for len(fields) > 0 {
		out, err := nvidiaSMI(t, "--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits")
		if m := invalidField.FindStringSubmatch(out); m != nil && slices.Contains(fields, m[1]) {
			t.Logf("this nvidia-smi does not know %s", m[1])
			fields = slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == m[1] })
			continue
		}
		must.NoError(t, err, must.Sprint(out))
		gpus, err := parseQuery(out, fields)
		must.NoError(t, err, must.Sprint(out))
		return gpus
	}
	t.Fatal("this nvidia-smi knows none of the fields")
	return nil
}

// text returns an attribute as nvidia-smi would write it.
func text(a *structs.Attribute) string {
	switch {
	case a == nil:
		return "nothing"
	case a.String != nil:
		return *a.String
	case a.Bool != nil:
		return map[bool]string{true: "Enabled", false: "Disabled"}[*a.Bool]
	case a.Int != nil:
		return strconv.FormatInt(*a.Int, 10)
	default:
		return strconv.FormatFloat(*a.Float, 'g', -1, 64)
	}
}

// agree compares words, or numbers whose fraction may be cut off: nvidia-smi
// writes 700.00 for 700.
func agree(t *testing.T, id, field, want, got string) {
	t.Helper()
	w, errW := strconv.ParseFloat(want, 64)
	g, errG := strconv.ParseFloat(got, 64)
	same := want == got || errW == nil && errG == nil && (w == g || w > 100 && math.Abs(w-g) < 1)
	if !same {
		t.Errorf("%s: %s is %q for nvidia-smi, %q for the plugin", id, field, want, got)
		return
	}
	t.Logf("%s: %s is %s for both", id, field, want)
}

// compareReadings tries several times, for both are moving.
func compareReadings(ctx context.Context, t *testing.T, p device.DevicePlugin) {
	t.Helper()
	stats, err := p.Stats(ctx, time.Second)
	must.NoError(t, err)
	var differences []string
	for range 8 { // the plugin reads some things every 5 s only
		s := <-stats
		must.NoError(t, s.Error)
		differences = nil
		for _, want := range query(t, smiFields()) {
			if want["mig.mode.current"] == "Enabled" {
				continue
			}
			for _, g := range s.Groups {
				if now := g.InstanceStats[want["uuid"]]; now != nil {
					differences = append(differences, differ(want, now.Stats.Attributes)...)
				}
			}
		}
		if len(differences) == 0 {
			return
		}
	}
	for _, d := range differences {
		t.Error(d)
	}
}

func differ(want map[string]string, got map[string]*structs.StatValue) []string {
	var all []string
	for field, r := range readings {
		v := want[field]
		if v == "" {
			continue
		}
		now := got[r.name]
		w, err := strconv.ParseFloat(v, 64)
		if field == "memory.used" {
			// NVML's first version, which nomad-device-nvidia uses too, counts
			// what the driver reserves as used.
			reserved, _ := strconv.ParseFloat(want["memory.reserved"], 64)
			w += reserved
		}
		switch {
		case strings.HasSuffix(field, "_reasons.active"):
			if reasons := throttled(v); now.StringVal == nil || *now.StringVal != reasons {
				all = append(all, fmt.Sprintf("%s: %s is %s (%s) for nvidia-smi, %s for the plugin",
					want["uuid"], field, v, reasons, shown(now)))
			}
		case err != nil || now.IntNumeratorVal == nil || math.Abs(w-float64(*now.IntNumeratorVal)) > r.by:
			all = append(all, fmt.Sprintf("%s: %s is %s for nvidia-smi, %s for the plugin", want["uuid"], field, v, shown(now)))
		}
	}
	return all
}

func shown(v *structs.StatValue) string {
	switch {
	case v.StringVal != nil:
		return *v.StringVal
	case v.IntNumeratorVal != nil:
		return strconv.FormatInt(*v.IntNumeratorVal, 10) + " " + v.Unit
	default:
		return "nothing"
	}
}

// throttled returns the bits as NVML's documentation has them, without idle (1)
// and what users set (2, 0x100).
func throttled(mask string) string {
	bits, err := strconv.ParseUint(strings.TrimPrefix(mask, "0x"), 16, 64)
	if err != nil {
		return mask
	}
	var names []string
	for i, name := range []string{2: "power cap", "hardware slowdown", "sync boost",
		"software thermal slowdown", "hardware thermal slowdown", "power brake"} {
		if name != "" && bits&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
