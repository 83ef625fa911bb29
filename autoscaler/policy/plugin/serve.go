// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/kolo-nomad/kolo/autoscaler/policy"
	"github.com/kolo-nomad/kolo/autoscaler/policy/plugin/policypb"
)

// ProtocolVersion is the version of the protocol in policypb/policy.proto.
const ProtocolVersion = 1

// handshake prevents people from running a policy by hand by mistake. It is no
// secret.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion: ProtocolVersion, MagicCookieKey: "KOLO_POLICY_PLUGIN", MagicCookieValue: "a-circle-dance",
}

// service is both ends of the protocol's only service.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	policypb.UnimplementedPolicyServer
	policy policy.Policy // at the policy's end
}

const serviceName = "policy"

func plugins(p policy.Policy) plugin.PluginSet {
	return plugin.PluginSet{serviceName: &service{policy: p}}
}

// GRPCServer implements plugin.GRPCPlugin.
func (s *service) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	policypb.RegisterPolicyServer(g, s)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (s *service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return policypb.NewPolicyClient(c), nil
}

// Allocate implements policypb.PolicyServer.
func (s *service) Allocate(_ context.Context, in *policypb.Snapshot) (*policypb.Decision, error) {
	return decisionToWire(s.policy.Allocate(fromWire(in))), nil
}

// snapshotLimit bounds the size of a snapshot in bytes. gRPC's default of 4 MiB is
// too small for the curves of ten thousand jobs.
const snapshotLimit = 64 << 20

// Serve is the whole main function of a policy written in Go. It returns when kolo
// ends the process.
func Serve(p policy.Policy) {
	plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, Plugins: plugins(p), GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
		return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(snapshotLimit))...)
	}})
}
