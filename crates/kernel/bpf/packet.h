/* Packets as the program of forwarding reads them: parse(), and the helpers of the kernel that change them.
 *
 * Read are Ethernet without a tag of VLAN, IPv4 without options, IPv6 with up to EXTENSIONS_MAX extension headers, and
 * of these TCP, UDP, and errors of ICMP. All else is OTHER, and left to the stack untouched. Every access follows a
 * comparison with the end of the packet, which the verifier demands.
 */
#ifndef EVENKEEL_PACKET_H
#define EVENKEEL_PACKET_H

#include "common.h"

#include <linux/if_ether.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58

/* Results of a program of tcx. */
#define NEXT -1 /* other programs, then the stack */
#define DROP 2

/* Extension headers of IPv6 that are read: hop-by-hop, destination and fragment, each once, and one more. */
#define EXTENSIONS_MAX 4
/* Bytes of extension headers that are read at most: it bounds offsets for the verifier. */
#define EXTENSIONS_LENGTH_MAX 512

static long (*const bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to, __u32 length) =
	(void *)BPF_FUNC_skb_load_bytes;
static long (*const bpf_skb_store_bytes)(void *skb, __u32 offset, const void *from, __u32 length, __u64 flags) =
	(void *)BPF_FUNC_skb_store_bytes;
static long (*const bpf_skb_pull_data)(void *skb, __u32 length) = (void *)BPF_FUNC_skb_pull_data;
static long (*const bpf_skb_change_tail)(void *skb, __u32 length, __u64 flags) = (void *)BPF_FUNC_skb_change_tail;
static long (*const bpf_skb_adjust_room)(void *skb, __s32 difference, __u32 mode, __u64 flags) =
	(void *)BPF_FUNC_skb_adjust_room;
static long (*const bpf_l4_csum_replace)(void *skb, __u32 offset, __u64 from, __u64 to, __u64 flags) =
	(void *)BPF_FUNC_l4_csum_replace;
static __s64 (*const bpf_csum_diff)(const __be32 *from, __u32 from_size, const __be32 *to, __u32 to_size, __wsum seed) =
	(void *)BPF_FUNC_csum_diff;
static __s64 (*const bpf_csum_update)(void *skb, __wsum sum) = (void *)BPF_FUNC_csum_update;
static long (*const bpf_clone_redirect)(void *skb, __u32 ifindex, __u64 flags) = (void *)BPF_FUNC_clone_redirect;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)BPF_FUNC_redirect;
static long (*const bpf_redirect_neigh)(__u32 ifindex, void *hop, int size, __u64 flags) =
	(void *)BPF_FUNC_redirect_neigh;
static long (*const bpf_fib_lookup)(void *context, void *lookup, int size, __u32 flags) = (void *)BPF_FUNC_fib_lookup;

/* As linux/ip.h and linux/ipv6.h have them, without fields of bits and unions. */
struct ipv4 {
	__u8 version_length;
	__u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__sum16 checksum;
	__be32 source;
	__be32 target;
};

#define IPV4_PLAIN 0x45 /* version 4, no options */
#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_MORE 0x2000
#define IPV4_OFFSET 0x1fff

struct ipv6 {
	__be32 version_class_label;
	__be16 length;
	__u8 next;
	__u8 hops;
	struct address source;
	struct address target;
};

#define IPV6_HOP_BY_HOP 0
#define IPV6_FRAGMENT 44
#define IPV6_DESTINATION 60
#define IPV6_MORE 1
#define IPV6_OFFSET 0xfff8

struct fragment_header {
	__u8 next;
	__u8 spare;
	__be16 offset_more;
	__be32 id;
};

struct icmp {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 field;
};

/* Both ends of a flow, in the order of a packet. The spare bytes are 0. */
struct tuple {
	struct address source;
	struct address target;
	__be16 source_port;
	__be16 target_port;
	__u8 protocol;
	__u8 spare[3];
};

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

/* Packet that was read. */
struct packet {
	struct tuple tuple; /* of a later fragment, without ports; of an error of ICMP, with those of the outer header */
	__u32 length;	    /* of IP, with its header; 0 if segments are joined to more than fits into the field */
	__u32 fragment;	    /* id of the fragments, in network order */
	__u16 transport;    /* offset of the header of the transport protocol */
	__u8 ipv6;
	__u8 kind;
	__u8 fragmented; /* a fragment: the first one, if kind is not LATER */
	__u8 whole;	 /* routers must not fragment it */
	__u8 flags;	 /* of TCP */
	__u8 ttl;
	__u8 header;	 /* length of the header of TCP */
	__be16 window;	 /* of TCP, as the following */
	__u32 sequence;
	__u32 acknowledged;
	__u32 payload;
};

#define NETWORK ETH_HLEN

/* Kinds of packets. */
#define OTHER 0
#define TRANSPORT 1 /* TCP or UDP, with its ports: whole, or the first fragment */
#define LATER 2	    /* a fragment without the header of the transport protocol */
#define ICMP 3	    /* an error of ICMP */

INLINE __u32 least_of(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

/* Makes `length` bytes of the packet readable where they lie, if it has them. */
INLINE void pull(struct __sk_buff *skb, __u32 length)
{
	__u32 there = (__u32)(skb->data_end - skb->data);
	if (there < length && there < skb->len)
		bpf_skb_pull_data(skb, least_of(length, skb->len));
}

/* Folds a sum of 16-bit words to 16 bits. */
INLINE __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

INLINE __u64 sum_of_ipv4(const struct ipv4 *ip)
{
	const __u32 *word = (const __u32 *)ip;
	__u64 sum = 0;
#pragma unroll
	for (int i = 0; i < 5; i++)
		sum += word[i];
	return sum;
}

/* Sum of the difference of two words of a packet. */
INLINE __u64 difference(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

INLINE __u64 difference_of(const struct address *from, const struct address *to)
{
	__u64 sum = 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += difference(from->word[i], to->word[i]);
	return sum;
}

/* Reads the header of TCP or UDP, of which there are `there` bytes to the end of the packet of IP. */
INLINE int parse_transport(struct __sk_buff *skb, struct packet *packet, __u32 there)
{
	void *end = (void *)(long)skb->data_end;
	void *at = (void *)(long)skb->data + (packet->transport & 0x3ff);

	if (packet->tuple.protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = at;
		if ((void *)(tcp + 1) > end)
			return OTHER;
		__u32 header = tcp->doff * 4;
		if (header < sizeof(*tcp) || (there && header > there))
			return OTHER;
		packet->tuple.source_port = tcp->source;
		packet->tuple.target_port = tcp->dest;
		packet->flags = ((__u8 *)tcp)[13];
		packet->header = header;
		packet->window = tcp->window;
		packet->sequence = ntohl(tcp->seq);
		packet->acknowledged = ntohl(tcp->ack_seq);
		packet->payload = (there ? there : skb->len - packet->transport) - header;
	} else {
		struct udphdr *udp = at;
		if ((void *)(udp + 1) > end)
			return OTHER;
		__u32 length = ntohs(udp->len);
		if (length < sizeof(*udp) || (there && !packet->fragmented && length > there))
			return OTHER;
		packet->tuple.source_port = udp->source;
		packet->tuple.target_port = udp->dest;
		packet->flags = 0;
	}
	if (!packet->tuple.source_port || !packet->tuple.target_port)
		return OTHER;
	return TRANSPORT;
}

INLINE int is_transport(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

INLINE int parse_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv4 *ip = (void *)(long)skb->data + NETWORK;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return OTHER;
	if (ip->version_length != IPV4_PLAIN || folded(sum_of_ipv4(ip)) != 0xffff)
		return OTHER;
	__u8 from = ip->source, to = ip->target;
	/* Nobody on another machine has such an address. */
	if (from == 0 || from == 127 || from >= 224 || to == 0 || to == 127 || to >= 224)
		return OTHER;

	__u32 length = ntohs(ip->length), there = 0;
	if (!skb->gso_size) {
		if (length < sizeof(*ip) || NETWORK + length > skb->len)
			return OTHER;
		there = length - sizeof(*ip);
	}
	set_ipv4(&packet->tuple.source, ip->source);
	set_ipv4(&packet->tuple.target, ip->target);
	packet->tuple.protocol = ip->protocol;
	packet->ipv6 = 0;
	packet->length = length;
	packet->ttl = ip->ttl;
	packet->transport = NETWORK + sizeof(*ip);
	__u16 fragment = ntohs(ip->fragment);
	packet->whole = !!(fragment & IPV4_DONT_FRAGMENT);
	packet->fragmented = !!(fragment & (IPV4_MORE | IPV4_OFFSET));
	packet->fragment = ip->id;
	if (ip->protocol == IPPROTO_ICMP) {
		struct icmp *icmp = (void *)(ip + 1);
		if (packet->fragmented || (void *)(icmp + 1) > (void *)(long)skb->data_end)
			return OTHER;
		return icmp->type == 3 || icmp->type == 11 || icmp->type == 12 ? ICMP : OTHER;
	}
	if (!is_transport(ip->protocol))
		return OTHER;
	if (fragment & IPV4_OFFSET)
		return LATER;
	return parse_transport(skb, packet, there);
}

/* Steps over the extension headers of IPv6, from the offset `at`. Returns the protocol that follows, or one that is
 * not read. The offset of what follows is in `at`. */
INLINE __u8 skip_extensions(struct __sk_buff *skb, __u8 next, __u32 *at, struct packet *packet, int *later)
{
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		struct fragment_header header;
		if (next != IPV6_HOP_BY_HOP && next != IPV6_DESTINATION && next != IPV6_FRAGMENT)
			return next;
		if (bpf_skb_load_bytes(skb, *at, &header, sizeof(header)))
			return 255;
		if (next == IPV6_FRAGMENT) {
			__u16 offset = ntohs(header.offset_more);
			packet->fragment = header.id;
			packet->fragmented = !!(offset & (IPV6_OFFSET | IPV6_MORE));
			*later = !!(offset & IPV6_OFFSET);
			*at += sizeof(header);
		} else {
			*at += (header.spare + 1) * 8;
		}
		next = header.next;
		if (*at > NETWORK + sizeof(struct ipv6) + EXTENSIONS_LENGTH_MAX)
			return 255;
		/* The rest is data, even if it begins as an extension header. */
		if (*later)
			return next;
	}
	return next;
}

INLINE int parse_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6 *ip = (void *)(long)skb->data + NETWORK;
	if ((void *)(ip + 1) > (void *)(long)skb->data_end)
		return OTHER;
	if ((ip->version_class_label & htonl(0xf0000000)) != htonl(0x60000000))
		return OTHER;
	__u32 from = ip->source.word[0], to = ip->target.word[0];
	/* Multicast and link-local addresses, and ::/32, which has the unspecified, loopback and mapped ones. */
	if ((from & htonl(0xff000000)) == htonl(0xff000000) || (from & htonl(0xffc00000)) == htonl(0xfe800000) || !from)
		return OTHER;
	if ((to & htonl(0xff000000)) == htonl(0xff000000) || (to & htonl(0xffc00000)) == htonl(0xfe800000) || !to)
		return OTHER;

	__u32 length = ntohs(ip->length) + sizeof(*ip), end = 0;
	if (!skb->gso_size) {
		if (NETWORK + length > skb->len)
			return OTHER;
		end = NETWORK + length;
	}
	packet->tuple.source = ip->source;
	packet->tuple.target = ip->target;
	packet->ipv6 = 1;
	packet->length = length;
	packet->ttl = ip->hops;
	packet->whole = 1;
	packet->fragmented = 0;
	__u8 next = ip->next;
	__u32 at = NETWORK + sizeof(*ip);
	int later = 0;
	if (next != IPPROTO_TCP && next != IPPROTO_UDP && next != IPPROTO_ICMPV6) {
		next = skip_extensions(skb, next, &at, packet, &later);
		if (end && at > end)
			return OTHER;
		pull(skb, at + sizeof(struct tcphdr));
	}
	packet->tuple.protocol = next;
	packet->transport = at;
	if (next == IPPROTO_ICMPV6) {
		struct icmp *icmp = (void *)(long)skb->data + (at & 0x3ff);
		if (packet->fragmented || (void *)(icmp + 1) > (void *)(long)skb->data_end)
			return OTHER;
		return icmp->type >= 1 && icmp->type <= 4 ? ICMP : OTHER;
	}
	if (!is_transport(next))
		return OTHER;
	if (later)
		return LATER;
	return parse_transport(skb, packet, end ? end - at : 0);
}

/* Reads a packet. */
INLINE void parse(struct __sk_buff *skb, struct packet *packet)
{
	packet->kind = OTHER;
	/* Other machines' packets come along at ports of a bridge. */
	if (skb->pkt_type != 0 || skb->vlan_present)
		return;
	if (skb->protocol == htons(ETH_P_IP)) {
		pull(skb, NETWORK + sizeof(struct ipv4) + sizeof(struct tcphdr));
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		pull(skb, NETWORK + sizeof(struct ipv6) + sizeof(struct tcphdr));
	} else {
		return;
	}
	struct ethhdr *ethernet = (void *)(long)skb->data;
	if ((void *)(ethernet + 1) > (void *)(long)skb->data_end)
		return;
	if (ethernet->h_proto == htons(ETH_P_IP))
		packet->kind = parse_ipv4(skb, packet);
	else if (ethernet->h_proto == htons(ETH_P_IPV6))
		packet->kind = parse_ipv6(skb, packet);
}

#endif
