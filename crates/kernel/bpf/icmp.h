/* Answers that the program makes itself (errors of ICMP, RST), and the translation of errors of ICMP about a flow.
 *
 * An answer leaves where the packet came in, to the machine that sent it there. Errors quote up to QUOTED_MAX bytes.
 */
#ifndef EVENKEEL_ICMP_H
#define EVENKEEL_ICMP_H

#include "flow.h"

#define QUOTED_MAX 512
#define ANSWER_TTL 64

struct ethernet {
	__u16 target[3];
	__u16 source[3];
	__be16 protocol;
};

INLINE void turn_ethernet(struct ethernet *ethernet)
{
#pragma unroll
	for (int i = 0; i < 3; i++) {
		__u16 source = ethernet->source[i];
		ethernet->source[i] = ethernet->target[i];
		ethernet->target[i] = source;
	}
}

/* Writes the headers of Ethernet and IP for an answer with `length` bytes after that of IP. Returns the sum of the
 * pseudo header in `sum`, and 0 if it could. */
NOINLINE int write_answer(struct __sk_buff *skb, struct packet *packet, __u8 protocol, __u32 length, __u64 *sum)
{
	struct ethernet ethernet;
	if (bpf_skb_load_bytes(skb, 0, &ethernet, sizeof(ethernet)))
		return 1;
	turn_ethernet(&ethernet);
	if (bpf_skb_store_bytes(skb, 0, &ethernet, sizeof(ethernet), 0))
		return 1;

	__u64 pseudo = htons(protocol) + (__u64)htons(length);
	if (packet->ipv6) {
		struct ipv6 ip = {
			.version_class_label = htonl(0x60000000),
			.length = htons(length),
			.next = protocol,
			.hops = ANSWER_TTL,
			.source = packet->tuple.target,
			.target = packet->tuple.source,
		};
#pragma unroll
		for (int i = 0; i < 4; i++)
			pseudo += (__u64)ip.source.word[i] + ip.target.word[i];
		*sum = pseudo;
		return !!bpf_skb_store_bytes(skb, NETWORK, &ip, sizeof(ip), 0);
	}
	struct ipv4 ip = {
		.version_length = IPV4_PLAIN,
		.length = htons(length + sizeof(ip)),
		.fragment = htons(IPV4_DONT_FRAGMENT),
		.ttl = ANSWER_TTL,
		.protocol = protocol,
		.source = packet->tuple.target.word[3],
		.target = packet->tuple.source.word[3],
	};
	ip.checksum = ~folded(sum_of_ipv4(&ip));
	*sum = pseudo + ip.source + ip.target;
	return !!bpf_skb_store_bytes(skb, NETWORK, &ip, sizeof(ip), 0);
}

/* Answers with an error of ICMP. `field` is the second word of its header, in host order: the MTU, or 0. */
NOINLINE int answer_error(struct __sk_buff *skb, struct packet *packet, __u8 type, __u8 code, __u32 field)
{
	struct icmp icmp = { .type = type, .code = code, .field = htonl(field) };
	__u32 network = packet->ipv6 ? sizeof(struct ipv6) : sizeof(struct ipv4);
	__u32 length = packet->length && !skb->gso_size ? packet->length : skb->len - NETWORK;
	__u64 sum;

	if (length > QUOTED_MAX)
		length = QUOTED_MAX;
	struct scratch *at = find_scratch();
	if (!at || length < sizeof(struct ipv4))
		return DROP;
	if (bpf_skb_change_tail(skb, NETWORK + length, 0))
		return DROP;
	__builtin_memset(at->quoted, 0, sizeof(at->quoted));
	if (bpf_skb_load_bytes(skb, NETWORK, at->quoted, length))
		return DROP;
	if (bpf_skb_adjust_room(skb, network + sizeof(icmp), BPF_ADJ_ROOM_MAC, 0))
		return DROP;
	if (write_answer(skb, packet, packet->ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, length + sizeof(icmp), &sum))
		return DROP;
	if (!packet->ipv6)
		sum = 0;
	sum += (__u32)bpf_csum_diff(0, 0, (void *)at->quoted, sizeof(at->quoted), 0);
	sum += (__u64)(*(__u32 *)&icmp) + icmp.field;
	icmp.checksum = ~folded(sum);
	if (bpf_skb_store_bytes(skb, NETWORK + network, &icmp, sizeof(icmp), 0))
		return DROP;
	return bpf_redirect(skb->ifindex, 0);
}

/* Answers a packet that is larger than the MTU. */
NOINLINE int answer_too_big(struct __sk_buff *skb, struct packet *packet, __u32 mtu)
{
	total(TOTAL_OVERSIZED);
	/* Errors about errors are not sent. */
	if (packet->kind == ICMP)
		return DROP;
	if (packet->ipv6)
		return answer_error(skb, packet, 2, 0, mtu);
	/* Fragmenting is left out: hosts set the bit for TCP, and for datagrams if they can look after the MTU. */
	if (!packet->whole || packet->kind != TRANSPORT)
		return DROP;
	return answer_error(skb, packet, 3, 4, mtu);
}

/* Header of TCP, without fields of bits. */
struct tcp {
	__be16 source;
	__be16 target;
	__be32 sequence;
	__be32 acknowledged;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__sum16 checksum;
	__be16 urgent;
};

/* Changes a segment of TCP to a RST for its sender. Returns 0 if it could. */
NOINLINE int make_reset(struct __sk_buff *skb, struct packet *packet)
{
	__u32 network = packet->ipv6 ? sizeof(struct ipv6) : sizeof(struct ipv4);
	__u32 at = NETWORK + network;
	__u64 sum;

	/* Nothing answers a RST, and nobody sends extension headers with TCP. */
	if ((packet->flags & TCP_RST) || packet->transport != at || packet->fragmented || skb->gso_size)
		return 1;
	struct tcp reset = {
		.source = packet->tuple.target_port,
		.target = packet->tuple.source_port,
		.offset = sizeof(reset) / 4 << 4,
		.flags = TCP_RST,
	};
	if (packet->flags & TCP_ACK) {
		reset.sequence = htonl(packet->acknowledged);
	} else {
		reset.flags |= TCP_ACK;
		reset.acknowledged =
			htonl(packet->sequence + packet->payload + !!(packet->flags & TCP_SYN) + !!(packet->flags & TCP_FIN));
	}
	if (bpf_skb_change_tail(skb, at + sizeof(reset), 0))
		return 1;
	if (write_answer(skb, packet, IPPROTO_TCP, sizeof(reset), &sum))
		return 1;
	const __u32 *word = (const __u32 *)&reset;
#pragma unroll
	for (int i = 0; i < 5; i++)
		sum += word[i];
	reset.checksum = ~folded(sum);
	return !!bpf_skb_store_bytes(skb, at, &reset, sizeof(reset), 0);
}

/* Answers a segment of TCP with RST. */
NOINLINE int answer_reset(struct __sk_buff *skb, struct packet *packet)
{
	return make_reset(skb, packet) ? DROP : bpf_redirect(skb->ifindex, 0);
}

/* Changes an endpoint's answer to the SYN of a flow, which acknowledges something else, to that SYN, and sends RST ahead.
 *
 * The endpoint still has a former connection with the port, mostly in TIME-WAIT. A client would answer with RST, and
 * send its SYN again after a second; this saves it the second. `packet` becomes that of the SYN. Returns 0 if it could. */
NOINLINE int repeat_syn(struct __sk_buff *skb, struct packet *packet, const struct tuple *client)
{
	struct scratch *at = find_scratch();
	struct opening *opening = bpf_map_lookup_elem(&openings, client);
	if (!at || !opening || opening->syn.length > sizeof(opening->syn.options))
		return 1;
	struct tcp *tcp = (void *)at->quoted;
	__u32 network = packet->ipv6 ? sizeof(struct ipv6) : sizeof(struct ipv4);
	__u32 length = sizeof(*tcp) + opening->syn.length;
	__u64 sum;

	__builtin_memset(at->quoted, 0, sizeof(*tcp) + sizeof(opening->syn.options));
	tcp->source = client->source_port;
	tcp->target = client->target_port;
	tcp->sequence = htonl(opening->syn.sequence);
	tcp->offset = length / 4 << 4;
	tcp->flags = opening->syn.flags;
	tcp->window = opening->syn.window;
	__builtin_memcpy(at->quoted + sizeof(*tcp), opening->syn.options, sizeof(opening->syn.options));
	__sync_fetch_and_or(&opening->flow.bits, FLOW_REPEATED);

	if (make_reset(skb, packet) || bpf_clone_redirect(skb, skb->ifindex, 0))
		return 1;
	if (bpf_skb_change_tail(skb, NETWORK + network + length, 0))
		return 1;
	/* As an answer to one from the virtual address to the client. */
	packet->tuple.source = client->target;
	packet->tuple.target = client->source;
	if (write_answer(skb, packet, IPPROTO_TCP, length, &sum))
		return 1;
	sum += (__u32)bpf_csum_diff(0, 0, (void *)at->quoted, sizeof(*tcp) + sizeof(opening->syn.options), 0);
	tcp->checksum = ~folded(sum);
	if (bpf_skb_store_bytes(skb, NETWORK + network, at->quoted, length, 0))
		return 1;
	packet->tuple = *client;
	packet->length = network + length;
	packet->flags = tcp->flags;
	packet->header = length;
	packet->payload = 0;
	packet->whole = 1;
	packet->ttl = ANSWER_TTL;
	pull(skb, NETWORK + network + sizeof(*tcp));
	total(TOTAL_SYN_REPEATED);
	return 0;
}

/* What an error quotes of a packet of a flow: as much as all errors have. */
struct quoted4 {
	struct ipv4 ip;
	__be16 source_port;
	__be16 target_port;
	__be16 length;
	__sum16 checksum; /* of UDP */
};

struct quoted6 {
	struct ipv6 ip;
	__be16 source_port;
	__be16 target_port;
	__be16 length;
	__sum16 checksum;
};

/* Changes a checksum of the quoted packet by the differences of its pseudo header and ports. */
INLINE __sum16 changed(__sum16 checksum, __u64 sum)
{
	return ~folded((__u16)~checksum + (sum & 0xffffffff) + (sum >> 32));
}

/* Reads the tuple of packets in the other direction than the one that an error quotes. Returns 0 if it could. */
NOINLINE int read_quoted(struct __sk_buff *skb, struct packet *packet, struct tuple *key)
{
	__u32 at = packet->transport + sizeof(struct icmp);

	if (packet->ipv6) {
		struct quoted6 quoted;
		if (bpf_skb_load_bytes(skb, at, &quoted, sizeof(quoted)) || !is_transport(quoted.ip.next))
			return 1;
		key->source = quoted.ip.target;
		key->target = quoted.ip.source;
		key->source_port = quoted.target_port;
		key->target_port = quoted.source_port;
		key->protocol = quoted.ip.next;
		return 0;
	}
	struct quoted4 quoted;
	if (bpf_skb_load_bytes(skb, at, &quoted, sizeof(quoted)) || !is_transport(quoted.ip.protocol))
		return 1;
	if (quoted.ip.version_length != IPV4_PLAIN || (quoted.ip.fragment & htons(IPV4_OFFSET)))
		return 1;
	set_ipv4(&key->source, quoted.ip.target);
	set_ipv4(&key->target, quoted.ip.source);
	key->source_port = quoted.target_port;
	key->target_port = quoted.source_port;
	key->protocol = quoted.ip.protocol;
	return 0;
}

/* Translates the quoted packet of an error, and changes the checksum of the error. Returns 0 if it could. */
NOINLINE int translate_quoted(struct __sk_buff *skb, struct packet *packet, struct flow *flow, struct tuple *key)
{
	__u32 at = packet->transport + sizeof(struct icmp);
	__u32 network = packet->ipv6 ? sizeof(struct ipv6) : sizeof(struct ipv4);
	__u64 sum, total;
	__sum16 checksum;
	struct {
		__be16 source;
		__be16 target;
	} ports = { flow->target_port, flow->source_port };

	/* Differences of pseudo header and ports: they change the checksum of the quoted packet. */
	sum = difference_of(&key->target, &flow->target) + difference_of(&key->source, &flow->source);
	__u64 sum_of_ports = difference(key->target_port, flow->target_port) + difference(key->source_port, flow->source_port);
	total = sum_of_ports;
	if (packet->ipv6) {
		total += sum;
		if (bpf_skb_store_bytes(skb, at + 8, &flow->target, sizeof(flow->target), 0) ||
		    bpf_skb_store_bytes(skb, at + 24, &flow->source, sizeof(flow->source), 0))
			return 1;
	} else {
		/* The header of IPv4 and its checksum change by differences that cancel each other out, unless the checksum was
		 * wrong: then it stays wrong by as much. */
		struct ipv4 ip;
		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return 1;
		__sum16 before = ip.checksum;
		ip.source = flow->target.word[3];
		ip.target = flow->source.word[3];
		ip.checksum = changed(before, sum);
		total += sum + difference(before, ip.checksum);
		if (bpf_skb_store_bytes(skb, at, &ip, sizeof(ip), 0))
			return 1;
	}
	if (bpf_skb_store_bytes(skb, at + network, &ports, sizeof(ports), 0))
		return 1;
	/* Errors may quote too little of TCP to have its checksum. */
	__u32 at_checksum = at + network + (key->protocol == IPPROTO_TCP ? 16 : 6);
	if (at_checksum + 2 <= NETWORK + packet->length && !bpf_skb_load_bytes(skb, at_checksum, &checksum, sizeof(checksum)) &&
	    (checksum || key->protocol == IPPROTO_TCP)) {
		__sum16 after = changed(checksum, sum + sum_of_ports);
		if (!after && key->protocol == IPPROTO_UDP)
			after = 0xffff;
		total += difference(checksum, after);
		if (bpf_skb_store_bytes(skb, at_checksum, &after, sizeof(after), 0))
			return 1;
	}
	__u32 at_icmp = packet->transport + 2;
	if (bpf_l4_csum_replace(skb, at_icmp, 0, folded(total), 0))
		return 1;
	if (!packet->ipv6)
		return 0;
	sum = difference_of(&packet->tuple.source, &flow->source) + difference_of(&packet->tuple.target, &flow->target);
	if (!bpf_l4_csum_replace(skb, at_icmp, 0, folded(sum), BPF_F_PSEUDO_HDR | BPF_F_IPV6))
		return 0;
	return !!bpf_l4_csum_replace(skb, at_icmp, 0, folded(sum), BPF_F_PSEUDO_HDR);
}

#endif
