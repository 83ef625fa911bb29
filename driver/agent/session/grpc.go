// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"encoding/json"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"

	"github.com/kolo-nomad/kolo/driver/agent/port"
	"github.com/kolo-nomad/kolo/driver/agent/wire"
)

const (
	sessionService = "kolo.driver.v1.Leader"
	sessionMethod  = "/" + sessionService + "/Session"
	jsonCodecName  = "kolo-json"

	// maxMessage bounds one message; the addresses of a ring of n ranks take
	// about 180·n² bytes.
	maxMessage = 256 << 20
)

// keepAlive detects a peer that vanished silently. Only a server can probe this often: for
// a client, gRPC raises shorter intervals to 10 s.
var keepAlive = struct{ time, timeout time.Duration }{2 * time.Second, 3 * time.Second}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (jsonCodec) Name() string                       { return jsonCodecName }

func init() { encoding.RegisterCodec(jsonCodec{}) }

// NewServer returns a gRPC server for peers that the credentials admit. The server reads
// nothing from other clients.
func NewServer(creds credentials.TransportCredentials) *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(port.MaxHeader),
		grpc.MaxConcurrentStreams(64), // a peer has a session and an election call or two
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive.time, Timeout: keepAlive.timeout, MaxConnectionIdle: port.IdleLimit}),
	)
}

// Dial opens a connection to a peer.
func Dial(addr string, creds credentials.TransportCredentials, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append(more,
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: wire.HeartbeatTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive.time, Timeout: keepAlive.timeout, PermitWithoutStream: true}),
	)...)
}
