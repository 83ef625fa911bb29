// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// format is how values are written: its name in the reference, and what reads
// one or reports what is wrong with it.
type format[T any] struct {
	name string
	read func(*hcl.Attribute) (T, hcl.Diagnostics)
}

// value evaluates an attribute to a known value of the wanted type. No
// conversion: port = "80" is more likely a mistake than intended.
func value(a *hcl.Attribute, want cty.Type, example string) (cty.Value, hcl.Diagnostics) {
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		return v, diags
	}
	if v.IsNull() || !v.IsKnown() || v.Type() != want {
		return v, wrongValue(a, "A %s is expected; write %s = %s.", want.FriendlyName(), a.Name, example)
	}
	return v, nil
}

// text is any text but the empty one.
var text = checked("text", func(s string) (string, string) { return s, "" })

// checked returns the format of a text that a function accepts, or refuses with
// a complaint.
func checked(name string, check func(s string) (checked, complaint string)) format[string] {
	return format[string]{name, func(a *hcl.Attribute) (string, hcl.Diagnostics) {
		v, diags := value(a, cty.String, `"…"`)
		if diags.HasErrors() {
			return "", diags
		}
		if v.AsString() == "" {
			return "", wrongValue(a, "It is empty; write a value, or leave the line out.")
		}
		s, complaint := check(v.AsString())
		if complaint != "" {
			return "", wrongValue(a, "%s", complaint)
		}
		return s, nil
	}}
}

func oneOf(words ...string) format[string] {
	return checked("`"+strings.Join(words, "`, `")+"`", func(s string) (string, string) {
		if !slices.Contains(words, s) {
			return "", fmt.Sprintf("%q is not known; write one of %s.", s, strings.Join(words, ", "))
		}
		return s, ""
	})
}

// path is that of a file or directory.
var path = format[string]{"path", text.read}

// existing is the path of a file or directory that exists.
var existing = checked("path", func(s string) (string, string) {
	if _, err := os.Stat(s); err != nil {
		return "", fmt.Sprintf("%v; write the path of a file that is there.", err)
	}
	return s, ""
})

// address is an address of this machine to listen at.
var address = checked("IP address or `localhost`", func(s string) (string, string) {
	if net.ParseIP(s) == nil && s != "localhost" {
		return "", fmt.Sprintf("%q is not an IP address; write one of this machine, such as 127.0.0.1 or 0.0.0.0, without a port.", s)
	}
	return s, ""
})

// origin is the URL of an API, without a path.
var origin = checked("URL", func(s string) (string, string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return "", fmt.Sprintf(`%q is not the URL of an API; write one such as "http://10.0.0.1:8648".`, s)
	}
	return u.Scheme + "://" + u.Host, ""
})

var boolean = format[bool]{"`true` or `false`", func(a *hcl.Attribute) (bool, hcl.Diagnostics) {
	v, diags := value(a, cty.Bool, "true")
	if diags.HasErrors() {
		return false, diags
	}
	return v.True(), nil
}}

func whole(low, high int) format[int] {
	return format[int]{fmt.Sprintf("%d to %d", low, high), func(a *hcl.Attribute) (int, hcl.Diagnostics) {
		v, diags := value(a, cty.Number, exampleOf(a, max(low, 1), high))
		if diags.HasErrors() {
			return 0, diags
		}
		f, _ := v.AsBigFloat().Float64()
		if f != math.Trunc(f) || f < float64(low) || f > float64(high) {
			return 0, wrongValue(a, "%v is not a whole number from %d to %d.", f, low, high)
		}
		return int(f), nil
	}}
}

// exampleOf returns an example of a whole number for a message: the digits at the start of the
// user's text, such as 1000 of "1000MHz", or else low.
func exampleOf(a *hcl.Attribute, low, high int) string {
	if v, diags := a.Expr.Value(nil); !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
		text := v.AsString()
		digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
		if n, err := strconv.Atoi(digits); err == nil && n >= low && n <= high {
			return digits
		}
	}
	return strconv.Itoa(low)
}

// fraction returns the format of a number that need not be whole.
func fraction(low, high float64) format[float64] {
	bounds := fmt.Sprintf("%s to %s", decimal(low), decimal(high))
	return format[float64]{"number, " + bounds, func(a *hcl.Attribute) (float64, hcl.Diagnostics) {
		v, diags := value(a, cty.Number, "2.5")
		if diags.HasErrors() {
			return 0, diags
		}
		f, _ := v.AsBigFloat().Float64()
		if math.IsNaN(f) || f < low || f > high {
			return 0, wrongValue(a, "%v is not a number from %s.", f, bounds)
		}
		return f, nil
	}}
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func duration(low, high string) format[time.Duration] {
	least, most := mustDuration(low), mustDuration(high)
	example := "30s"
	if least > mustDuration(example) {
		example = low
	}
	return format[time.Duration]{fmt.Sprintf("duration, %s to %s", low, high), func(a *hcl.Attribute) (time.Duration, hcl.Diagnostics) {
		v, diags := value(a, cty.String, strconv.Quote(example))
		if diags.HasErrors() {
			return 0, diags
		}
		d, err := time.ParseDuration(v.AsString())
		if err != nil {
			return 0, wrongValue(a, `%q is not a duration; write a number with its unit, such as "500ms", "30s" or "5m".`, v.AsString())
		}
		if d < least || d > most {
			return 0, wrongValue(a, "%s is outside %s to %s.", d, low, high)
		}
		return d, nil
	}}
}

// moment is a time with its zone.
var moment = format[time.Time]{"RFC 3339 time", func(a *hcl.Attribute) (time.Time, hcl.Diagnostics) {
	v, diags := value(a, cty.String, `"2026-12-01T09:00:00Z"`)
	if diags.HasErrors() {
		return time.Time{}, diags
	}
	t, err := time.Parse(time.RFC3339, v.AsString())
	if err != nil {
		return time.Time{}, wrongValue(a, `%q is no time with its zone; write one such as "2026-12-01T09:00:00Z" or "2026-12-01T10:00:00+01:00".`, v.AsString())
	}
	return t, nil
}}

// mustDuration reads a constant of this package.
func mustDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// list returns the format of a list of texts. A function accepts each text, or
// refuses it with a complaint.
func list(of, example string, check func(entry int, s string) (checked, complaint string)) format[[]string] {
	return format[[]string]{"list of " + of, func(a *hcl.Attribute) ([]string, hcl.Diagnostics) {
		v, diags := a.Expr.Value(nil)
		if diags.HasErrors() {
			return nil, diags
		}
		if v.IsNull() || !v.IsWhollyKnown() || !v.Type().IsTupleType() {
			return nil, wrongValue(a, "A list of %s is expected; write %s = %s.", of, a.Name, example)
		}
		out := []string{}
		for _, e := range v.AsValueSlice() {
			if e.Type() != cty.String || e.IsNull() {
				return nil, wrongValue(a, "Entry %d is no text. A list of %s is expected; write %s = %s.", len(out)+1, of, a.Name, example)
			}
			s, complaint := check(len(out)+1, e.AsString())
			if complaint != "" {
				return nil, wrongValue(a, "%s", complaint)
			}
			out = append(out, s)
		}
		return out, nil
	}}
}
