// A control plane for tests: the server of go-control-plane, with what commands put into its cache.
//
//	xds-server ADDRESS snapshot|linear [CERT KEY]
//
// Each line of standard input is a command: {"version": "1", "resources": [ClusterLoadAssignment...]} sets all
// endpoints, {"version": "2", "upsert": [...]} those of some clusters, {"version": "3", "remove": ["web"]} removes some.
// Each line of standard output is a request of a client, or an event: {"ready": true} first.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
)

type command struct {
	Version   string            `json:"version"`
	Resources []json.RawMessage `json:"resources"`
	Upsert    []json.RawMessage `json:"upsert"`
	Remove    []string          `json:"remove"`
}

// oneNode keeps one state for all clients.
type oneNode struct{}

func (oneNode) ID(*core.Node) string { return "all" }

var output sync.Mutex

func report(event any) {
	output.Lock()
	defer output.Unlock()
	line, err := json.Marshal(event)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func assignments(texts []json.RawMessage) map[string]types.Resource {
	all := map[string]types.Resource{}
	for _, text := range texts {
		one := &endpoint.ClusterLoadAssignment{}
		if err := protojson.Unmarshal(text, one); err != nil {
			fail(err)
		}
		all[one.ClusterName] = one
	}
	return all
}

func callbacks() server.Callbacks {
	return server.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, id int64, _ string) error {
			fields, _ := metadata.FromIncomingContext(ctx)
			report(map[string]any{"opened": id, "authorization": fields.Get("authorization")})
			return nil
		},
		StreamClosedFunc: func(id int64, _ *core.Node) { report(map[string]any{"closed": id}) },
		StreamRequestFunc: func(id int64, request *discovery.DiscoveryRequest) error {
			report(map[string]any{
				"stream": id, "type": request.TypeUrl, "names": request.ResourceNames, "version": request.VersionInfo,
				"nonce": request.ResponseNonce, "error": request.GetErrorDetail().GetMessage(),
				"node": request.GetNode().GetId(), "cluster": request.GetNode().GetCluster(),
				"zone": request.GetNode().GetLocality().GetZone(),
			})
			return nil
		},
	}
}

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: xds-server ADDRESS snapshot|linear [CERT KEY]"))
	}
	snapshots := cache.NewSnapshotCache(false, oneNode{}, nil)
	linear := cache.NewLinearCache(resource.EndpointType)
	var all cache.Cache = snapshots
	if os.Args[2] == "linear" {
		all = &cache.MuxCache{
			Classify:      func(*cache.Request) string { return "eds" },
			ClassifyDelta: func(*cache.DeltaRequest) string { return "eds" },
			Caches:        map[string]cache.Cache{"eds": linear},
		}
	}
	// Clients of tests ask for signs of life each second.
	policy := keepalive.EnforcementPolicy{MinTime: time.Second / 2, PermitWithoutStream: true}
	options := []grpc.ServerOption{grpc.KeepaliveEnforcementPolicy(policy)}
	if len(os.Args) > 4 {
		tls, err := credentials.NewServerTLSFromFile(os.Args[3], os.Args[4])
		if err != nil {
			fail(err)
		}
		options = append(options, grpc.Creds(tls))
	}
	serve := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(serve, server.NewServer(context.Background(), all, callbacks()))
	listener, err := net.Listen("tcp", os.Args[1])
	// The address of a server that was killed may be in use for a moment.
	for tries := 0; err != nil && tries < 100; tries++ {
		time.Sleep(50 * time.Millisecond)
		listener, err = net.Listen("tcp", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	go func() {
		if err := serve.Serve(listener); err != nil {
			fail(err)
		}
	}()
	report(map[string]any{"ready": true})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var read command
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			fail(err)
		}
		apply(read, snapshots, linear)
		report(map[string]any{"applied": read.Version})
	}
}

func apply(read command, snapshots cache.SnapshotCache, linear *cache.LinearCache) {
	set := assignments(read.Resources)
	if read.Resources != nil {
		linear.SetResources(set)
	}
	for name, one := range assignments(read.Upsert) {
		if err := linear.UpdateResource(name, one); err != nil {
			fail(err)
		}
	}
	for _, name := range read.Remove {
		if err := linear.DeleteResource(name); err != nil {
			fail(err)
		}
	}
	var list []types.Resource
	for _, one := range set {
		list = append(list, one)
	}
	snapshot, err := cache.NewSnapshot(read.Version, map[resource.Type][]types.Resource{resource.EndpointType: list})
	if err != nil {
		fail(err)
	}
	if err := snapshots.SetSnapshot(context.Background(), "all", snapshot); err != nil {
		fail(err)
	}
}
