//! Maglev: the same key goes to the same endpoint, unless that has much more than its share.
//!
//! Source: Eisenbud et al., Maglev (NSDI 2016); Mirrokni, Thorup and Zadimoghaddam, Consistent Hashing with Bounded
//! Loads (2017). Use it for caches and sessions. Not if any endpoint can serve any request: then `random` balances
//! better.

use crate::endpoints::set::{EndpointSet, Member, Slot};
use crate::measurement::loads::Loads;
use crate::parts::maglev_table::{self, KeyTable, is_prime, nearest_prime};
use crate::seam::explain::By;
use crate::seam::params::{Kind, Param, ParamError, Params, Value};
use crate::seam::picker::{Algorithm, Needs, NoPick, PickContext, Picker, Promises};
use crate::structures::rng::mix;
use crate::structures::time::Instant;
use std::sync::Arc;

/// Row of the registry for `maglev`.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "maglev",
    aliases: &["consistent_hash", "hash"],
    summary: "sends the same key to the same endpoint, unless that endpoint has more than its bounded share in flight",
    docs: include_str!("docs/maglev.md"),
    source: "Eisenbud et al., Maglev (NSDI 2016); Mirrokni et al., Consistent Hashing with Bounded Loads (2017)",
    needs: Needs { key: true, in_flight: true, ends: false, latency: false, probes: false },
    asks: false,
    promises: Promises {
        shares_when_idle: true,
        // Requests over a bound go elsewhere, and with few in flight they are often over it.
        shares_when_busy: false,
        affinity: true,
        ..Promises::NONE
    },
    params: PARAMS,
    table: Some(|set, params| {
        let members = set.members();
        let table = maglev_table::table(members, params.int("table") as u32);
        table.iter().map(|&i| members[i as usize].slot).collect()
    }),
    prepare: Some(|set, params, former| {
        let places = params.int("table") as u32;
        KeyTable::prepare(set, places, former.prepared().as_ref());
        for (i, overflow) in set.overflow().iter().enumerate() {
            let former = former.overflow().get(i).and_then(EndpointSet::prepared);
            KeyTable::prepare(overflow, places, former.as_ref());
        }
    }),
    new: |params, _| Ok(Box::new(Maglev::new(params)?)),
};

static PARAMS: &[Param] = &[
    Param {
        name: "key",
        kind: Kind::HashKey,
        default: Value::Text("client-ip"),
        help: "Part of a request to hash. A request without it is balanced like `random`.",
        why: "The client's address exists in every protocol.",
    },
    Param {
        name: "table",
        kind: Kind::Int { min: 251, max: 5_000_011 },
        default: Value::Int(65_537),
        help: "Size of the lookup table, a prime; at least 100 per endpoint.",
        why: "The size in the paper and in Envoy: shares within 1 % up to 650 endpoints, 256 KiB per pool.",
    },
    Param {
        name: "bound",
        kind: Kind::Float { min: 1.0, max: 10.0 },
        default: Value::Float(1.25),
        help: "Maximum requests in flight at an endpoint, as a multiple of its share by weight of all requests in \
               flight.",
        why: "1.25 as in the paper's discussion and HAProxy's usual range of 1.25 to 2. Closer to 1, each overflow \
              causes more overflows; far above, a hot key overloads its endpoint.",
    },
];

/// Places of a key that are looked at before the rest is scanned. At most 1 / bound of the weight can be over its
/// bound, so with a bound of 1.25 a walk of 32 fails for 1 key in 1,260 if the pool is as uneven as can be.
const WALK_MAX: u32 = 32;

struct Maglev {
    places: u32,
    bound: f64,
    /// Owners of `table`, kept here to save an indirection per pick.
    owners: Arc<[u32]>,
    table: Option<Arc<KeyTable>>,
}

impl Maglev {
    fn new(params: &Params) -> Result<Maglev, ParamError> {
        let places = params.int("table");
        if !is_prime(places) {
            let problem = format!("{places} is not prime; the nearest prime is {}", nearest_prime(places));
            return Err(ParamError { name: "table".into(), problem });
        }
        Ok(Maglev { places: places as u32, bound: params.float("bound"), owners: Arc::default(), table: None })
    }

    /// Owner of the place that a hash leads to.
    #[inline]
    fn owner(&self, hash: u64) -> usize {
        self.owners[((u128::from(hash) * self.owners.len() as u128) >> 64) as usize] as usize
    }
}

impl Maglev {
    /// Lists the endpoints of the key's places that may be picked, up to the picked endpoint. Their scores are the
    /// requests in flight as a part of the bound.
    #[cold]
    fn explain(&self, cx: &mut PickContext<'_>, key: u64, part: f64, picked: &Member) {
        let members = cx.set.members();
        let home = &members[self.owner(mix(key))];
        let (mut way, mut hash): (Vec<&Member>, u64) = (Vec::new(), mix(key));
        for _ in 0..WALK_MAX {
            let m = &members[self.owner(hash)];
            if cx.admits(m) && way.iter().all(|seen| seen.slot != m.slot) {
                way.push(m);
            }
            if m.slot == picked.slot {
                break;
            }
            hash = further(hash);
        }
        let bounded = home.slot != picked.slot && cx.admits(home);
        let Some(trace) = cx.trace.as_deref_mut() else { return };
        trace.by = By::Below;
        trace.rule = match () {
            () if home.slot == picked.slot => "the key's home in the table",
            () if bounded => "the key's next place: its home is over the bound",
            () => "the key's next place: its home is tried or full",
        };
        for m in way {
            let of_bound = f64::from(cx.loads.in_flight(m.slot)) / (part * f64::from(m.weight));
            trace.candidate(m, cx.loads, Some(of_bound));
        }
    }
}

/// Hash of the key's next place, after a place that cannot be used. The place may be any in the table, not a neighbour,
/// so that the overflow of an endpoint spreads over all others by weight. Depends on the hash and not on the key, so
/// that the paths of two keys that differ by a constant do not meet.
#[inline]
fn further(hash: u64) -> u64 {
    mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

impl Picker for Maglev {
    #[inline]
    fn choose(&mut self, cx: &mut PickContext<'_>) -> Result<Slot, NoPick> {
        let Some(key) = cx.key else { return super::random::less_loaded(cx, 2) };
        let members = cx.set.members();
        if members.is_empty() {
            return Err(cx.refusal());
        }
        // The bound includes the current request: bound x (all in flight + 1) x weight / weights, rounded up. An
        // integer is below the rounded value exactly if it is below the unrounded value.
        let part = self.bound * f64::from(cx.loads.in_flight_total().saturating_add(1)) / cx.set.weight_total() as f64;
        let over = |m: &Member| f64::from(cx.loads.in_flight(m.slot)) >= part * f64::from(m.weight);
        let mut hash = mix(key);
        for _ in 0..WALK_MAX {
            let m = &members[self.owner(hash)];
            if cx.admits(m) && !over(m) {
                if cx.trace.is_some() {
                    self.explain(cx, key, part, m);
                }
                return Ok(m.slot);
            }
            hash = further(hash);
        }
        least_loaded(cx, key)
    }

    fn on_set(&mut self, set: &EndpointSet, _loads: &Loads, _now: Instant) {
        let table = KeyTable::of(set, self.places, self.table.as_ref());
        self.owners = table.owners.clone();
        self.table = Some(table);
    }
}

/// Picks the least loaded by weight, for the few keys whose places are all tried, full or over the bound. The key
/// decides ties, so that all workers agree. O(n).
#[cold]
fn least_loaded(cx: &mut PickContext<'_>, key: u64) -> Result<Slot, NoPick> {
    let by_load = |a: &&Member, b: &&Member| {
        let load = |m: &Member, other: &Member| u64::from(cx.loads.in_flight(m.slot)) * u64::from(other.weight);
        let chance = |m: &Member| mix(m.id.0 ^ key);
        load(a, b).cmp(&load(b, a)).then_with(|| chance(a).cmp(&chance(b)))
    };
    let Some(least) = cx.set.members().iter().filter(|m| cx.admits(m)).min_by(by_load) else {
        return Err(cx.refusal());
    };
    if cx.trace.is_some() {
        let mut all: Vec<&Member> = cx.set.members().iter().filter(|m| cx.admits(m)).collect();
        all.sort_by(by_load);
        if let Some(trace) = cx.trace.as_deref_mut() {
            trace.by = By::Fewest;
            trace.rule = "fewest in flight per weight, as all places of the key are tried, full or over the bound; the key \
                          decides ties";
            let chance = |m: &Member| mix(m.id.0 ^ key) as f64 / (u64::MAX as f64 + 1.0);
            trace.list(all.into_iter(), |trace, m| trace.candidate(m, cx.loads, Some(chance(m))));
        }
    }
    Ok(least.slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::picker::Seat;
    use crate::{Balancer, EndpointSpec, Outcome, Pool, Request};

    fn pool(weights: &[u32]) -> Pool {
        let mut pool = Pool::new(1);
        let spec = |(i, &w): (usize, &u32)| EndpointSpec::new(&i.to_string()).weight(w);
        pool.update(&weights.iter().enumerate().map(spec).collect::<Vec<_>>(), Instant(0));
        pool
    }

    fn balancer(pool: &Pool) -> Balancer {
        pool.balancer(&ALGORITHM, &Params::defaults(PARAMS), Seat::default(), 1).unwrap()
    }

    fn with_key(key: u64) -> Request<'static> {
        Request { key: Some(key), ..Request::default() }
    }

    #[test]
    fn a_hot_key_never_takes_an_endpoint_over_its_bound() {
        let weights = [1, 2, 3, 4];
        let pool = pool(&weights);
        let mut b = balancer(&pool);
        let mut held = Vec::new();
        for total in 0..500u32 {
            let t = b.start(&with_key(7), Instant(0)).unwrap();
            let i = t.slot().index();
            // The bound of the paper: 1.25 times its share of all, this request included, rounded up.
            let most = (1.25 * f64::from(total + 1) * f64::from(weights[i]) / 10.0).ceil();
            assert!(f64::from(b.loads().in_flight(t.slot())) <= most, "request {total} at {i}");
            held.push(t);
        }
        for t in held {
            b.end(t, Outcome::Success, Instant(0));
        }
    }

    #[test]
    fn the_table_for_planes_is_the_one_that_picks_go_by() {
        let pool = pool(&[1, 2, 3]);
        let table = ALGORITHM.table.unwrap()(&pool.view().set, &Params::defaults(PARAMS));
        let mut b = balancer(&pool);
        for key in 0..1000u64 {
            let t = b.start(&with_key(key), Instant(0)).unwrap();
            let at = (u128::from(mix(key)) * table.len() as u128) >> 64;
            assert_eq!(t.slot(), table[at as usize]);
            b.end(t, Outcome::Success, Instant(0));
        }
    }

    #[test]
    fn the_table_is_there_before_any_worker_picks_and_all_share_it() {
        let mut pool = pool(&[1, 2]);
        assert!(pool.view().set.prepared::<KeyTable>().is_none(), "the algorithm is not known yet");
        let mut b = balancer(&pool);
        let first = pool.view().set.prepared::<KeyTable>().expect("made with the first balancer");
        pool.update(&["0", "1", "2"].map(EndpointSpec::new), Instant(0));
        let second = pool.view().set.prepared::<KeyTable>().expect("made with the set");
        assert!(!Arc::ptr_eq(&first, &second));
        pool.update(&["0", "1", "2"].map(|n| EndpointSpec::new(n).in_flight_max(9)), Instant(0));
        let third = pool.view().set.prepared::<KeyTable>().expect("made with the set");
        assert!(Arc::ptr_eq(&second, &third), "limits do not change the table");
        let t = b.start(&with_key(1), Instant(0)).unwrap();
        b.end(t, Outcome::Success, Instant(0));

        let set = &pool.view().set;
        let owners = |params: &Params| {
            let mut maglev = Maglev::new(params).unwrap();
            maglev.on_set(set, b.loads(), Instant(0));
            maglev.owners
        };
        let [one, other] = [0, 1].map(|_| owners(&Params::defaults(PARAMS)));
        assert!(Arc::ptr_eq(&one, &other) && Arc::ptr_eq(&one, &third.owners));
        let mut small = Params::defaults(PARAMS);
        small.set("table", Value::Int(251)).unwrap();
        assert_eq!(owners(&small).len(), 251, "of the size that was set");
    }

    #[test]
    fn a_table_that_is_not_prime_is_refused_with_the_nearest_that_is() {
        let mut params = Params::defaults(PARAMS);
        params.set("table", Value::Int(65_536)).unwrap();
        let e = (ALGORITHM.new)(&params, Seat::default()).err().unwrap();
        assert_eq!(e.to_string(), "parameter \"table\": 65536 is not prime; the nearest prime is 65537");
    }

    #[test]
    fn a_change_of_limits_alone_keeps_the_table() {
        let mut pool = pool(&[1, 1]);
        let mut b = balancer(&pool);
        let t = b.start(&with_key(1), Instant(0)).unwrap();
        let home = t.slot();
        b.end(t, Outcome::Success, Instant(0));
        pool.update(&["0", "1"].map(|n| EndpointSpec::new(n).in_flight_max(1)), Instant(0));
        let [first, second] = [0, 1].map(|_| b.start(&with_key(1), Instant(0)).unwrap());
        assert!(first.slot() == home && second.slot() != home);
        for t in [first, second] {
            b.end(t, Outcome::Success, Instant(0));
        }
    }
}
