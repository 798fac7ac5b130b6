/* Forwarding of packets to virtual addresses, and of answers, at the ingress of interfaces (tcx).
 *
 * A packet is parsed, its flow found or begun, its addresses, ports and checksums changed, and sent out of the interface
 * of its route, without a trip through the stack. What belongs to no service is left untouched.
 */
#include "icmp.h"

/* Later fragments have no ports: the first one leaves their flow here. */
struct fragment_key {
	struct address source;
	struct address target;
	__u32 id;
	__u8 protocol;
	__u8 spare[3];
};

struct fragment {
	struct tuple flow; /* protocol 0: a packet of no flow */
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_UINT(max_entries, 8192);
	MAP_TYPE(key, struct fragment_key);
	MAP_TYPE(value, struct fragment);
} fragments SECTION(".maps");

/* Virtual addresses, without ports, and in how many services each is. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, struct address);
	MAP_TYPE(value, __u32);
} virtuals SECTION(".maps");

/* Numbers of a segment that are believed: so far ahead of the last ones, a window, or so far behind. */
#define SENT_MAX (1 << 21)
#define ACKNOWLEDGED_MAX (1 << 22)
#define BEHIND_MAX (1 << 16)
/* Range of an acknowledgement by a client that has read the endpoint's SYN: others guess one in 2^12. */
#define GUESS (1 << 20)
/* Most data of a SYN. */
#define SYN_DATA_MAX 1500

INLINE void fragment_key_of(const struct packet *packet, struct fragment_key *key)
{
	key->source = packet->tuple.source;
	key->target = packet->tuple.target;
	key->id = packet->fragment;
	key->protocol = packet->tuple.protocol;
	key->spare[0] = key->spare[1] = key->spare[2] = 0;
}

/* Keeps the flow of a first fragment. */
NOINLINE void keep_fragment(struct packet *packet, int known)
{
	struct fragment_key key;
	struct fragment fragment = { .flow = packet->tuple };

	if (!known) {
		if (!bpf_map_lookup_elem(&virtuals, &packet->tuple.target))
			return;
		fragment.flow.protocol = 0;
	}
	fragment_key_of(packet, &key);
	bpf_map_update_elem(&fragments, &key, &fragment, BPF_ANY);
}

/* Lowers the maximum segment size that a SYN announces to `most`. Returns 0, or 1 if the packet must be dropped. */
NOINLINE int clamp_segments(struct __sk_buff *skb, struct packet *packet, __u32 most)
{
	__u8 offset;
	__u32 transport = packet->transport;
	struct scratch *scratch = find_scratch();

	if (!scratch || bpf_skb_load_bytes(skb, transport + 12, &offset, 1))
		return 0;
	__u32 length = (offset >> 4) * 4;
	if (length <= sizeof(struct tcphdr) || length > 60)
		return 0;
	length -= sizeof(struct tcphdr);
	if (length > 40 || bpf_skb_load_bytes(skb, transport + sizeof(struct tcphdr), scratch->quoted, length))
		return 0;
	/* In memory of a map, the position has any value for the verifier, which then sees a step of the loop once, and
	 * not once for every position. */
	WRITE_ONCE(scratch->at, 0);
	for (int i = 0; i < 40; i++) {
		__u32 at = READ_ONCE(scratch->at);
		if (at > 36 || at + 4 > length)
			return 0;
		__u8 *option = scratch->quoted + at;
		if (option[0] == 0)
			return 0;
		if (option[0] == 1) {
			WRITE_ONCE(scratch->at, at + 1);
			continue;
		}
		if (option[1] < 2)
			return 0;
		if (option[0] != 2 || option[1] != 4) {
			WRITE_ONCE(scratch->at, at + option[1]);
			continue;
		}
		__u32 before = option[2] << 8 | option[3];
		if (before <= most)
			return 0;
		__be16 from = htons(before), to = htons(most);
		if (bpf_skb_store_bytes(skb, transport + sizeof(struct tcphdr) + at + 2, &to, sizeof(to), 0))
			return 1;
		/* Sums are of words at even offsets. */
		if (at & 1) {
			from = __builtin_bswap16(from);
			to = __builtin_bswap16(to);
		}
		return !!bpf_l4_csum_replace(skb, transport + 16, from, to, 2);
	}
	return 0;
}

/* Changes the addresses of the header of IP, and counts a hop. Returns 0 if it could. */
INLINE int translate_network(struct __sk_buff *skb, struct packet *packet, struct flow *flow, __u64 addresses)
{
	void *end = (void *)(long)skb->data_end;

	if (packet->ipv6) {
		struct ipv6 *ip = (void *)(long)skb->data + NETWORK;
		if ((void *)(ip + 1) > end)
			return 1;
		__u16 before = *(__u16 *)&ip->next;
		ip->source = flow->source;
		ip->target = flow->target;
		ip->hops -= 1;
		/* Nothing in the packet makes up for these, so the sum that a network card may have made changes. */
		__u64 sum = difference(before, *(__u16 *)&ip->next);
		if (packet->kind == LATER)
			sum += addresses;
		bpf_csum_update(skb, folded(sum));
		return 0;
	}
	struct ipv4 *ip = (void *)(long)skb->data + NETWORK;
	if ((void *)(ip + 1) > end)
		return 1;
	__u16 before = *(__u16 *)&ip->ttl;
	ip->source = flow->source.word[3];
	ip->target = flow->target.word[3];
	ip->ttl -= 1;
	__u64 sum = addresses + difference(before, *(__u16 *)&ip->ttl) + (__u16)~ip->checksum;
	ip->checksum = ~folded(sum);
	return 0;
}

/* Changes the ports, and the checksum of TCP or UDP. Returns 0 if it could. */
INLINE int translate_transport(struct __sk_buff *skb, struct packet *packet, struct flow *flow, __u64 addresses)
{
	__u32 transport = packet->transport & 0x3ff;
	__be32 *ports = (void *)(long)skb->data + transport;
	if ((void *)(ports + 1) > (void *)(long)skb->data_end)
		return 1;
	__u32 before = *ports;
	((__be16 *)ports)[0] = flow->source_port;
	((__be16 *)ports)[1] = flow->target_port;
	__u32 after = *ports;

	__u32 at = transport + 16;
	__u64 flags = 0;
	if (packet->tuple.protocol == IPPROTO_UDP) {
		at = transport + 6;
		flags = BPF_F_MARK_MANGLED_0;
	}
	if (before != after && bpf_l4_csum_replace(skb, at, before, after, flags | sizeof(after)))
		return 1;
	__u32 sum = folded(addresses);
	if (!packet->ipv6)
		return !!bpf_l4_csum_replace(skb, at, 0, sum, flags | BPF_F_PSEUDO_HDR);
	if (!bpf_l4_csum_replace(skb, at, 0, sum, flags | BPF_F_PSEUDO_HDR | BPF_F_IPV6))
		return 0;
	/* Kernels before 6.16 do not know the flag. */
	return !!bpf_l4_csum_replace(skb, at, 0, sum, flags | BPF_F_PSEUDO_HDR);
}

/* Notes the numbers of a segment, if its sender may be the end of the connection: those of the segment are close ahead
 * of the last ones. Somebody who sees no packet of the flow hits both once in 2^21 segments. Returns 0 if not. */
INLINE int note_numbers(const struct packet *packet, struct flow *flow)
{
	if (packet->sequence - flow->end + BEHIND_MAX > SENT_MAX + BEHIND_MAX ||
	    packet->acknowledged - flow->acknowledged + BEHIND_MAX > ACKNOWLEDGED_MAX + BEHIND_MAX)
		return 0;
	__u32 end = packet->sequence + packet->payload + (packet->flags & TCP_FIN);
	if ((__s32)(end - flow->end) > 0)
		flow->end = end;
	if ((__s32)(packet->acknowledged - flow->acknowledged) > 0)
		flow->acknowledged = packet->acknowledged;
	return 1;
}

/* True if a RST comes from an end of the connection: its number is one that its sender has sent, and that the other end
 * has not acknowledged yet, or the next. The receiver checks that too (RFC 5961), and continues if it is wrong. */
INLINE int is_reset_right(const struct packet *packet, const struct flow *flow, const struct flow *partner)
{
	__s32 sent = flow->end - partner->acknowledged;
	if (packet->sequence - partner->acknowledged <= (__u32)(sent > 0 ? sent : 0))
		return 1;
	total(TOTAL_RESET_IGNORED);
	return 0;
}

/* Follows a flow of TCP by a segment from the client. */
INLINE void follow_client(struct packet *packet, struct flow *flow)
{
	__u8 flags = packet->flags;

	if (flow->bits & FLOW_UNPROVEN) {
		if (flags & TCP_RST) {
			if (flow->end - packet->sequence <= 1)
				end_flow(flow, find_partner(flow, IPPROTO_TCP));
		} else if (flow->bits & FLOW_RESUMED) {
			__u32 end = packet->sequence + packet->payload + (flags & TCP_FIN);
			if ((__s32)(end - flow->end) > 0)
				flow->end = end;
			flow->acknowledged = packet->acknowledged;
		} else if ((flags & TCP_SYN) && !(flow->bits & FLOW_ANSWERED)) {
			flow->end = packet->sequence + packet->payload + 1;
		}
		return;
	}
	if (flags & TCP_SYN)
		return;
	if (flags & TCP_RST) {
		struct flow *back = find_partner(flow, IPPROTO_TCP);
		if (back && is_reset_right(packet, flow, back))
			end_flow(flow, back);
		return;
	}
	if (note_numbers(packet, flow) && (flags & TCP_FIN)) {
		__u32 before = __sync_fetch_and_or(&flow->bits, FLOW_FIN_CLIENT);
		if (before & FLOW_FIN_ENDPOINT)
			end_flow(flow, find_partner(flow, IPPROTO_TCP));
	}
}

/* Follows a flow of TCP that is not proven by a segment from the endpoint. Returns 1 if it is one to repeat_syn(). */
NOINLINE int follow_answer(struct packet *packet, struct flow *flow, __u64 now_ns)
{
	struct flow *forth = find_partner(flow, IPPROTO_TCP);
	__u8 flags = packet->flags;

	if (!forth)
		return 0;
	/* Bytes of data of the SYN that are not acknowledged. */
	__u32 left = forth->end - packet->acknowledged;
	if (flags & TCP_RST) {
		int is_right = (flags & TCP_ACK) ? left <= SYN_DATA_MAX : packet->sequence == flow->end;
		if (forth->bits & FLOW_RESUMED)
			is_right = packet->sequence == forth->acknowledged;
		if (!is_right) {
			total(TOTAL_RESET_IGNORED);
			return 0;
		}
		if (!(forth->bits & (FLOW_ANSWERED | FLOW_COUNTED | FLOW_ENDED | FLOW_RESUMED)))
			refuse_flow(forth, now_ns);
		end_flow(forth, flow);
	} else if (flags & TCP_SYN) {
		if ((flags & TCP_ACK) && left <= SYN_DATA_MAX) {
			forth->sequence = flow->end = packet->sequence + 1;
			flow->acknowledged = packet->acknowledged;
			__sync_fetch_and_or(&forth->bits, FLOW_ANSWERED);
		}
	} else if ((flags & TCP_ACK) && (forth->bits & FLOW_RESUMED)) {
		/* The endpoint knows the connection. */
		if (left < GUESS) {
			forth->sequence = forth->acknowledged;
			flow->end = packet->sequence + packet->payload + (flags & TCP_FIN);
			flow->acknowledged = packet->acknowledged;
			struct tuple key;
			partner_of(flow, IPPROTO_TCP, &key);
			forth = prove(&key, forth);
			if (forth) {
				count_flow(forth);
				total(TOTAL_RESUMED);
			}
		}
	} else if (flags == TCP_ACK && left > SYN_DATA_MAX) {
		return !(forth->bits & (FLOW_ANSWERED | FLOW_REPEATED | FLOW_ENDED));
	}
	return 0;
}

/* Follows a flow of TCP by a segment from the endpoint. */
INLINE void follow_endpoint(struct packet *packet, struct flow *flow)
{
	__u8 flags = packet->flags;

	if (!(flags & (TCP_RST | TCP_SYN))) {
		if (!note_numbers(packet, flow) || !(flags & TCP_FIN))
			return;
		struct flow *forth = find_partner(flow, IPPROTO_TCP);
		if (forth && (__sync_fetch_and_or(&forth->bits, FLOW_FIN_ENDPOINT) & FLOW_FIN_CLIENT))
			end_flow(forth, flow);
		return;
	}
	struct flow *forth = find_partner(flow, IPPROTO_TCP);
	if (!forth)
		return;
	if (flags & TCP_RST) {
		if (is_reset_right(packet, flow, forth))
			end_flow(forth, flow);
	} else if (flags == (TCP_SYN | TCP_ACK) && packet->sequence + 1 != forth->sequence) {
		/* The endpoint had lost the connection, and the client has begun another one with the port. */
		forth->sequence = forth->acknowledged = flow->end = packet->sequence + 1;
		forth->end = flow->acknowledged = packet->acknowledged;
	}
}

/* Follows the state of a flow of datagrams: it is called for every datagram but the first. */
INLINE void follow_udp(struct packet *packet, struct flow *flow)
{
	if (!(flow->bits & FLOW_BACK)) {
		if (!(flow->bits & FLOW_COUNTED))
			count_flow(flow);
		return;
	}
	if (flow->bits & FLOW_ANSWERED)
		return;
	flow->bits |= FLOW_ANSWERED;
	struct flow *forth = find_partner(flow, packet->tuple.protocol);
	if (!forth)
		return;
	__sync_fetch_and_or(&forth->bits, FLOW_ANSWERED);
	if (!(forth->bits & FLOW_COUNTED))
		count_flow(forth);
}

/* Largest packet of IP that this one becomes on the wire. */
INLINE __u32 size_of(struct __sk_buff *skb, struct packet *packet)
{
	if (!skb->gso_size)
		return packet->length;
	__u32 headers = packet->transport - NETWORK;
	if (packet->tuple.protocol == IPPROTO_UDP)
		return headers + sizeof(struct udphdr) + skb->gso_size;
	struct tcphdr *tcp = (void *)(long)skb->data + (packet->transport & 0x3ff);
	if ((void *)(tcp + 1) > (void *)(long)skb->data_end)
		return packet->length;
	return headers + tcp->doff * 4 + skb->gso_size;
}

/* Sends the packet to the next hop. */
INLINE int send(struct flow *flow)
{
	struct bpf_redir_neigh hop = {};
	if (is_ipv4(&flow->hop)) {
		hop.nh_family = AF_INET;
		hop.ipv4_nh = flow->hop.word[3];
	} else {
		hop.nh_family = AF_INET6;
		__builtin_memcpy(hop.ipv6_nh, &flow->hop, sizeof(flow->hop));
	}
	return bpf_redirect_neigh(flow->ifindex, &hop, sizeof(hop), 0);
}

/* Checks that a packet may be sent along a flow. Returns NEXT if so, or the program's result. */
INLINE int admit(struct __sk_buff *skb, struct packet *packet, struct flow *flow, __u64 now_ns)
{
	if (packet->ttl <= 1) {
		total(TOTAL_EXPIRED);
		return DROP;
	}
	if (now_ns - flow->routed_ns > ROUTE_NS && find_route(skb, flow, packet->tuple.protocol, skb->ifindex, now_ns)) {
		total(TOTAL_UNROUTABLE);
		return DROP;
	}
	if (size_of(skb, packet) > flow->mtu)
		return answer_too_big(skb, packet, flow->mtu);
	if (now_ns - flow->last_ns > LAST_NS)
		flow->last_ns = now_ns;
	return NEXT;
}

/* Translates a packet of a flow, and sends it. A function that is not static is verified once and apart, not for each way
 * to reach it. */
__attribute__((noinline)) int relay(struct __sk_buff *skb, struct packet *packet, struct flow *flow, __u64 now_ns)
{
	if (!packet || !flow)
		return DROP;
	int result = admit(skb, packet, flow, now_ns);
	if (result != NEXT)
		return result;
	if (packet->flags & TCP_SYN) {
		__u32 headers = (packet->ipv6 ? sizeof(struct ipv6) : sizeof(struct ipv4)) + sizeof(struct tcphdr);
		__u32 clamp = flow->clamp > headers ? flow->clamp - headers : 1;
		if (clamp_segments(skb, packet, clamp))
			return DROP;
	}
	__u64 addresses =
		difference_of(&packet->tuple.source, &flow->source) + difference_of(&packet->tuple.target, &flow->target);
	if (translate_network(skb, packet, flow, addresses) || translate_transport(skb, packet, flow, addresses))
		return DROP;
	return send(flow);
}

/* Not static, as relay(): loops of choose() are long. */
__attribute__((noinline)) __u32 choose_endpoint(struct record *record, const struct address *client, __u64 now_ns)
{
	if (!record || !client)
		return 0;
	return choose(record, client, now_ns);
}

/* As choose_endpoint(), by the client's address and port alone: a client that comes back gets the same again. */
__attribute__((noinline)) __u32 choose_by_hash(struct record *record, const struct address *client, __u32 port)
{
	if (!record || !client || !record->n)
		return 0;
	__u32 i = drawn(record, (hash_of(client) ^ port) * 0x9e3779b1);
	return endpoint_at(record, i);
}

/* A client's own SYN to an endpoint, past the virtual address, with the port of a flow that shows the endpoint the
 * client's address: the endpoint's answers would go to that flow. If it has ended, it goes; if not, the client is
 * refused at once, and takes another port. */
NOINLINE int meet(struct __sk_buff *skb, struct packet *packet)
{
	struct tuple key = {
		.source = packet->tuple.target,
		.target = packet->tuple.source,
		.source_port = packet->tuple.target_port,
		.target_port = packet->tuple.source_port,
		.protocol = packet->tuple.protocol,
	};
	struct flow *back = find_flow(&key);
	if (!back || !(back->bits & FLOW_BACK))
		return NEXT;
	if (!(back->bits & FLOW_ENDED)) {
		total(TOTAL_PORT_IN_USE);
		return answer_reset(skb, packet);
	}
	partner_of(back, packet->tuple.protocol, &key);
	struct flow *forth = find_partner(back, packet->tuple.protocol);
	struct tuple partner;
	if (forth)
		remove_flow(&key, forth, &partner);
	return NEXT;
}

/* Begins a flow with a packet of none. Returns null if there is none to be relayed, and the program's result. */
INLINE struct flow *begin(struct __sk_buff *skb, struct packet *packet, __u64 now_ns, int *result)
{
	struct service_key key = {
		.addr = packet->tuple.target, .port = packet->tuple.target_port, .protocol = packet->tuple.protocol
	};
	int tcp = packet->tuple.protocol == IPPROTO_TCP;
	__u8 flags = packet->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN);
	struct record *record = find_service(&key);
	if (!record) {
		if (packet->fragmented)
			keep_fragment(packet, 0);
		*result = flags == TCP_SYN ? meet(skb, packet) : NEXT;
		return 0;
	}
	*result = DROP;
	int flood = is_flooded();
	if (tcp && flags != TCP_SYN && (!flood || !(flags & TCP_ACK) || (flags & (TCP_SYN | TCP_RST)))) {
		/* As a host answers that does not know the connection: the client need not wait for a timeout. */
		total(TOTAL_STRAY);
		*result = answer_reset(skb, packet);
		return 0;
	}
	if (packet->ttl <= 1) {
		total(TOTAL_EXPIRED);
		return 0;
	}
	__u32 id;
	/* In a flood, beginnings are forgotten soon. A client's next packet then begins its flow again, with the same
	 * endpoint and port: so that the flood does not keep clients out whose packets take long. */
	if (flood && record->policy != POLICY_MAGLEV && !(record->flags & RECORD_AFFINITY))
		id = choose_by_hash(record, &packet->tuple.source, packet->tuple.source_port);
	else
		id = choose_endpoint(record, &packet->tuple.source, now_ns);
	if (!id) {
		total(TOTAL_NO_ENDPOINT);
		if (tcp)
			*result = answer_reset(skb, packet);
		else if (packet->ipv6)
			*result = answer_error(skb, packet, 1, 4, 0);
		else
			*result = answer_error(skb, packet, 3, 3, 0);
		return 0;
	}
	if (flood)
		total(TOTAL_UNPROVEN_FULL);
	return begin_flow(skb, packet, record, id, now_ns);
}

/* Looks after the entry of a packet to an endpoint before it is used. Returns the entry to use, or null if the packet
 * begins a flow; 1 in `lost` if another CPU removes the old one now. */
NOINLINE struct flow *renew(struct packet *packet, struct flow *flow, int *lost)
{
	int tcp = packet->tuple.protocol == IPPROTO_TCP, over = 0;

	if (tcp && (packet->flags & TCP_SYN)) {
		/* The client uses its port again, or the other entry was evicted. */
		over = (flow->bits & (FLOW_ENDED | FLOW_RESUMED)) || !find_partner(flow, IPPROTO_TCP);
	} else if ((flow->bits & (FLOW_UNPROVEN | FLOW_ANSWERED | FLOW_ENDED)) == (FLOW_UNPROVEN | FLOW_ANSWERED)) {
		if (tcp && (!(packet->flags & TCP_ACK) || (packet->flags & TCP_RST) ||
			    packet->acknowledged - flow->sequence >= GUESS))
			return flow;
		struct flow *proven = prove(&packet->tuple, flow);
		if (proven) {
			if (!(proven->bits & FLOW_COUNTED)) {
				proven->acknowledged = packet->acknowledged;
				count_flow(proven);
			}
			return proven;
		}
		over = 1;
	}
	if (!over)
		return flow;
	struct tuple partner;
	*lost = remove_flow(&packet->tuple, flow, &partner);
	return 0;
}

/* Relays TCP and UDP. */
INLINE int relay_transport(struct __sk_buff *skb, struct packet *packet, __u64 now_ns)
{
	struct flow *flow = find_flow(&packet->tuple);
	int tcp = packet->tuple.protocol == IPPROTO_TCP, known = 1;

	if (flow && !(flow->bits & FLOW_BACK) && ((flow->bits & FLOW_UNPROVEN) || (packet->flags & TCP_SYN))) {
		int lost = 0;
		flow = renew(packet, flow, &lost);
		if (lost)
			return DROP;
	}
	if (!flow) {
		int result;
		known = 0;
		flow = begin(skb, packet, now_ns, &result);
		if (!flow)
			return result;
	}
	if (packet->fragmented)
		keep_fragment(packet, 1);
	if (!tcp) {
		if (known)
			follow_udp(packet, flow);
	} else if (!(flow->bits & FLOW_BACK)) {
		follow_client(packet, flow);
	} else if (!(flow->bits & FLOW_UNPROVEN)) {
		follow_endpoint(packet, flow);
	} else {
		if (follow_answer(packet, flow, now_ns)) {
			struct tuple client;
			partner_of(flow, IPPROTO_TCP, &client);
			if (repeat_syn(skb, packet, &client))
				return DROP;
		}
		/* The flow may have moved. */
		flow = find_flow(&packet->tuple);
		if (!flow)
			return DROP;
	}
	return relay(skb, packet, flow, now_ns);
}

/* Relays a fragment that is not the first. */
INLINE int relay_later(struct __sk_buff *skb, struct packet *packet, __u64 now_ns)
{
	struct fragment_key key;
	fragment_key_of(packet, &key);
	struct fragment *fragment = bpf_map_lookup_elem(&fragments, &key);
	if (!fragment) {
		if (!bpf_map_lookup_elem(&virtuals, &packet->tuple.target))
			return NEXT;
		/* Fragments are sent in order, and mostly arrive so. */
		total(TOTAL_FRAGMENT_EARLY);
		return DROP;
	}
	if (!fragment->flow.protocol)
		return NEXT;
	struct tuple tuple = fragment->flow;
	struct flow *flow = find_flow(&tuple);
	if (!flow) {
		total(TOTAL_FRAGMENT_EARLY);
		return DROP;
	}
	int result = admit(skb, packet, flow, now_ns);
	if (result != NEXT)
		return result;
	__u64 addresses =
		difference_of(&packet->tuple.source, &flow->source) + difference_of(&packet->tuple.target, &flow->target);
	if (translate_network(skb, packet, flow, addresses))
		return DROP;
	return send(flow);
}

/* Relays an error of ICMP about a packet of a flow. */
INLINE int relay_error(struct __sk_buff *skb, struct packet *packet, __u64 now_ns)
{
	struct tuple key = {};
	/* The sender of the quoted packet is told, or it is an error about a packet of another translation. */
	if (read_quoted(skb, packet, &key) || !same_address(&key.target, &packet->tuple.target))
		return NEXT;
	struct flow *flow = find_flow(&key);
	if (!flow)
		return NEXT;
	__u8 type = 0;
	bpf_skb_load_bytes(skb, packet->transport, &type, sizeof(type));
	if ((flow->bits & FLOW_BACK) && type == (packet->ipv6 ? 1 : 3)) {
		__u8 code = 0;
		bpf_skb_load_bytes(skb, packet->transport + 1, &code, sizeof(code));
		struct flow *forth = find_partner(flow, key.protocol);
		/* Not a packet that was too large. */
		if (forth && !(forth->bits & FLOW_ANSWERED) && (packet->ipv6 || code != 4))
			refuse_flow(forth, now_ns);
	}
	int result = admit(skb, packet, flow, now_ns);
	if (result != NEXT)
		return result;
	__u64 addresses =
		difference_of(&packet->tuple.source, &flow->source) + difference_of(&packet->tuple.target, &flow->target);
	/* The source becomes the other end too: routers behind this machine stay unknown, and clients could not use them. */
	if (translate_network(skb, packet, flow, addresses) || translate_quoted(skb, packet, flow, &key))
		return DROP;
	return send(flow);
}

SECTION("classifier") int forward(struct __sk_buff *skb)
{
	struct packet packet = {};
	parse(skb, &packet);
	if (packet.kind == OTHER)
		return NEXT;
	__u64 now_ns = bpf_ktime_get_coarse_ns();
	if (packet.kind == TRANSPORT)
		return relay_transport(skb, &packet, now_ns);
	if (packet.kind == LATER)
		return relay_later(skb, &packet, now_ns);
	return relay_error(skb, &packet, now_ns);
}

/* Flow that the sweep has found to be over: its entry as the sweep has read it. */
struct over {
	struct tuple key;
	__u64 begun_ns;
	__u64 last_ns;
	__u64 quiet_ns; /* the other entry had no packet since then, if it is there */
	__u32 bits;
	__u32 endpoint;
	__u64 flags;
};

#define OVER_REMNANT 1 /* the entry goes only without the other one */
#define OVER_HURRIED 2 /* the flow goes even if packets came since */


#define OVER_MAX 40
#define OVER_HEAD 16

/* Removes a flow, if nothing has happened to it since it was read. Returns 1 if it has gone. */
__attribute__((noinline)) int end_over(struct __sk_buff *skb, __u32 i)
{
	struct over over;
	struct tuple partner;

	if (i >= OVER_MAX || bpf_skb_load_bytes(skb, OVER_HEAD + i * sizeof(over), &over, sizeof(over)))
		return 0;
	__u32 is_unproven = over.bits & FLOW_UNPROVEN;
	struct flow *flow = is_unproven ? bpf_map_lookup_elem(&openings, &over.key) : bpf_map_lookup_elem(&flows, &over.key);
	if (!flow && (over.flags & OVER_HURRIED))
		flow = bpf_map_lookup_elem(&flows, &over.key);
	if (!flow || flow->begun_ns != over.begun_ns)
		return 0;
	if (!(over.flags & OVER_HURRIED) && (flow->last_ns != over.last_ns || flow->bits != over.bits))
		return 0;
	struct flow *other = find_partner(flow, over.key.protocol);
	if ((over.flags & OVER_REMNANT) ? !!other : other && (__s64)(other->last_ns - over.quiet_ns) > 0)
		return 0;
	__u32 bits = flow->bits;
	if (flow->bits & FLOW_BACK) {
		/* Its other entry was evicted, with the state. */
		if (is_unproven)
			return !remove_entry(&openings, &over.key, over.begun_ns);
		return !remove_entry(&flows, &over.key, over.begun_ns);
	}
	if (remove_flow(&over.key, flow, &partner))
		return 0;
	/* Nothing else counts its end now: the entry is not found any more, and its memory not yet used again. */
	if ((bits & (FLOW_COUNTED | FLOW_ENDED)) == FLOW_COUNTED)
		uncount_flow(over.endpoint);
	return 1;
}

/* Ends flows for the sweep, which runs it by itself: the packet is a list of them. Returns how many have gone. */
SECTION("classifier") int end_flows(struct __sk_buff *skb)
{
	int gone = 0;
	for (__u32 i = 0; i < OVER_MAX; i++) {
		if (OVER_HEAD + (i + 1) * sizeof(struct over) > skb->len)
			break;
		gone += end_over(skb, i);
	}
	return gone;
}

/* For bpf_skb_adjust_room() and others that only such programs may call. */
char LICENSE[] SECTION("license") = "Dual MIT/GPL";
