// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package rendezvous_test

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/framework/horovod/rendezvous"
)

// pythonPickles prints, for each protocol that has bytes, what a process would
// send; then things that are not what it would send.
const pythonPickles = `
import base64, pickle
def show(name, value, protocol=5):
    print(name, base64.b64encode(pickle.dumps(value, protocol=protocol)).decode())
class Evil:
    def __reduce__(self):
        return (print, ("gotcha",))
key = bytes(range(32))
nics = {"lo": [("127.0.0.1", 40001)], "eth0": [("10.0.0.7", 40001), ("10.0.0.8", 40001)]}
for p in (3, 4, 5):
    show("good-%d" % p, (nics, key), p)
    show("low-port-%d" % p, ({"lo": [("127.0.0.1", 200)]}, key), p)
    show("long-key-%d" % p, ({"lo": [("127.0.0.1", 40001)]}, b"k" * 300), p)
show("bad-code", Evil())
show("bad-code-inside", ({"lo": [("127.0.0.1", Evil())]}, key))
show("bad-protocol-2", (nics, key), 2)
show("bad-not-a-pair", [nics, key])
show("bad-three", (nics, key, key))
show("bad-key-str", (nics, "key"))
show("bad-key-empty", (nics, b""))
show("bad-key-none", (nics, None))
show("bad-no-address", ({}, key))
show("bad-no-address-of-nic", ({"lo": []}, key))
show("bad-ports-differ", ({"lo": [("127.0.0.1", 1), ("127.0.0.1", 2)]}, key))
show("bad-port-str", ({"lo": [("127.0.0.1", "1")]}, key))
show("bad-port-0", ({"lo": [("127.0.0.1", 0)]}, key))
show("bad-port-negative", ({"lo": [("127.0.0.1", -5)]}, key))
show("bad-port-high", ({"lo": [("127.0.0.1", 65536)]}, key))
show("bad-port-float", ({"lo": [("127.0.0.1", 80.5)]}, key))
show("bad-address-list", ({"lo": [["127.0.0.1", 80]]}, key))
show("bad-nic-int", ({3: [("127.0.0.1", 80)]}, key))
show("bad-key-long", (nics, b"k" * 5000))
`

// Pickles from Python itself are read or refused, with any protocol.
func TestDecodeNotifyTarget_Python(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	out, err := exec.Command(python, "-c", pythonPickles).Output()
	must.NoError(t, err)
	good, bad := 0, 0
	for line := range strings.Lines(string(out)) {
		name, body, ok := strings.Cut(strings.TrimSpace(line), " ")
		must.True(t, ok)
		target, err := rendezvous.DecodeNotifyTarget([]byte(body))
		if strings.HasPrefix(name, "bad-") {
			must.Error(t, err, must.Sprint(name))
			bad++
			continue
		}
		must.NoError(t, err, must.Sprint(name))
		wantPort, wantKey := 40001, 32
		if strings.HasPrefix(name, "low-port") {
			wantPort = 200
		}
		if strings.HasPrefix(name, "long-key") {
			wantKey = 300
		}
		must.Eq(t, wantPort, target.Port, must.Sprint(name))
		must.Len(t, wantKey, target.Key, must.Sprint(name))
		must.Eq(t, fmt.Sprintf("127.0.0.1:%d", wantPort), fmt.Sprintf("%+v", target)) // without the key
		good++
	}
	must.Eq(t, 9, good)
	must.Eq(t, 19, bad)
}

// Pickles that no Python would write for an address are refused, byte by byte.
func TestDecodeNotifyTarget_Refused(t *testing.T) {
	cases := map[string]string{
		"empty":                       "",
		"no protocol":                 "}.",
		"protocol 1":                  "\x80\x01}.",
		"protocol 6":                  "\x80\x06}.",
		"ends before stop":            "\x80\x04}",
		"global":                      "\x80\x04cos\nsystem\n.",
		"stack global":                "\x80\x04\x8c\x02os\x8c\x06system\x93.",
		"reduce":                      "\x80\x04))R.",
		"newobj":                      "\x80\x04))\x81.",
		"build":                       "\x80\x04}}b.",
		"persistent id":               "\x80\x04)Q.",
		"extension":                   "\x80\x04\x82\x01.",
		"set":                         "\x80\x04\x8f.",
		"string beyond the end":       "\x80\x04\x8c\xffabc.",
		"huge length":                 "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
		"tuple of nothing":            "\x80\x04\x86.",
		"append to nothing":           "\x80\x04)a.",
		"append to a tuple":           "\x80\x04))a.",
		"items for a list":            "\x80\x04])K\x01s.",
		"odd items":                   "\x80\x04}()u.",
		"mark as a value":             "\x80\x04(\x85.",
		"mark left over":              "\x80\x04()\x2e",
		"remembered mark":             "\x80\x04(\x94.",
		"memo of nothing":             "\x80\x04\x94.",
		"unknown memo":                "\x80\x04h\x07.",
		"list that contains itself":   "\x80\x04]\x94h\x00a.",
		"bytes after stop":            "\x80\x04).)",
		"stack too deep":              "\x80\x04" + strings.Repeat("]", 40000) + ".",
		"str that is not UTF-8":       "\x80\x04\x8c\x01\xff.",
		"frame that is cut":           "\x80\x04\x95\x00\x00.",
		"two values":                  "\x80\x04)).",
		"pair with an unknown opcode": "\x80\x04}C\x01k\x99\x86.",
	}
	for name, pickle := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := rendezvous.DecodeNotifyTarget([]byte(base64.StdEncoding.EncodeToString([]byte(pickle))))
			must.Error(t, err)
		})
	}
	t.Run("not base64", func(t *testing.T) {
		_, err := rendezvous.DecodeNotifyTarget([]byte("!!!"))
		must.Error(t, err)
	})
	t.Run("too long", func(t *testing.T) {
		_, err := rendezvous.DecodeNotifyTarget([]byte(strings.Repeat("A", 65<<10)))
		must.ErrorContains(t, err, "more than")
	})
}

// FuzzDecodeNotifyTarget: for anything that a process sends, the answer is an address
// that can be dialled, or an error.
func FuzzDecodeNotifyTarget(f *testing.F) {
	f.Add([]byte("\x80\x05\x95\x20\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x02lo\x94]\x94\x8c\t127.0.0.1\x94M\x41\x9c\x86\x94asC\x03key\x94\x86\x94."))
	f.Add([]byte("\x80\x02}X\x02\x00\x00\x00lo](X\x01\x00\x00\x00aK\x50tasB\x01\x00\x00\x00k\x86."))
	f.Add([]byte("\x80\x04]\x94h\x00a."))
	f.Add([]byte("\x80\x04cos\nsystem\n\x8c\x02ls\x85R."))
	f.Add([]byte("\x80\x04}(\x8c\x01a]\x94\x8c\x01bh\x00uC\x01k\x86."))
	f.Fuzz(func(t *testing.T, pickle []byte) {
		target, err := rendezvous.DecodeNotifyTarget([]byte(base64.StdEncoding.EncodeToString(pickle)))
		if err != nil {
			must.Eq(t, 0, target.Port)
			must.SliceEmpty(t, target.Key)
			return
		}
		must.Between(t, 1, target.Port, 65535)
		must.Between(t, 1, len(target.Key), 1024)
		// An address needs both written out somewhere in the pickle.
		must.StrContains(t, string(pickle), string(target.Key))
	})
}
