/* Flows of packets: the map, their states, and how one begins.
 *
 * A flow has two entries in one map, one for each direction, each by the tuple of the packets of that direction: so one
 * look-up finds a packet's direction and its translation. The entry of packets to the endpoint has the state. An entry
 * that was evicted leaves its partner behind, and a count of an open flow: the sweep in user space mends both.
 *
 * States of TCP: a SYN was seen (not counted: a flood of them counts nothing); established by the client's first
 * acknowledgement of the SYN of the endpoint; ended by FIN of both sides, or RST. A flow of datagrams counts from the
 * second datagram on, or the first answer.
 */
#ifndef EVENKEEL_FLOW_H
#define EVENKEEL_FLOW_H

#include "choose.h"
#include "packet.h"

/* Settings, set before loading. Local ports are those that the machine gives to its own connections: they are taken
 * last, since an own connection to an endpoint may have the same ports at both ends as a flow. */
volatile const __u32 port_first = 1024;
volatile const __u32 port_last = 65535;
volatile const __u32 port_local_first = 32768; /* within the others, or 1 above port_local_last if there are none */
volatile const __u32 port_local_last = 60999;
volatile const __u32 port_secret = 0;

/* Ports that are tried for a flow: in turn, so that a port rests for as long as possible before it is used again, and
 * then at random. */
#define PROBES_IN_TURN 8
#define PROBES_NOT_LOCAL 24
#define PROBES 48

/* Time for which a route is kept by a flow. */
#define ROUTE_NS 1000000000ULL
/* Steps in which `last_ns` is written: writing takes the cache line from other CPUs. */
#define LAST_NS 100000000ULL

/* Bits of an entry. */
#define FLOW_ANSWERED 1	      /* the endpoint has answered */
#define FLOW_COUNTED 2	      /* is, or was, an open flow */
#define FLOW_FIN_CLIENT 4
#define FLOW_FIN_ENDPOINT 8
#define FLOW_ENDED 16
#define FLOW_FAILED 32	      /* refused */
#define FLOW_BACK 64	      /* packets from the endpoint */

/* Direction of a flow. */
struct flow {
	struct address source; /* written into packets */
	struct address target;
	struct address hop; /* next hop */
	__be16 source_port;
	__be16 target_port;
	__u16 mtu;   /* of the route */
	__u16 clamp; /* the lower MTU of both directions */
	__u32 ifindex;
	__u32 endpoint;
	__u64 service;
	__u64 routed_ns; /* when the route was looked up */
	__u64 last_ns;	 /* latest packet, to LAST_NS */
	__u64 begun_ns;	 /* first packet; then, when it was counted */
	__u64 ended_ns;
	__u64 idle_ns;
	__u32 bits;
	__u32 sequence; /* that the client acknowledges first */
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_UINT(max_entries, 524288);
	MAP_TYPE(key, struct tuple);
	MAP_TYPE(value, struct flow);
} flows SECTION(".maps");

/* This machine towards an endpoint, by the number of the endpoint. */
struct egress {
	struct address source; /* own address; 0: none */
	__s64 open;	       /* open flows of these programs, a part of the load */
	__u32 turn;	       /* of ports */
	__u32 spare;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct egress);
} egresses SECTION(".maps");

/* Memory for what the stack has no room for. */
struct scratch {
	struct flow forth;
	struct flow back;
	struct tuple key;
	__u8 quoted[512]; /* bytes of a packet */
	__u32 at;
	__u32 spare;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct scratch);
} scratch SECTION(".maps");

INLINE struct scratch *find_scratch(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&scratch, &zero);
}

INLINE int is_ipv4(const struct address *address)
{
	return address->word[2] == MAPPED && !address->word[1] && !address->word[0];
}

INLINE int is_none(const struct address *address)
{
	return !(address->word[0] | address->word[1] | address->word[2] | address->word[3]);
}

/* Tuple of the packets of the other direction. */
INLINE void partner_of(const struct flow *flow, __u8 protocol, struct tuple *key)
{
	key->source = flow->target;
	key->target = flow->source;
	key->source_port = flow->target_port;
	key->target_port = flow->source_port;
	key->protocol = protocol;
	key->spare[0] = key->spare[1] = key->spare[2] = 0;
}

NOINLINE struct flow *find_partner(const struct flow *flow, __u8 protocol)
{
	struct tuple key;
	partner_of(flow, protocol, &key);
	return bpf_map_lookup_elem(&flows, &key);
}

/* Looks the route up of packets that come in at `ifindex`. Returns 0 if there is one. */
NOINLINE int find_route(struct __sk_buff *skb, struct flow *flow, __u8 protocol, __u32 ifindex, __u64 now_ns)
{
	struct bpf_fib_lookup lookup = {
		.ifindex = ifindex,
		.l4_protocol = protocol,
		.sport = flow->source_port,
		.dport = flow->target_port,
		.tot_len = 1, /* not 0: so the MTU of the route comes back, which may be below that of its device */
	};
	if (is_ipv4(&flow->target)) {
		lookup.family = AF_INET;
		lookup.ipv4_src = flow->source.word[3];
		lookup.ipv4_dst = flow->target.word[3];
	} else {
		lookup.family = AF_INET6;
		__builtin_memcpy(lookup.ipv6_src, &flow->source, sizeof(flow->source));
		__builtin_memcpy(lookup.ipv6_dst, &flow->target, sizeof(flow->target));
	}
	if (bpf_fib_lookup(skb, &lookup, sizeof(lookup), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return 1;
	flow->ifindex = lookup.ifindex;
	flow->mtu = lookup.mtu_result ? lookup.mtu_result : 65535;
	if (lookup.family == AF_INET)
		set_ipv4(&flow->hop, lookup.ipv4_dst);
	else
		__builtin_memcpy(&flow->hop, lookup.ipv6_dst, sizeof(flow->hop));
	flow->routed_ns = now_ns;
	return 0;
}

/* The flow is open from now on. */
NOINLINE void count_flow(struct flow *flow)
{
	flow->begun_ns = bpf_ktime_get_ns();
	__u32 before = __sync_fetch_and_or(&flow->bits, FLOW_COUNTED);
	if (before & (FLOW_COUNTED | FLOW_ENDED))
		return;
	__u32 id = flow->endpoint;
	struct egress *egress = bpf_map_lookup_elem(&egresses, &id);
	if (egress)
		__sync_fetch_and_add(&egress->open, 1);
	flow_started(id);
	flow_established(id);
}

NOINLINE void end_flow(struct flow *flow)
{
	flow->ended_ns = bpf_ktime_get_ns();
	__u32 before = __sync_fetch_and_or(&flow->bits, FLOW_ENDED);
	if ((before & FLOW_ENDED) || !(before & FLOW_COUNTED))
		return;
	__u32 id = flow->endpoint;
	struct egress *egress = bpf_map_lookup_elem(&egresses, &id);
	if (egress)
		__sync_fetch_and_add(&egress->open, -1);
	flow_ended(id);
}

/* The endpoint has refused the flow. */
NOINLINE void refuse_flow(struct flow *flow, __u64 now_ns)
{
	__u32 before = __sync_fetch_and_or(&flow->bits, FLOW_FAILED);
	if (!(before & FLOW_FAILED)) {
		__u32 id = flow->endpoint;
		struct load *load = bpf_map_lookup_elem(&loads, &id);
		if (load && !(before & FLOW_COUNTED))
			__sync_fetch_and_add(&load->started, 1);
		flow_failed(id, now_ns);
	}
}

/* Inserts the entry of answers, with a port of this machine that no other flow to the endpoint has. Returns 0 if it
 * could. */
INLINE int insert_back(struct scratch *at, struct egress *egress)
{
	__u32 all = port_last - port_first + 1;
	__u32 local = port_local_last - port_local_first + 1;
	__u32 others = all - local;
	__u32 start = __sync_fetch_and_add(&egress->turn, 1) + (hash_of(&at->key.source) ^ port_secret);

	for (__u32 i = 0; i < PROBES; i++) {
		__u32 n = i < PROBES_IN_TURN ? start + i : bpf_get_prandom_u32();
		__u32 port;
		if (others && (i < PROBES_NOT_LOCAL || !local)) {
			port = port_first + n % others;
			if (local && port >= port_local_first)
				port += local;
		} else {
			port = port_first + n % (all ? all : 1);
		}
		at->key.target_port = htons(port);
		if (!bpf_map_update_elem(&flows, &at->key, &at->back, BPF_NOEXIST)) {
			at->forth.source_port = at->key.target_port;
			/* The next flow starts behind the ports that were taken. */
			if (i)
				__sync_fetch_and_add(&egress->turn, i);
			return 0;
		}
	}
	return 1;
}

/* Inserts the entry of answers, with the client's port. Returns 0 if it could: a client that uses a port for two
 * virtual addresses may get an endpoint twice, which could not tell the flows apart. */
INLINE int insert_back_of_client(struct scratch *at)
{
	at->forth.source_port = at->key.target_port;
	if (!bpf_map_update_elem(&flows, &at->key, &at->back, BPF_NOEXIST))
		return 0;
	struct flow *other = bpf_map_lookup_elem(&flows, &at->key);
	if (!other)
		return 1;
	/* Of a flow whose other entry was evicted. */
	if (same_address(&other->source, &at->back.source) && other->source_port == at->back.source_port)
		return !!bpf_map_update_elem(&flows, &at->key, &at->back, BPF_ANY);
	return 1;
}

/* Begins a flow to an endpoint. Returns null if it cannot, which is counted. */
NOINLINE struct flow *begin_flow(struct __sk_buff *skb, struct packet *packet, struct record *record, __u32 id,
				 __u64 now_ns)
{
	struct scratch *at = find_scratch();
	struct endpoint *endpoint = find_endpoint(id);
	struct egress *egress = bpf_map_lookup_elem(&egresses, &id);
	if (!at || !endpoint || !egress || is_ipv4(&endpoint->addr) == packet->ipv6) {
		total(TOTAL_INCONSISTENT);
		return 0;
	}
	struct flow *forth = &at->forth, *back = &at->back;
	int own = !(record->flags & RECORD_CLIENT);
	__builtin_memset(forth, 0, sizeof(*forth));
	__builtin_memset(back, 0, sizeof(*back));
	forth->source = own ? egress->source : packet->tuple.source;
	forth->source_port = packet->tuple.source_port;
	forth->target = endpoint->addr;
	forth->target_port = endpoint->port;
	back->source = packet->tuple.target;
	back->source_port = packet->tuple.target_port;
	back->target = packet->tuple.source;
	back->target_port = packet->tuple.source_port;
	forth->endpoint = back->endpoint = id;
	forth->service = back->service = record->service;
	forth->idle_ns = back->idle_ns = record->idle_ns;
	forth->last_ns = back->last_ns = now_ns;
	forth->begun_ns = back->begun_ns = bpf_ktime_get_ns();
	back->bits = FLOW_BACK;
	__u8 protocol = packet->tuple.protocol;
	if (is_none(&forth->source) || find_route(skb, forth, protocol, skb->ifindex, now_ns) ||
	    find_route(skb, back, protocol, forth->ifindex, now_ns)) {
		total(TOTAL_UNROUTABLE);
		return 0;
	}
	forth->clamp = back->clamp = least_of(forth->mtu, back->mtu);

	partner_of(forth, protocol, &at->key);
	if (own ? insert_back(at, egress) : insert_back_of_client(at)) {
		total(TOTAL_PORTS_EXHAUSTED);
		return 0;
	}
	if (bpf_map_update_elem(&flows, &packet->tuple, forth, BPF_NOEXIST))
		/* Another CPU was faster with a packet of the same flow. */
		bpf_map_delete_elem(&flows, &at->key);
	return bpf_map_lookup_elem(&flows, &packet->tuple);
}

/* Removes both entries of a flow that has ended, as the client uses its port again. */
NOINLINE void forget_flow(struct flow *flow, struct packet *packet)
{
	struct tuple key;
	partner_of(flow, packet->tuple.protocol, &key);
	bpf_map_delete_elem(&flows, &key);
	bpf_map_delete_elem(&flows, &packet->tuple);
}

#endif
