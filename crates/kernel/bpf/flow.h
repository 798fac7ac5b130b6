/* Flows of packets: the maps, their states, and how one begins and ends.
 *
 * A flow has two entries in one map, one for each direction, each by the tuple of the packets of that direction: so one
 * look-up finds a packet's direction and its translation. The entry of packets to the endpoint has the state. An entry
 * that was evicted leaves its partner behind, and a count of an open flow: the sweep in user space mends both.
 *
 * Two maps: a flow begins in `openings`, and moves to `flows` when its client has proved that it is there. Anybody can
 * begin flows from addresses of others; such a flood evicts beginnings, and never a flow that is proven. A client of TCP
 * proves itself by acknowledging the SYN of the endpoint, a client of datagrams by one more datagram after an answer.
 *
 * States of TCP: a SYN was seen (not counted: a flood of them counts nothing); established by the client's first
 * acknowledgement of the SYN of the endpoint; ended by FIN of both sides, or RST. A flow of datagrams counts from the
 * second datagram on, or the first answer. FIN and RST count only with sequence numbers that others cannot guess.
 *
 * Entries are removed by key, and a key may have another flow by then. So whoever removes an entry first claims it: it
 * replaces the time of its beginning by 0, in one step, and only if it is still that of the flow that has to go. No flow
 * begins with the key of an entry while that is there, so what is removed after a claim is what was claimed.
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
/* Flows in `openings` from which on the kernel evicts some. */
volatile const __u32 unproven_max = 32768;

/* Ports that are tried for a flow: by the client's address and port, then with a step, and then at random. */
#define PROBES_IN_TURN 8
#define PROBES_NOT_LOCAL 24
#define PROBES 48
/* Age of the end of a flow from which on its port may be taken from it: the last packets have passed. */
#define REST_NS 1000000000ULL

/* Time for which a route is kept by a flow. */
#define ROUTE_NS 1000000000ULL
/* Steps in which `last_ns` is written: writing takes the cache line from other CPUs. */
#define LAST_NS 100000000ULL

/* Bits of an entry. */
#define FLOW_ANSWERED 1	      /* the endpoint has answered */
#define FLOW_COUNTED 2	      /* is, or was, an open flow */
#define FLOW_FIN_CLIENT 4
#define FLOW_FIN_ENDPOINT 8
#define FLOW_ENDED 16	      /* in both entries */
#define FLOW_FAILED 32	      /* refused */
#define FLOW_BACK 64	      /* packets from the endpoint */
#define FLOW_UNPROVEN 128     /* in `openings` */
#define FLOW_REPEATED 256     /* the SYN was repeated: see repeat_syn() */
#define FLOW_RESUMED 512      /* found again without its state: see resumable() */

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
	__u64 counted_ns; /* when it was counted */
	__u64 routed_ns;  /* when the route was looked up */
	__u64 last_ns;	  /* latest packet, to LAST_NS */
	__u64 begun_ns;	  /* first packet: the identity of the flow, the same in both entries; 0: being removed */
	__u64 ended_ns;
	__u64 idle_ns;
	__u32 bits;
	__u32 sequence;	    /* that the client acknowledges first */
	__u32 end;	    /* sequence number behind what this direction has sent */
	__u32 acknowledged; /* by this direction */
};

/* SYN of a client, as far as it cannot be made from its flow. */
struct syn {
	__u32 sequence;
	__be16 window;
	__u8 flags;
	__u8 length; /* of the options; above 40: it cannot be repeated */
	__u8 options[40];
};

/* Flow that is not proven. */
struct opening {
	struct flow flow;
	struct syn syn;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_UINT(max_entries, 524288);
	MAP_TYPE(key, struct tuple);
	MAP_TYPE(value, struct flow);
} flows SECTION(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_UINT(max_entries, 65536);
	MAP_TYPE(key, struct tuple);
	MAP_TYPE(value, struct opening);
} openings SECTION(".maps");

/* Flows in `openings`, with those that the kernel has evicted since the last sweep. */
struct unproven {
	__s64 count;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct unproven);
} unproven SECTION(".maps");

/* This machine towards an endpoint, by the number of the endpoint. */
struct egress {
	struct address source; /* own address; 0: none */
	__s64 open;	       /* open flows of these programs, a part of the load */
	__u64 spare;
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
	struct opening forth;
	struct opening back;
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

INLINE struct flow *find_flow(const struct tuple *key)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, key);
	return flow ? flow : bpf_map_lookup_elem(&openings, key);
}

/* The other entry of a flow, or null if it was evicted. */
NOINLINE struct flow *find_partner(const struct flow *flow, __u8 protocol)
{
	struct tuple key;
	partner_of(flow, protocol, &key);
	struct flow *partner = find_flow(&key);
	return partner && partner->begun_ns == flow->begun_ns ? partner : 0;
}

INLINE void count_unproven(int change)
{
	__u32 zero = 0;
	struct unproven *at = bpf_map_lookup_elem(&unproven, &zero);
	if (at)
		__sync_fetch_and_add(&at->count, change);
}

/* True if more flows begin than `openings` holds. */
INLINE int is_flooded(void)
{
	__u32 zero = 0;
	struct unproven *at = bpf_map_lookup_elem(&unproven, &zero);
	return at && READ_ONCE(at->count) >= (__s64)unproven_max;
}

/* Takes the right to remove an entry of the flow that began at this time. Returns 0 if it could. */
INLINE int claim(struct flow *flow, __u64 begun_ns)
{
	return !begun_ns || __sync_val_compare_and_swap(&flow->begun_ns, begun_ns, 0) != begun_ns;
}

/* Removes the entry of the flow that began at this time, if it is there. Returns 0 if it was. */
INLINE int remove_entry(void *map, const struct tuple *key, __u64 begun_ns)
{
	struct flow *flow = bpf_map_lookup_elem(map, key);
	if (!flow || claim(flow, begun_ns))
		return 1;
	bpf_map_delete_elem(map, key);
	return 0;
}

/* Removes both entries of a flow. `key` is that of packets to the endpoint. Returns 0 if nobody else does so now. */
NOINLINE int remove_flow(const struct tuple *key, struct flow *flow, struct tuple *partner)
{
	__u64 begun_ns = flow->begun_ns;
	__u32 is_unproven = flow->bits & FLOW_UNPROVEN;
	partner_of(flow, key->protocol, partner);
	if (is_unproven) {
		if (remove_entry(&openings, key, begun_ns))
			return 1;
		remove_entry(&openings, partner, begun_ns);
		count_unproven(-1);
		return 0;
	}
	if (remove_entry(&flows, key, begun_ns))
		return 1;
	remove_entry(&flows, partner, begun_ns);
	return 0;
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
	flow->counted_ns = bpf_ktime_get_ns();
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

NOINLINE void uncount_flow(__u32 id)
{
	struct egress *egress = bpf_map_lookup_elem(&egresses, &id);
	if (egress)
		__sync_fetch_and_add(&egress->open, -1);
	flow_ended(id);
}

/* Marks a flow as ended, by its entry of packets to the endpoint. */
NOINLINE void end_flow(struct flow *flow, struct flow *back)
{
	__u64 now_ns = bpf_ktime_get_ns();
	flow->ended_ns = now_ns;
	__u32 before = __sync_fetch_and_or(&flow->bits, FLOW_ENDED);
	if (back) {
		back->ended_ns = now_ns;
		__sync_fetch_and_or(&back->bits, FLOW_ENDED);
	}
	if ((before & FLOW_ENDED) || !(before & FLOW_COUNTED))
		return;
	uncount_flow(flow->endpoint);
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

/* Takes a port from a flow that has ended, if one has it. */
INLINE void take_from_ended(struct scratch *at, __u64 now_ns)
{
	struct flow *other = bpf_map_lookup_elem(&flows, &at->key);
	if (!other || !(other->bits & FLOW_ENDED) || now_ns - other->ended_ns < REST_NS)
		return;
	struct tuple forth;
	__u64 begun_ns = other->begun_ns;
	partner_of(other, at->key.protocol, &forth);
	remove_entry(&flows, &forth, begun_ns);
	remove_entry(&flows, &at->key, begun_ns);
}

/* Inserts the entry of answers with the port in `at->key`. Returns 0 if it could. First into `openings`, then a look at
 * `flows`: a flow that moves is in both for a moment, and its port is seen in one of them at any time. In a flood, the
 * port is taken from another beginning: so that the client's next packet finds it again without an entry. */
INLINE int insert_at(struct scratch *at, int is_flood)
{
	if (bpf_map_update_elem(&openings, &at->key, &at->back, is_flood ? BPF_ANY : BPF_NOEXIST))
		return 1;
	if (!bpf_map_lookup_elem(&flows, &at->key))
		return 0;
	/* Inserted just now. */
	bpf_map_delete_elem(&openings, &at->key);
	return 1;
}

/* Inserts the entry of answers, with a port that no other flow to the endpoint has. Returns 0 if it could.
 *
 * Which port is first follows from the client's address and port: endpoints then remember a port (TIME-WAIT) by
 * connections of the same client, whose time stamps only rise, and accept it again at once. With the client's own
 * address, its own port is first: another one is taken if the client uses it for two virtual addresses, since the
 * endpoint could not tell the flows apart. Not static: so it is verified once and apart. */
__attribute__((noinline)) int insert_back(__u32 own, __u32 is_flood, __u64 now_ns)
{
	struct scratch *at = find_scratch();
	if (!at)
		return 1;
	__u32 all = port_last - port_first + 1;
	__u32 local = port_local_last - port_local_first + 1;
	__u32 others = all - local;
	__u32 hash = hash_of(&at->back.flow.target) ^ port_secret;
	__u32 start = ntohs(at->back.flow.target_port) + hash;
	__u32 step = hash >> 16 | 1;

	for (__u32 i = 0; i < PROBES; i++) {
		__u32 n = i < PROBES_IN_TURN ? start + i * step : bpf_get_prandom_u32();
		__u32 port;
		if (others && (i < PROBES_NOT_LOCAL || !local)) {
			port = port_first + n % others;
			if (local && port >= port_local_first)
				port += local;
		} else {
			port = port_first + n % (all ? all : 1);
		}
		at->key.target_port = htons(port);
		if (!own && i == 0)
			at->key.target_port = at->back.flow.target_port;
		if (i < PROBES_IN_TURN)
			take_from_ended(at, now_ns);
		if (!insert_at(at, is_flood)) {
			at->forth.flow.source_port = at->key.target_port;
			return 0;
		}
	}
	return 1;
}

/* Keeps the SYN of a client. */
INLINE void keep_syn(struct __sk_buff *skb, struct packet *packet, struct syn *syn)
{
	__u32 length = packet->header - sizeof(struct tcphdr);

	syn->length = 255;
	if (packet->payload || length > sizeof(syn->options))
		return;
	if (length && bpf_skb_load_bytes(skb, packet->transport + sizeof(struct tcphdr), syn->options, length))
		return;
	syn->sequence = packet->sequence;
	syn->window = packet->window;
	syn->flags = packet->flags;
	syn->length = length;
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
	__builtin_memset(&at->forth, 0, sizeof(at->forth));
	__builtin_memset(&at->back, 0, sizeof(at->back));
	struct flow *forth = &at->forth.flow, *back = &at->back.flow;
	int own = !(record->flags & RECORD_CLIENT);
	__u8 protocol = packet->tuple.protocol;
	forth->source = own ? egress->source : packet->tuple.source;
	forth->source_port = packet->tuple.source_port;
	forth->target = endpoint->addr;
	forth->target_port = endpoint->port;
	back->source = packet->tuple.target;
	back->source_port = packet->tuple.target_port;
	back->target = packet->tuple.source;
	back->target_port = packet->tuple.source_port;
	forth->endpoint = back->endpoint = id;
	forth->idle_ns = back->idle_ns = record->idle_ns;
	forth->last_ns = back->last_ns = now_ns;
	forth->begun_ns = back->begun_ns = bpf_ktime_get_ns();
	forth->bits = FLOW_UNPROVEN;
	back->bits = FLOW_BACK | FLOW_UNPROVEN;
	if (protocol == IPPROTO_TCP) {
		forth->end = packet->sequence + packet->payload + !!(packet->flags & TCP_SYN);
		if (packet->flags & TCP_SYN) {
			keep_syn(skb, packet, &at->forth.syn);
		} else {
			forth->bits |= FLOW_RESUMED;
			forth->acknowledged = packet->acknowledged;
		}
	}
	if (is_none(&forth->source) || find_route(skb, forth, protocol, skb->ifindex, now_ns) ||
	    find_route(skb, back, protocol, forth->ifindex, now_ns)) {
		total(TOTAL_UNROUTABLE);
		return 0;
	}
	forth->clamp = back->clamp = least_of(forth->mtu, back->mtu);

	partner_of(forth, protocol, &at->key);
	if (insert_back(own, is_flooded(), now_ns)) {
		total(TOTAL_PORTS_EXHAUSTED);
		return 0;
	}
	if (bpf_map_update_elem(&openings, &packet->tuple, &at->forth, BPF_NOEXIST))
		/* Another CPU was faster with a packet of the same flow. */
		remove_entry(&openings, &at->key, back->begun_ns);
	else
		count_unproven(1);
	return find_flow(&packet->tuple);
}

/* Moves a flow to `flows`. `key` is that of packets to the endpoint. Returns its entry there, or null if its other entry
 * was evicted. */
NOINLINE struct flow *prove(const struct tuple *key, struct flow *flow)
{
	struct scratch *at = find_scratch();
	if (!at)
		return 0;
	partner_of(flow, key->protocol, &at->key);
	struct opening *back = bpf_map_lookup_elem(&openings, &at->key);
	__u64 begun_ns = flow->begun_ns;
	if (!back || !begun_ns || back->flow.begun_ns != begun_ns)
		/* Or another CPU was faster with a packet of the same flow. */
		return bpf_map_lookup_elem(&flows, key);
	at->forth.flow = *flow;
	at->back.flow = back->flow;
	at->forth.flow.bits &= ~(FLOW_UNPROVEN | FLOW_RESUMED);
	at->back.flow.bits &= ~FLOW_UNPROVEN;
	at->forth.flow.begun_ns = at->back.flow.begun_ns = begun_ns;
	/* The other direction first: no packet finds one of them alone. */
	if (bpf_map_update_elem(&flows, &at->key, &at->back.flow, BPF_NOEXIST))
		return bpf_map_lookup_elem(&flows, key);
	if (bpf_map_update_elem(&flows, key, &at->forth.flow, BPF_NOEXIST)) {
		remove_entry(&flows, &at->key, begun_ns);
		return bpf_map_lookup_elem(&flows, key);
	}
	if (!remove_entry(&openings, key, begun_ns))
		count_unproven(-1);
	remove_entry(&openings, &at->key, begun_ns);
	return bpf_map_lookup_elem(&flows, key);
}

#endif
