// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package horovod

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/kolo-nomad/kolo/driver/agent/framework"
	"github.com/kolo-nomad/kolo/driver/agent/host"
	"github.com/kolo-nomad/kolo/driver/elastic"
)

type anyCaller struct{}

func (anyCaller) Admit(_, _ netip.AddrPort) error { return nil }

func TestEnvironment(t *testing.T) {
	f := New(framework.Options{Host: "h", Interface: "eth1", Logger: hclog.NewNullLogger()})
	e := f.NewEndpoint(false, host.Events{})
	must.NoError(t, e.Listen(anyCaller{}))
	defer func() { must.NoError(t, e.Close()) }()
	defaults, fixed := e.Environment(elastic.Assignment{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, CrossRank: 1, CrossSize: 2})
	must.Eq(t, map[string]string{"HOROVOD_GLOO_IFACE": "eth1", "NCCL_SOCKET_IFNAME": "eth1"}, defaults)
	must.Eq(t, map[string]string{
		"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_LOCAL_SIZE": "2",
		"HOROVOD_CROSS_RANK": "1", "HOROVOD_CROSS_SIZE": "2", "HOROVOD_HOSTNAME": "h", "HOROVOD_ELASTIC": "1",
		"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
		"HOROVOD_GLOO_RENDEZVOUS_PORT": strconv.Itoa(e.(*endpoint).server.Port()),
	}, fixed)
}
