// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package attest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/shoenig/test/must"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// ring is what the hosts of a full mesh report.
type ring struct {
	listening Addresses
	ends      []End
}

// mesh connects each member to all with a lower number.
func mesh(members int) ring {
	r := ring{listening: Addresses{}}
	at := func(member, port int) netip.AddrPort { return addr(fmt.Sprintf("10.0.0.%d:%d", member+1, port)) }
	for i := range members {
		r.listening.Add(at(i, 3000))
		for j := range i {
			e := End{at(i, 40000+j), at(j, 3000)}
			r.ends = append(r.ends, e, e.Other())
		}
	}
	return r
}

func (r ring) with(ends ...End) ring {
	return ring{r.listening, append(slices.Clone(r.ends), ends...)}
}

func (r ring) without(ends ...End) ring {
	return ring{r.listening, slices.DeleteFunc(slices.Clone(r.ends), func(e End) bool { return slices.Contains(ends, e) })}
}

func (r ring) judge() Verdict { return Judge(r.listening, r.ends) }

func TestJudge(t *testing.T) {
	two, accepted := mesh(2), End{addr("10.0.0.1:3000"), addr("10.0.0.2:40000")}
	stranger := End{addr("10.0.0.1:3000"), addr("10.0.0.1:55555")}
	elsewhere := End{addr("10.0.0.1:3000"), addr("192.0.2.9:1234")}
	translated := End{addr("10.0.0.1:3000"), addr("10.0.0.99:1")}
	six := ring{Addresses{addr("[fd00::1]:3000"): true}, nil}
	for name, c := range map[string]struct {
		r    ring
		want Verdict
	}{
		"one member":                     {mesh(1), Verdict{}},
		"two members":                    {two, Verdict{}},
		"many members":                   {mesh(20), Verdict{}},
		"IPv6":                           {six.with(End{addr("[fd00::1]:3000"), addr("[fd00::2]:1")}, End{addr("[fd00::2]:1"), addr("[fd00::1]:3000")}), Verdict{}},
		"a stranger first":               {two.with(stranger), Verdict{Strangers: []End{stranger}}},
		"a stranger of another machine":  {two.with(elsewhere), Verdict{Strangers: []End{elsewhere}}},
		"two strangers, sorted":          {two.with(elsewhere, stranger), Verdict{Strangers: []End{stranger, elsewhere}}},
		"a stranger to one who is alone": {mesh(1).with(stranger), Verdict{Strangers: []End{stranger}}},
		"a stranger's listener":          {two.without(accepted), Verdict{Strangers: []End{accepted.Other()}}},
		"translated":                     {two.without(accepted).with(translated), Verdict{Translated: 1}},
		"translated, and a stranger": {two.without(accepted).with(translated, stranger),
			Verdict{Strangers: []End{stranger, translated, accepted.Other()}}},
		"a script's own connection": {two.with(End{addr("10.0.0.1:50000"), addr("192.0.2.1:443")}), Verdict{}},
		"reported twice":            {two.with(two.ends...), Verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			slices.SortFunc(c.want.Strangers, compareEnds)
			must.Eq(t, fmt.Sprint(c.want), fmt.Sprint(c.r.judge()))
		})
	}
}

// Every stranger's connection to a ring's listeners is found, in any order of
// reports, and no other end is called a stranger's.
func TestJudgeFindsAllStrangersAndNoMembers(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := mesh(1 + random.IntN(8))
		listeners := slices.Collect(maps.Keys(r.listening))
		var strangers []End
		for i := range random.IntN(4) {
			strangers = append(strangers, End{listeners[random.IntN(len(listeners))], addr(fmt.Sprintf("203.0.113.%d:%d", i+1, 1+random.IntN(65535)))})
		}
		own := End{addr("10.0.0.1:50000"), addr("192.0.2.1:443")}
		r = r.with(append(strangers, own)...)
		random.Shuffle(len(r.ends), func(i, j int) { r.ends[i], r.ends[j] = r.ends[j], r.ends[i] })
		slices.SortFunc(strangers, compareEnds)
		must.Eq(t, fmt.Sprint(Verdict{Strangers: strangers}), fmt.Sprint(r.judge()), must.Sprint("seed", seed))
	}
}

func TestAddresses(t *testing.T) {
	set := Addresses{}
	for _, s := range []string{"[::ffff:10.0.0.1]:5", "[fe80::1%eth0]:5", "0.0.0.0:5", "[::]:5", "10.0.0.1:0"} {
		set.Add(addr(s))
	}
	set.Add(netip.AddrPort{})
	must.True(t, maps.Equal(Addresses{addr("10.0.0.1:5"): true, addr("[fe80::1]:5"): true}, set))
}

// FuzzReport covers the reports of other agents: each is refused or judged.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`[{"local":"10.0.0.1:3000","remote":"10.0.0.2:40000"}]`), "10.0.0.1:3000")
	f.Add([]byte(`[{"local":"[fd00::1%a]:3000"},{}]`), "[::]:1")
	f.Add([]byte(`[{"local":"","remote":"1.2.3.4:99999"}]`), "")
	f.Fuzz(func(t *testing.T, report []byte, listener string) {
		var ends []End
		if json.Unmarshal(report, &ends) != nil || Check(ends) != nil {
			return
		}
		listening := Addresses{}
		if a, err := netip.ParseAddrPort(listener); err == nil {
			listening.Add(a)
		}
		v := Judge(listening, ends)
		for _, e := range v.Strangers {
			must.True(t, slices.Contains(ends, e) && !slices.Contains(ends, e.Other()))
		}
		both := slices.Clone(ends)
		for _, e := range ends {
			both = append(both, e.Other())
		}
		must.Eq(t, fmt.Sprint(Verdict{}), fmt.Sprint(Judge(listening, both)))
	})
}

func TestCheckBoundsAReport(t *testing.T) {
	e := End{addr("10.0.0.1:1"), addr("10.0.0.2:2")}
	must.NoError(t, Check(slices.Repeat([]End{e}, MaxEnds)))
	must.Error(t, Check(slices.Repeat([]End{e}, MaxEnds+1)))
	must.ErrorContains(t, Check([]End{{Local: e.Local}}), "no connection")
}
