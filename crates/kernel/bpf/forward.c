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

/* Follows the state of a flow of TCP. */
INLINE void follow_tcp(struct __sk_buff *skb, struct packet *packet, struct flow *flow, __u64 now_ns)
{
	__u8 flags = packet->flags;
	void *end = (void *)(long)skb->data_end;
	struct tcphdr *tcp = (void *)(long)skb->data + (packet->transport & 0x3ff);

	if (!(flow->bits & FLOW_BACK)) {
		if (flags & (TCP_RST | TCP_FIN | TCP_SYN)) {
			if (flags & TCP_RST) {
				end_flow(flow);
				return;
			}
			if (flags & TCP_SYN)
				return;
			__u32 before = __sync_fetch_and_or(&flow->bits, FLOW_FIN_CLIENT);
			if (before & FLOW_FIN_ENDPOINT)
				end_flow(flow);
		}
		if ((flow->bits & (FLOW_ANSWERED | FLOW_COUNTED)) == FLOW_ANSWERED && (flags & TCP_ACK)) {
			if ((void *)(tcp + 1) > end)
				return;
			/* Of a client that has read the endpoint's SYN: others guess one in 2^12. */
			if (ntohl(tcp->ack_seq) - flow->sequence < 1 << 20)
				count_flow(flow);
		}
		return;
	}
	if (!(flags & (TCP_RST | TCP_FIN | TCP_SYN)))
		return;
	__u32 sequence = 0;
	if ((void *)(tcp + 1) <= end)
		sequence = ntohl(tcp->seq);
	struct flow *forth = find_partner(flow, packet->tuple.protocol);
	if (!forth)
		return;
	if (flags & TCP_RST) {
		if (!(forth->bits & (FLOW_ANSWERED | FLOW_COUNTED | FLOW_ENDED)))
			refuse_flow(forth, now_ns);
		end_flow(forth);
	} else if (flags & TCP_SYN) {
		if (flags & TCP_ACK) {
			forth->sequence = sequence + 1;
			__sync_fetch_and_or(&forth->bits, FLOW_ANSWERED);
		}
	} else {
		__u32 before = __sync_fetch_and_or(&forth->bits, FLOW_FIN_ENDPOINT);
		if (before & FLOW_FIN_CLIENT)
			end_flow(forth);
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

/* Translates a packet of a flow, and sends it. */
INLINE int relay(struct __sk_buff *skb, struct packet *packet, struct flow *flow, __u64 now_ns)
{
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

/* A function that is not static is verified once and apart, not for each way to reach it: loops of choose() are long. */
__attribute__((noinline)) __u32 choose_endpoint(struct record *record, const struct address *client, __u64 now_ns)
{
	if (!record || !client)
		return 0;
	return choose(record, client, now_ns);
}

/* Begins a flow with a packet of none. Returns null if there is none to be relayed, and the program's result. */
INLINE struct flow *begin(struct __sk_buff *skb, struct packet *packet, __u64 now_ns, int *result)
{
	struct service_key key = {
		.addr = packet->tuple.target, .port = packet->tuple.target_port, .protocol = packet->tuple.protocol
	};
	struct record *record = find_service(&key);
	if (!record) {
		if (packet->fragmented)
			keep_fragment(packet, 0);
		*result = NEXT;
		return 0;
	}
	*result = DROP;
	int tcp = packet->tuple.protocol == IPPROTO_TCP;
	if (tcp && (packet->flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) != TCP_SYN) {
		/* As a host answers that does not know the connection: the client need not wait for a timeout. */
		total(TOTAL_STRAY);
		*result = answer_reset(skb, packet);
		return 0;
	}
	if (packet->ttl <= 1) {
		total(TOTAL_EXPIRED);
		return 0;
	}
	__u32 id = choose_endpoint(record, &packet->tuple.source, now_ns);
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
	return begin_flow(skb, packet, record, id, now_ns);
}

/* Relays TCP and UDP. */
INLINE int relay_transport(struct __sk_buff *skb, struct packet *packet, __u64 now_ns)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, &packet->tuple);
	int tcp = packet->tuple.protocol == IPPROTO_TCP, known = !!flow;

	if (flow && (flow->bits & (FLOW_ENDED | FLOW_BACK)) == FLOW_ENDED && tcp && (packet->flags & TCP_SYN)) {
		forget_flow(flow, packet);
		flow = 0;
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
	if (tcp)
		follow_tcp(skb, packet, flow, now_ns);
	else if (known)
		follow_udp(packet, flow);
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
	struct flow *flow = bpf_map_lookup_elem(&flows, &tuple);
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
	struct flow *flow = bpf_map_lookup_elem(&flows, &key);
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

/* For bpf_skb_adjust_room() and others that only such programs may call. */
char LICENSE[] SECTION("license") = "Dual MIT/GPL";
