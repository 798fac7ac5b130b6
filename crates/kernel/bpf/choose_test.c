/* Draws many times from the service 0.0.0.1:1, protocol 6, so that tests can count the choices: of each draw, the
 * endpoint is written over the packet, which must have room. The client's address is the number of the draw. */
#include "choose.h"

char _license[] SECTION("license") = "Dual MIT/GPL";

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, 16384);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, __u64);
} chosen SECTION(".maps");

static long choose_once(__u32 i, void *context)
{
	struct service_key key = { .addr = { { 0, 0, MAPPED, htonl(1) } }, .port = htons(1), .protocol = IPPROTO_TCP };
	struct record *record = find_service(&key);
	__u64 *at = bpf_map_lookup_elem(&chosen, &i);
	if (!record || !at)
		return 1;
	struct address client = { { 0, 0, MAPPED, i } };
	*at = choose(record, &client, bpf_ktime_get_coarse_ns());
	return 0;
}

SECTION("classifier") int choose_many(struct __sk_buff *skb)
{
	bpf_loop(16384, choose_once, 0, 0);
	return 0;
}
