/* Balancing at connect() for clients of this machine: a socket that connects to a virtual address, or sends a datagram
 * there, is directed to an endpoint before the kernel looks for a route. No packet is changed.
 *
 * The client sees the address that it asked for: from getpeername(), and as the source of answers.
 */
#include "choose.h"

char _license[] SECTION("license") = "Dual MIT/GPL";

static __u64 (*const bpf_get_socket_cookie)(void *ctx) = (void *)BPF_FUNC_get_socket_cookie;
static __u64 (*const bpf_get_netns_cookie)(void *ctx) = (void *)BPF_FUNC_get_netns_cookie;
static int (*const bpf_set_retval)(int value) = (void *)BPF_FUNC_set_retval;

#define ECONNREFUSED 111
#define EEXIST 17

/* What a program answers: the kernel continues, or returns an error to the client. */
#define CONTINUE 1
#define REFUSE 0

#define FLOW_CHOSEN 0	   /* of TCP: the kernel may find no route, and send nothing */
#define FLOW_ESTABLISHED 1
#define FLOW_SENT 2	   /* of TCP, not answered yet */

/* Flow of a connected socket, by the socket's cookie: exactly those that are counted in `loads`. Memory of all entries is
 * taken at once: an entry is made in fewer steps, and none fails for want of memory in a burst. */
struct socket_flow {
	struct address vip;
	__be16 port;
	__u8 protocol;
	__u8 state;
	__u32 endpoint;
	__u64 started_ns;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 262144);
	MAP_TYPE(key, __u64);
	MAP_TYPE(value, struct socket_flow);
} socket_flows SECTION(".maps");

/* Virtual addresses to which an unconnected socket sends. */
#define DATAGRAM_FLOWS 4

struct datagram_flow {
	struct address vip;
	__be16 port;
	__u16 spare;
	__u32 endpoint; /* 0: free */
	__u32 epoch;
	__u32 spare_word;
	__u64 last_ns;
	__u64 idle_ns;
};

struct datagram_flows {
	struct datagram_flow flow[DATAGRAM_FLOWS];
};

/* The oldest socket gives way, as without an entry the answers would come from an address that the client does not
 * know. Its flows stay counted until the next recount. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_UINT(max_entries, 32768);
	MAP_TYPE(key, __u64);
	MAP_TYPE(value, struct datagram_flows);
} datagram_flows SECTION(".maps");

/* The endpoint ends a flow of TCP that it did not answer. A client that gives up at once, as one that tries several
 * addresses, is not the endpoint's failure: that is a refusal (the socket is closed), or a second of silence. */
#define TCP_CLOSED 7
#define SILENCE_NS 1000000000ull

INLINE void end_socket_flow(const struct socket_flow *flow, int refused)
{
	flow_ended(flow->endpoint);
	if (flow->protocol == IPPROTO_TCP && flow->state == FLOW_SENT) {
		__u64 now_ns = bpf_ktime_get_coarse_ns();
		if (refused || now_ns - flow->started_ns >= SILENCE_NS)
			flow_failed(flow->endpoint, now_ns);
	}
}

/* Counts the flow of a socket that connects. A socket that connects once more has ended its former flow. */
INLINE void keep_socket_flow(__u64 cookie, const struct socket_flow *flow)
{
	long error = bpf_map_update_elem(&socket_flows, &cookie, flow, BPF_NOEXIST);
	if (error == -EEXIST) {
		struct socket_flow *before = bpf_map_lookup_elem(&socket_flows, &cookie);
		if (before)
			end_socket_flow(before, 1);
		error = bpf_map_update_elem(&socket_flows, &cookie, flow, BPF_ANY);
	}
	if (error)
		total(TOTAL_FLOWS_FULL);
	else
		flow_started(flow->endpoint);
}

/* Address of a client that is on this machine: the one that its socket is bound to, otherwise its network namespace,
 * whose sockets have the same addresses. Families are kept apart, as an endpoint has one. No client has an address that
 * begins with ff. */
INLINE void set_local_client(struct address *client, __u32 family, __u64 netns)
{
	client->word[0] = 0xffffffff;
	client->word[1] = family;
	client->word[2] = netns;
	client->word[3] = netns >> 32;
}

INLINE void client_of(struct bpf_sock_addr *ctx, struct address *client, __u32 family)
{
	struct bpf_sock *socket = ctx->sk;
	if (socket) {
		if (socket->family == AF_INET) {
			set_ipv4(client, socket->src_ip4);
			if (client->word[3])
				return;
		} else {
			client->word[0] = socket->src_ip6[0];
			client->word[1] = socket->src_ip6[1];
			client->word[2] = socket->src_ip6[2];
			client->word[3] = socket->src_ip6[3];
			if (client->word[0] | client->word[1] | client->word[2] | client->word[3])
				return;
		}
	}
	set_local_client(client, family, bpf_get_netns_cookie(ctx));
}

INLINE void read_key4(struct bpf_sock_addr *ctx, struct service_key *key)
{
	set_ipv4(&key->addr, ctx->user_ip4);
	key->port = ctx->user_port;
	key->protocol = ctx->protocol;
	key->spare = 0;
}

INLINE void read_key6(struct bpf_sock_addr *ctx, struct service_key *key)
{
	key->addr.word[0] = ctx->user_ip6[0];
	key->addr.word[1] = ctx->user_ip6[1];
	key->addr.word[2] = ctx->user_ip6[2];
	key->addr.word[3] = ctx->user_ip6[3];
	key->port = ctx->user_port;
	key->protocol = ctx->protocol;
	key->spare = 0;
}

INLINE void write4(struct bpf_sock_addr *ctx, const struct address *address, __be16 port)
{
	ctx->user_ip4 = address->word[3];
	ctx->user_port = port;
}

INLINE void write6(struct bpf_sock_addr *ctx, const struct address *address, __be16 port)
{
	ctx->user_ip6[0] = address->word[0];
	ctx->user_ip6[1] = address->word[1];
	ctx->user_ip6[2] = address->word[2];
	ctx->user_ip6[3] = address->word[3];
	ctx->user_port = port;
}

INLINE int is_mapped(const struct address *address)
{
	return address->word[0] == 0 && address->word[1] == 0 && address->word[2] == MAPPED;
}

INLINE __u32 family_of(const struct address *address)
{
	return is_mapped(address) ? AF_INET : AF_INET6;
}

INLINE int refuse(enum total reason)
{
	total(reason);
	bpf_set_retval(-ECONNREFUSED);
	return REFUSE;
}

/* Endpoint of a new flow, or null after refuse(). */
INLINE struct endpoint *choose_endpoint(struct bpf_sock_addr *ctx, const struct service_key *key, struct record *record,
					__u64 now_ns, __u32 *id)
{
	struct address client;
	client_of(ctx, &client, family_of(&key->addr));
	*id = choose(record, &client, now_ns);
	if (!*id) {
		refuse(record->n ? TOTAL_INCONSISTENT : TOTAL_NO_ENDPOINT);
		return 0;
	}
	struct endpoint *endpoint = find_endpoint(*id);
	if (!endpoint)
		refuse(TOTAL_INCONSISTENT);
	return endpoint;
}

INLINE int connect(struct bpf_sock_addr *ctx, const struct service_key *key, int family)
{
	struct record *record = find_service(key);
	if (!record)
		return CONTINUE;
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	struct socket_flow flow = {
		.vip = key->addr,
		.port = key->port,
		.protocol = key->protocol,
		.state = key->protocol == IPPROTO_TCP ? FLOW_CHOSEN : FLOW_ESTABLISHED,
		.started_ns = now_ns,
	};
	struct endpoint *endpoint = choose_endpoint(ctx, key, record, now_ns, &flow.endpoint);
	if (!endpoint)
		return REFUSE;
	keep_socket_flow(bpf_get_socket_cookie(ctx), &flow);
	if (family == AF_INET)
		write4(ctx, &endpoint->addr, endpoint->port);
	else
		write6(ctx, &endpoint->addr, endpoint->port);
	return CONTINUE;
}

SECTION("cgroup/connect4") int connect4(struct bpf_sock_addr *ctx)
{
	struct service_key key;
	read_key4(ctx, &key);
	return connect(ctx, &key, AF_INET);
}

SECTION("cgroup/connect6") int connect6(struct bpf_sock_addr *ctx)
{
	struct service_key key;
	read_key6(ctx, &key);
	return connect(ctx, &key, AF_INET6);
}

/* Flows of a socket that sends to virtual addresses without connecting. */
NOINLINE struct datagram_flows *add_flows(__u64 cookie)
{
	struct datagram_flows empty = {};
	bpf_map_update_elem(&datagram_flows, &cookie, &empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&datagram_flows, &cookie);
}

/* The flow to a virtual address, or DATAGRAM_FLOWS. */
INLINE __u32 find_flow(const struct datagram_flows *flows, const struct service_key *key)
{
#pragma unroll
	for (__u32 i = 0; i < DATAGRAM_FLOWS; i++) {
		const struct datagram_flow *flow = &flows->flow[i];
		if (flow->endpoint && flow->port == key->port && same_address(&flow->vip, &key->addr))
			return i;
	}
	return DATAGRAM_FLOWS;
}

/* A free flow, or the one whose latest packet is the oldest. */
INLINE __u32 oldest_flow(const struct datagram_flows *flows)
{
	__u32 oldest = 0;
	__u64 oldest_ns = ~0ull;
#pragma unroll
	for (__u32 i = 0; i < DATAGRAM_FLOWS; i++) {
		__u64 last_ns = flows->flow[i].endpoint ? flows->flow[i].last_ns : 0;
		if (last_ns < oldest_ns) {
			oldest_ns = last_ns;
			oldest = i;
		}
	}
	return oldest;
}

/* Endpoint of a flow that continues, or null. */
INLINE struct endpoint *endpoint_of_flow(struct datagram_flow *flow, __u64 now_ns)
{
	struct endpoint *endpoint = find_endpoint(flow->endpoint);
	if (!endpoint || endpoint->epoch != flow->epoch || endpoint->flags & ENDPOINT_DOWN || now_ns - flow->last_ns >= flow->idle_ns)
		return 0;
	flow->last_ns = now_ns;
	return endpoint;
}

INLINE int send(struct bpf_sock_addr *ctx, const struct service_key *key, int family)
{
	struct record *record = find_service(key);
	if (!record)
		return CONTINUE;
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct datagram_flows *flows = bpf_map_lookup_elem(&datagram_flows, &cookie);
	struct endpoint *endpoint = 0;
	__u32 at = DATAGRAM_FLOWS, id;
	if (flows) {
		at = find_flow(flows, key);
		if (at < DATAGRAM_FLOWS)
			endpoint = endpoint_of_flow(&flows->flow[at], now_ns);
	} else {
		flows = add_flows(cookie);
	}
	if (!endpoint) {
		endpoint = choose_endpoint(ctx, key, record, now_ns, &id);
		if (!endpoint)
			return REFUSE;
		if (flows) {
			if (at >= DATAGRAM_FLOWS)
				at = oldest_flow(flows);
			struct datagram_flow *flow = &flows->flow[at % DATAGRAM_FLOWS];
			if (flow->endpoint) {
				flow_ended(flow->endpoint);
				if (now_ns - flow->last_ns < flow->idle_ns && !same_address(&flow->vip, &key->addr))
					total(TOTAL_DATAGRAMS_FULL);
			}
			flow->vip = key->addr;
			flow->port = key->port;
			flow->epoch = endpoint->epoch;
			flow->last_ns = now_ns;
			flow->idle_ns = record->idle_ns;
			flow->endpoint = id;
			flow_started(id);
		} else {
			total(TOTAL_FLOWS_FULL);
		}
	}
	if (family == AF_INET)
		write4(ctx, &endpoint->addr, endpoint->port);
	else
		write6(ctx, &endpoint->addr, endpoint->port);
	return CONTINUE;
}

SECTION("cgroup/sendmsg4") int sendmsg4(struct bpf_sock_addr *ctx)
{
	struct service_key key;
	read_key4(ctx, &key);
	return send(ctx, &key, AF_INET);
}

SECTION("cgroup/sendmsg6") int sendmsg6(struct bpf_sock_addr *ctx)
{
	struct service_key key;
	read_key6(ctx, &key);
	return send(ctx, &key, AF_INET6);
}

INLINE int is_endpoint(__u32 id, const struct service_key *peer)
{
	struct endpoint *endpoint = find_endpoint(id);
	return endpoint && endpoint->port == peer->port && same_address(&endpoint->addr, &peer->addr);
}

/* Virtual address that the socket of `ctx` connected to, if the peer is its endpoint. */
INLINE int vip_of_connected(__u64 cookie, struct service_key *peer)
{
	struct socket_flow *flow = bpf_map_lookup_elem(&socket_flows, &cookie);
	if (!flow || !is_endpoint(flow->endpoint, peer))
		return 0;
	peer->addr = flow->vip;
	peer->port = flow->port;
	return 1;
}

/* Virtual address to which the socket of `ctx` sent what this endpoint answers. */
INLINE int vip_of_sender(__u64 cookie, struct service_key *peer)
{
	struct datagram_flows *flows = bpf_map_lookup_elem(&datagram_flows, &cookie);
	if (!flows)
		return vip_of_connected(cookie, peer);
#pragma unroll
	for (int i = 0; i < DATAGRAM_FLOWS; i++) {
		struct datagram_flow *flow = &flows->flow[i];
		if (flow->endpoint && is_endpoint(flow->endpoint, peer)) {
			/* A flow whose answers come is not idle. */
			flow->last_ns = bpf_ktime_get_coarse_ns();
			peer->addr = flow->vip;
			peer->port = flow->port;
			return 1;
		}
	}
	return 0;
}

SECTION("cgroup/recvmsg4") int recvmsg4(struct bpf_sock_addr *ctx)
{
	struct service_key peer;
	read_key4(ctx, &peer);
	if (vip_of_sender(bpf_get_socket_cookie(ctx), &peer))
		write4(ctx, &peer.addr, peer.port);
	return CONTINUE;
}

SECTION("cgroup/recvmsg6") int recvmsg6(struct bpf_sock_addr *ctx)
{
	struct service_key peer;
	read_key6(ctx, &peer);
	if (vip_of_sender(bpf_get_socket_cookie(ctx), &peer))
		write6(ctx, &peer.addr, peer.port);
	return CONTINUE;
}

SECTION("cgroup/getpeername4") int getpeername4(struct bpf_sock_addr *ctx)
{
	struct service_key peer;
	read_key4(ctx, &peer);
	if (vip_of_connected(bpf_get_socket_cookie(ctx), &peer))
		write4(ctx, &peer.addr, peer.port);
	return CONTINUE;
}

SECTION("cgroup/getpeername6") int getpeername6(struct bpf_sock_addr *ctx)
{
	struct service_key peer;
	read_key6(ctx, &peer);
	if (vip_of_connected(bpf_get_socket_cookie(ctx), &peer))
		write6(ctx, &peer.addr, peer.port);
	return CONTINUE;
}

/* The end of a socket, also of one whose process was killed. */
SECTION("cgroup/sock_release") int sock_release(struct bpf_sock *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_flow *found = bpf_map_lookup_elem(&socket_flows, &cookie);
	if (found) {
		struct socket_flow flow = *found;
		if (bpf_map_delete_elem(&socket_flows, &cookie) == 0)
			end_socket_flow(&flow, ctx->state == TCP_CLOSED);
	}
	if (ctx->protocol != IPPROTO_UDP)
		return CONTINUE;
	struct datagram_flows *flows = bpf_map_lookup_elem(&datagram_flows, &cookie);
	if (!flows)
		return CONTINUE;
	__u32 id[DATAGRAM_FLOWS];
#pragma unroll
	for (int i = 0; i < DATAGRAM_FLOWS; i++)
		id[i] = flows->flow[i].endpoint;
	if (bpf_map_delete_elem(&datagram_flows, &cookie) == 0) {
#pragma unroll
		for (int i = 0; i < DATAGRAM_FLOWS; i++)
			if (id[i])
				flow_ended(id[i]);
	}
	return CONTINUE;
}

/* A connection is asked for, or the endpoint has answered it. */
SECTION("sockops") int established(struct bpf_sock_ops *ctx)
{
	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		return CONTINUE;
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct socket_flow *flow = bpf_map_lookup_elem(&socket_flows, &cookie);
	if (flow && ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB) {
		flow->state = FLOW_SENT;
	} else if (flow) {
		flow->state = FLOW_ESTABLISHED;
		flow_established(flow->endpoint);
	}
	return CONTINUE;
}
