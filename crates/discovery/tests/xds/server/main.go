// A control plane for tests: the server of go-control-plane, with what commands put into its cache.
//
//	xds-server ADDRESS snapshot|linear [CERT KEY]
//
// Standard input has commands, one after the other: {"version": "1", "resources": [ClusterLoadAssignment...]} sets all
// endpoints, {"version": "2", "upsert": [...]} those of some clusters, {"version": "3", "remove": ["web"]} removes some.
// "listeners", "routes" and "clusters" beside "resources" set all resources of these types. Types that a command does not
// name stay in a linear cache, and are empty in a snapshot. "padding" makes each cluster longer by this many bytes.
// Each line of standard output is a request of a client, or an event: {"ready": true} first.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
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
	Listeners []json.RawMessage `json:"listeners"`
	Routes    []json.RawMessage `json:"routes"`
	Clusters  []json.RawMessage `json:"clusters"`
	Upsert    []json.RawMessage `json:"upsert"`
	Remove    []string          `json:"remove"`
	Padding   int               `json:"padding"`
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

// read makes resources of their JSON, by name.
func read(texts []json.RawMessage, empty func() types.Resource) map[string]types.Resource {
	all := map[string]types.Resource{}
	for _, text := range texts {
		one := empty()
		if err := protojson.Unmarshal(text, one); err != nil {
			fail(err)
		}
		all[cache.GetResourceName(one)] = one
	}
	return all
}

func assignments(texts []json.RawMessage) map[string]types.Resource {
	return read(texts, func() types.Resource { return &endpoint.ClusterLoadAssignment{} })
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
		DeltaStreamOpenFunc: func(ctx context.Context, id int64, _ string) error {
			report(map[string]any{"opened": id, "delta": true})
			return nil
		},
		DeltaStreamClosedFunc: func(id int64, _ *core.Node) { report(map[string]any{"closed": id}) },
		StreamDeltaRequestFunc: func(id int64, request *discovery.DeltaDiscoveryRequest) error {
			report(map[string]any{
				"stream": id, "type": request.TypeUrl, "subscribe": request.ResourceNamesSubscribe,
				"unsubscribe": request.ResourceNamesUnsubscribe, "initial": request.InitialResourceVersions,
				"nonce": request.ResponseNonce, "error": request.GetErrorDetail().GetMessage(),
				"node": request.GetNode().GetId(),
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
	linear := map[string]*cache.LinearCache{}
	caches := map[string]cache.Cache{}
	for _, kind := range []string{resource.EndpointType, resource.ListenerType, resource.RouteType, resource.ClusterType} {
		linear[kind] = cache.NewLinearCache(kind)
		caches[kind] = linear[kind]
	}
	var all cache.Cache = snapshots
	if os.Args[2] == "linear" {
		all = &cache.MuxCache{
			Classify:      func(request *cache.Request) string { return request.TypeUrl },
			ClassifyDelta: func(request *cache.DeltaRequest) string { return request.TypeUrl },
			Caches:        caches,
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
	socket, err := net.Listen("tcp", os.Args[1])
	// The address of a server that was killed may be in use for a moment.
	for tries := 0; err != nil && tries < 100; tries++ {
		time.Sleep(50 * time.Millisecond)
		socket, err = net.Listen("tcp", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	go func() {
		if err := serve.Serve(socket); err != nil {
			fail(err)
		}
	}()
	report(map[string]any{"ready": true})
	commands := json.NewDecoder(os.Stdin)
	for {
		var given command
		if err := commands.Decode(&given); err == io.EOF {
			return
		} else if err != nil {
			fail(err)
		}
		apply(given, snapshots, linear)
		report(map[string]any{"applied": given.Version})
	}
}

func apply(given command, snapshots cache.SnapshotCache, linear map[string]*cache.LinearCache) {
	sets := map[resource.Type]map[string]types.Resource{
		resource.EndpointType: assignments(given.Resources),
		resource.ClusterType:  read(given.Clusters, func() types.Resource { return &cluster.Cluster{} }),
		resource.ListenerType: read(given.Listeners, func() types.Resource { return &listener.Listener{} }),
		resource.RouteType:    read(given.Routes, func() types.Resource { return &route.RouteConfiguration{} }),
	}
	if given.Padding > 0 {
		for _, one := range sets[resource.ClusterType] {
			one.(*cluster.Cluster).AltStatName = strings.Repeat("x", given.Padding)
		}
	}
	named := map[resource.Type]bool{
		resource.EndpointType: given.Resources != nil, resource.ClusterType: given.Clusters != nil,
		resource.ListenerType: given.Listeners != nil, resource.RouteType: given.Routes != nil,
	}
	lists := map[resource.Type][]types.Resource{}
	// In the order that breaks nothing.
	for _, kind := range []string{resource.ClusterType, resource.EndpointType, resource.ListenerType, resource.RouteType} {
		if named[kind] {
			linear[kind].SetResources(sets[kind])
		}
		for _, one := range sets[kind] {
			lists[kind] = append(lists[kind], one)
		}
	}
	endpoints := linear[resource.EndpointType]
	for name, one := range assignments(given.Upsert) {
		if err := endpoints.UpdateResource(name, one); err != nil {
			fail(err)
		}
	}
	for _, name := range given.Remove {
		if err := endpoints.DeleteResource(name); err != nil {
			fail(err)
		}
	}
	snapshot, err := cache.NewSnapshot(given.Version, lists)
	if err != nil {
		fail(err)
	}
	if err := snapshots.SetSnapshot(context.Background(), "all", snapshot); err != nil {
		fail(err)
	}
}
