/* Maps and records that programs share with each other and with src/ebpf/maps.rs, which writes them.
 *
 * From an address to an endpoint:
 *
 *     services: (address, port, protocol) -> number of a record, in one word
 *     records:  policy, and a range of places
 *     places:   the members of a record that serve, with weights
 *     slots:    for policies with a table: numbers of places, in the order of the table
 *     endpoints, loads: by the number of the endpoint
 *
 * A change writes places, slots and a record that nothing refers to yet, then switches the word in `services`: a reader
 * has the old record or the new one, never half of one, and the change costs as much as its service. Old ranges are
 * reused only after every program that may still read them has ended (a grace period of RCU). An array is read in some
 * nanoseconds where a hash takes some tens, and user space writes it through memory, without a syscall.
 *
 * The layout of everything here has a version, LAYOUT: increase it with any change of a map or of a record.
 */
#ifndef EVENKEEL_COMMON_H
#define EVENKEEL_COMMON_H

#include <linux/bpf.h>
#include <linux/types.h>

#define LAYOUT 2

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define htons(x) ((__be16)__builtin_bswap16(x))
#define ntohs(x) ((__u16)__builtin_bswap16(x))
#define htonl(x) ((__be32)__builtin_bswap32(x))
#define ntohl(x) ((__u32)__builtin_bswap32(x))
#else
#define htons(x) ((__be16)(x))
#define ntohs(x) ((__u16)(x))
#define htonl(x) ((__be32)(x))
#define ntohl(x) ((__u32)(x))
#endif

/* A single access to memory that others change meanwhile. */
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))

/* Helpers of the kernel. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static __u32 (*const bpf_get_prandom_u32)(void) = (void *)BPF_FUNC_get_prandom_u32;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*const bpf_ktime_get_coarse_ns)(void) = (void *)BPF_FUNC_ktime_get_coarse_ns;
static long (*const bpf_loop)(__u32 iterations, void *callback, void *context, __u64 flags) = (void *)BPF_FUNC_loop;

/* Declaration of a map, as loaders read it from BTF. */
#define MAP_UINT(name, value) int (*name)[value]
#define MAP_TYPE(name, type) type *name

/* Address of IP, in network order; IPv4 as ::ffff:a.b.c.d. */
struct address {
	__u32 word[4];
};

#define MAPPED htonl(0xffff)

INLINE int same_address(const struct address *a, const struct address *b)
{
	return a->word[3] == b->word[3] && a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2];
}

INLINE void set_ipv4(struct address *address, __be32 ipv4)
{
	address->word[0] = 0;
	address->word[1] = 0;
	address->word[2] = MAPPED;
	address->word[3] = ipv4;
}

/* Version of the layout of what is pinned: one value, LAYOUT. */
struct layout {
	__u32 version;
	__u32 spare;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 1);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct layout);
} layout SECTION(".maps");

/* Virtual address. The spare byte is 0. */
struct service_key {
	struct address addr;
	__be16 port;
	__u8 protocol;
	__u8 spare;
};

/* Number of a record in the lower half, check() of the key in the upper one: one word, so that it is read at once. The
 * kernel gives the memory of a removed entry to another one at once, and a reader that was slow finds the other's value
 * there: the check shows it. */
struct service_value {
	__u64 word;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_HASH);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, struct service_key);
	MAP_TYPE(value, struct service_value);
} services SECTION(".maps");

INLINE __u32 rotated(__u32 x)
{
	return x << 7 | x >> 25;
}

INLINE __u32 check(const struct service_key *key)
{
	__u32 sum = key->addr.word[0];
	sum = rotated(sum) ^ key->addr.word[1];
	sum = rotated(sum) ^ key->addr.word[2];
	sum = rotated(sum) ^ key->addr.word[3];
	return rotated(sum) ^ ((__u32)key->port << 16 | key->protocol);
}

/* Policies. */
#define POLICY_RANDOM 0	/* the least loaded of `draws` distinct places, drawn by weight */
#define POLICY_LEAST 1	/* the least loaded of all */
#define POLICY_TURN 2	/* slots in turn */
#define POLICY_MAGLEV 3 /* the slot that the hash of the client's address names */

/* Flags of a record. */
#define RECORD_EQUAL 1	 /* all weights are equal */
#define RECORD_CLIENT 2	 /* endpoints see the client's address */
#define RECORD_AFFINITY 4 /* a client keeps its endpoint for affinity_ns */

/* Service for one family of addresses, with the members of that family. */
struct record {
	__u64 service;	   /* hash of the name of the service: stays with every change */
	__u64 idle_ns;	   /* a flow without a packet for so long has ended */
	__u64 affinity_ns;
	__u64 turn;	   /* counts turns; the only field that programs write */
	__u32 base;	   /* first place */
	__u32 n;	   /* places */
	__u32 slots_base;  /* first slot */
	__u32 slots_n;	   /* slots */
	__u8 policy;
	__u8 draws;
	__u8 flags;
	__u8 protocol;
	__u32 zero;	   /* 0, which the verifier does not know */
	__u32 spare[2];
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct record);
} records SECTION(".maps");

/* Member of a record that serves. A draw by weight is Vose's: a place drawn uniformly is kept if a fraction drawn
 * uniformly, of 2^32, is below its threshold; otherwise its alias is taken. */
struct place {
	__u32 endpoint;
	__u32 weight;	 /* 1 to 2^24 */
	__u32 threshold;
	__u32 alias;	 /* another place, counted from the first of the record */
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 262144);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct place);
} places SECTION(".maps");

/* Slots, 16 in a value: the slot s is slots[s / 16].place[s % 16], counted from the first place of the record. */
struct slots {
	__u32 place[16];
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct slots);
} slots SECTION(".maps");

/* Flags of an endpoint. */
#define ENDPOINT_USED 1	   /* the number has an endpoint */
#define ENDPOINT_SERVING 2 /* may get new flows */
#define ENDPOINT_DOWN 4	   /* its flows of datagrams end */

/* Endpoint, by its number; 0 is none. */
struct endpoint {
	struct address addr;
	__be16 port;
	__u8 flags;
	__u8 spare;
	__u32 epoch; /* changes when the number gets another endpoint */
	__u64 spare_word;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct endpoint);
} endpoints SECTION(".maps");

/* Load of an endpoint, by its number; a cache line each. */
struct load {
	__s64 active;	 /* open flows */
	__u64 started;	 /* flows so far */
	__u64 failed;	 /* flows so far that were refused or not answered */
	__u64 penalty;	 /* level of the penalty, and in the upper half the second() when it had that level */
	__u64 spare[4];
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 65536);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct load);
} loads SECTION(".maps");

/* Endpoint that a client had last. */
struct affinity_key {
	__u64 service;
	struct address client;
};

struct affinity {
	__u64 until_ns;
	__u32 endpoint;
	__u32 epoch;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_UINT(max_entries, 65536);
	MAP_TYPE(key, struct affinity_key);
	MAP_TYPE(value, struct affinity);
} affinities SECTION(".maps");

/* Counters by reason. */
enum total {
	TOTAL_NO_ENDPOINT,	/* no endpoint serves: the flow is refused */
	TOTAL_FLOWS_FULL,	/* the table of flows is full: the flow is balanced, not counted, and its client sees
				 * the endpoint's address */
	TOTAL_INCONSISTENT,	/* a record names a place that is not there: the flow is refused */
	TOTAL_PORTS_EXHAUSTED,	/* no source port is free: the flow is refused */
	TOTAL_DATAGRAMS_FULL,	/* a socket sends to more virtual addresses than are kept: its oldest flow ended */
	TOTAL_MALFORMED,	/* a packet that cannot be forwarded */
	TOTAL_STRAY,		/* a segment of TCP of no flow: answered with RST */
	TOTAL_EXPIRED,		/* a packet that may not take another hop */
	TOTAL_UNROUTABLE,	/* no route to the endpoint or the client, or no own address towards the endpoint */
	TOTAL_OVERSIZED,	/* a packet larger than the MTU of its route */
	TOTAL_FRAGMENT_EARLY,	/* a fragment before the first one of its packet */
	TOTAL_UNPROVEN_FULL,	/* a flow began in a flood: an unproven one was forgotten for it */
	TOTAL_RESUMED,		/* a client's packet of a flow that was forgotten unproven: it was found again */
	TOTAL_SYN_REPEATED,	/* the endpoint still had a former connection with the port: it was ended, and the SYN
				 * sent again */
	TOTAL_RESET_IGNORED,	/* a RST with a wrong sequence number: passed on, and the flow continues */
	TOTAL_PORT_IN_USE,	/* a client's own connection to an endpoint, with the port of a flow: refused */
	TOTALS = 32
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_UINT(max_entries, TOTALS);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} totals SECTION(".maps");

INLINE void total(enum total reason)
{
	__u32 key = reason;
	__u64 *count = bpf_map_lookup_elem(&totals, &key);
	if (count)
		*count += 1;
}

/* Service of a virtual address, or null. */
INLINE struct record *find_service(const struct service_key *key)
{
#pragma unroll
	for (int i = 0; i < 2; i++) {
		struct service_value *value = bpf_map_lookup_elem(&services, key);
		if (!value)
			return 0;
		__u64 word = READ_ONCE(value->word);
		if (word >> 32 == check(key)) {
			__u32 number = (__u32)word;
			return bpf_map_lookup_elem(&records, &number);
		}
	}
	return 0;
}

INLINE struct endpoint *find_endpoint(__u32 id)
{
	return bpf_map_lookup_elem(&endpoints, &id);
}

/* Penalties: an endpoint that refuses at once looks idle, and would attract every flow. Each failure doubles a penalty,
 * which counts like open flows, from PENALTY_MIN to PENALTY_MAX; it halves each second, and a flow that is established
 * clears it. */
#define PENALTY_MIN 8
#define PENALTY_MAX 4096

/* 1.07 s. */
INLINE __u32 second(__u64 now_ns)
{
	return now_ns >> 30;
}

INLINE __u32 penalty_level(__u64 penalty, __u64 now_ns)
{
	__u32 age = second(now_ns) - (__u32)(penalty >> 32);
	return age < 32 ? (__u32)penalty >> age : 0;
}

INLINE void flow_started(__u32 id)
{
	struct load *load = bpf_map_lookup_elem(&loads, &id);
	if (load) {
		__sync_fetch_and_add(&load->active, 1);
		__sync_fetch_and_add(&load->started, 1);
	}
}

INLINE void flow_ended(__u32 id)
{
	struct load *load = bpf_map_lookup_elem(&loads, &id);
	if (load)
		__sync_fetch_and_add(&load->active, -1);
}

/* The endpoint has refused a flow, or not answered. Two at once may count as one in the penalty. */
INLINE void flow_failed(__u32 id, __u64 now_ns)
{
	struct load *load = bpf_map_lookup_elem(&loads, &id);
	if (!load)
		return;
	__sync_fetch_and_add(&load->failed, 1);
	__u32 level = penalty_level(READ_ONCE(load->penalty), now_ns) * 2;
	if (level < PENALTY_MIN)
		level = PENALTY_MIN;
	if (level > PENALTY_MAX)
		level = PENALTY_MAX;
	WRITE_ONCE(load->penalty, (__u64)second(now_ns) << 32 | level);
}

/* The endpoint has answered. Reads first: writing takes the cache line from other CPUs. */
INLINE void flow_established(__u32 id)
{
	struct load *load = bpf_map_lookup_elem(&loads, &id);
	if (load && READ_ONCE(load->penalty))
		WRITE_ONCE(load->penalty, 0);
}

#endif
