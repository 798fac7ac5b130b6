/* Choice of an endpoint for a new flow: choose().
 *
 * Loads are compared as (open flows + penalty) per weight, by cross multiplication: open flows and the penalty are below
 * 2^33, weights at most 2^24. A tie goes to the place that was drawn first, and the first is drawn by weight: so idle
 * endpoints share by weight.
 */
#ifndef EVENKEEL_CHOOSE_H
#define EVENKEEL_CHOOSE_H

#include "common.h"

/* Most draws of POLICY_RANDOM. */
#define DRAWS_MAX 16
/* POLICY_LEAST looks at so many places: up to here it is exact, above it takes the least of so many in a row, from a
 * start drawn by weight. */
#define SCAN_MAX 256
/* Draws of a place that was drawn before, until a neighbour of it is taken: with the weights 1 and 1000, a draw repeats
 * with 99.9 %. */
#define REDRAWS 8

INLINE struct place *place_at(const struct record *record, __u32 i)
{
	__u32 key = record->base + i;
	return bpf_map_lookup_elem(&places, &key);
}

/* A number below n, from 32 random bits: the upper half of the product. Biased by n / 2^32 at most. */
INLINE __u32 below(__u32 n)
{
	return (__u64)bpf_get_prandom_u32() * n >> 32;
}

/* A place by weight, from a number of 32 bits. The upper half of the product draws a place, the lower half is the
 * fraction of Vose's method: its resolution is n / 2^32. */
INLINE __u32 drawn(const struct record *record, __u32 number)
{
	__u64 product = (__u64)number * record->n;
	__u32 i = product >> 32;
	if (record->flags & RECORD_EQUAL)
		return i;
	struct place *place = place_at(record, i);
	if (place && (__u32)product >= place->threshold)
		return place->alias;
	return i;
}

INLINE __u32 draw(const struct record *record)
{
	return drawn(record, bpf_get_prandom_u32());
}

/* The least loaded place so far. */
struct least {
	const struct record *record;
	__u64 now_ns;
	__u64 load;
	__u32 weight;
	__u32 endpoint; /* 0: none */
};

INLINE void compare(struct least *least, __u32 i)
{
	struct place *place = place_at(least->record, i);
	if (!place)
		return;
	__u32 id = place->endpoint, weight = place->weight;
	struct load *at = bpf_map_lookup_elem(&loads, &id);
	if (!at)
		return;
	/* A count may be negative for a moment after a correction. */
	__s64 active = READ_ONCE(at->active);
	__u64 load = active > 0 ? active & 0xffffffff : 0;
	__u64 penalty = READ_ONCE(at->penalty);
	if (penalty)
		load += penalty_level(penalty, least->now_ns);
	if (!least->endpoint || load * least->weight < least->load * weight) {
		least->load = load;
		least->weight = weight;
		least->endpoint = id;
	}
}

struct scan {
	struct least least;
	__u32 next;
};

static long scan_next(__u32 i, struct scan *scan)
{
	compare(&scan->least, scan->next);
	scan->next += 1;
	if (scan->next >= scan->least.record->n)
		scan->next = 0;
	return 0;
}

struct draws {
	struct least least;
	__u32 place[DRAWS_MAX];
	__u32 count;
	__u32 wanted;
	__u32 candidate;
	__u32 repeats;
};

/* Draws once more. A place that was drawn before is drawn again, some times, and then its neighbour is taken. */
static long draw_next(__u32 i, struct draws *draws)
{
	const struct record *record = draws->least.record;
	if (draws->repeats < REDRAWS) {
		draws->candidate = draw(record);
	} else {
		draws->candidate += 1;
		if (draws->candidate >= record->n)
			draws->candidate = 0;
	}
#pragma unroll
	for (__u32 k = 0; k < DRAWS_MAX; k++) {
		if (k < draws->count && draws->place[k] == draws->candidate) {
			draws->repeats += 1;
			return 0;
		}
	}
	draws->repeats = 0;
	__u32 at = draws->count;
	if (at >= DRAWS_MAX)
		return 1;
	draws->place[at] = draws->candidate;
	draws->count = at + 1;
	compare(&draws->least, draws->candidate);
	return draws->count >= draws->wanted;
}

/* Another place than `first`: exact if weights are equal. */
INLINE __u32 draw_second(const struct record *record, __u32 first)
{
	__u32 n = record->n, second;
	if (record->flags & RECORD_EQUAL) {
		second = first + 1 + below(n - 1);
		return second >= n ? second - n : second;
	}
	for (int i = 0; i < REDRAWS; i++) {
		second = draw(record);
		if (second != first)
			return second;
	}
	second = first + 1;
	return second >= n ? 0 : second;
}

/* Functions of their own, as the stack of a program and its functions is small. */
NOINLINE __u32 choose_least(const struct record *record, __u64 now_ns)
{
	struct scan scan = { .least = { .record = record, .now_ns = now_ns } };
	scan.next = draw(record);
	bpf_loop(record->n < SCAN_MAX ? record->n : SCAN_MAX, scan_next, &scan, 0);
	return scan.least.endpoint;
}

NOINLINE __u32 choose_among(const struct record *record, __u64 now_ns)
{
	struct draws draws = { .least = { .record = record, .now_ns = now_ns } };
	/* Of memory that it knows, the verifier follows each value that it can get, and each order of writing: a million
	 * steps. Of what it does not know, one. */
	draws.count = READ_ONCE(record->zero);
	draws.repeats = READ_ONCE(record->zero);
	draws.candidate = READ_ONCE(record->zero);
	draws.least.load = READ_ONCE(record->zero);
	draws.least.weight = READ_ONCE(record->zero);
	draws.least.endpoint = READ_ONCE(record->zero);
#pragma unroll
	for (int k = 0; k < DRAWS_MAX; k++)
		draws.place[k] = READ_ONCE(record->zero);
	draws.wanted = record->draws < record->n ? record->draws : record->n;
	/* A draw takes at most REDRAWS repeats and then as many neighbours as were drawn. */
	bpf_loop(DRAWS_MAX * (REDRAWS + DRAWS_MAX), draw_next, &draws, 0);
	return draws.least.endpoint;
}

NOINLINE __u32 choose_of_two(const struct record *record, __u64 now_ns)
{
	struct least least = { .record = record, .now_ns = now_ns };
	__u32 first = draw(record);
	compare(&least, first);
	compare(&least, draw_second(record, first));
	return least.endpoint;
}

INLINE __u32 endpoint_at(const struct record *record, __u32 i)
{
	struct place *place = place_at(record, i);
	return place ? place->endpoint : 0;
}

INLINE __u32 endpoint_of_slot(const struct record *record, __u32 slot)
{
	slot += record->slots_base;
	__u32 key = slot / 16;
	struct slots *at = bpf_map_lookup_elem(&slots, &key);
	return at ? endpoint_at(record, at->place[slot % 16]) : 0;
}

INLINE __u32 hash_of(const struct address *client)
{
	__u64 hash = 0;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		hash = (hash ^ client->word[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}

NOINLINE __u32 choose_by_policy(struct record *record, const struct address *client, __u64 now_ns)
{
	if (record->n == 0)
		return 0;
	switch (record->policy) {
	case POLICY_TURN:
		return record->slots_n ? endpoint_of_slot(record, __sync_fetch_and_add(&record->turn, 1) % record->slots_n) : 0;
	case POLICY_MAGLEV:
		return record->slots_n ? endpoint_of_slot(record, hash_of(client) % record->slots_n) : 0;
	}
	if (record->n == 1)
		return endpoint_at(record, 0);
	if (record->policy == POLICY_LEAST)
		return choose_least(record, now_ns);
	if (record->draws < 2)
		return endpoint_at(record, draw(record));
	if (record->draws == 2)
		return choose_of_two(record, now_ns);
	return choose_among(record, now_ns);
}

/* Endpoint that the client keeps, or 0. Only one that serves is kept: otherwise draining would not end. */
INLINE __u32 kept(const struct affinity *affinity, __u64 now_ns)
{
	if (!affinity || affinity->until_ns < now_ns)
		return 0;
	struct endpoint *endpoint = find_endpoint(affinity->endpoint);
	if (!endpoint || !(endpoint->flags & ENDPOINT_SERVING) || endpoint->epoch != affinity->epoch)
		return 0;
	return affinity->endpoint;
}

NOINLINE __u32 choose_with_affinity(struct record *record, const struct address *client, __u64 now_ns)
{
	struct affinity_key key = { .service = record->service, .client = *client };
	__u32 id = kept(bpf_map_lookup_elem(&affinities, &key), now_ns);
	if (!id)
		id = choose_by_policy(record, client, now_ns);
	struct endpoint *endpoint = find_endpoint(id);
	if (id && endpoint) {
		struct affinity affinity = { .until_ns = now_ns + record->affinity_ns, .endpoint = id, .epoch = endpoint->epoch };
		bpf_map_update_elem(&affinities, &key, &affinity, BPF_ANY);
	}
	return id;
}

/* Endpoint for a new flow of the client, or 0 if none serves. Counts nothing: flow_started() does.
 * `now_ns` is that of bpf_ktime_get_coarse_ns(). */
INLINE __u32 choose(struct record *record, const struct address *client, __u64 now_ns)
{
	if (record->flags & RECORD_AFFINITY)
		return choose_with_affinity(record, client, now_ns);
	return choose_by_policy(record, client, now_ns);
}

#endif
