//! Limits of routes: rates of requests and requests in flight, by client network, field, cookie, claim or route, over
//! all workers and listeners.

use crate::peer::hash_key::cookie;
use crate::peer::key_table::{Enter, KeyHash, KeyTable, Take};
use crate::resource::Resource;
use evenkeel_balance::Instant;
use evenkeel_balance::token_bucket::Rate;
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, LIMITS_MAX, LimitKey, Most};
use evenkeel_runtime::Diagnostic;
use evenkeel_tokens::Verified;
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::kind::{Kind, kind};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Limits of all routes of a plan.
#[derive(Debug, Default)]
pub struct AllLimits {
    routes: HashMap<Arc<str>, Arc<RouteLimits>>,
    /// Limits that routes share, by name, with the counts of their keys.
    shared: HashMap<Arc<str>, (plan::Limit, Arc<Keys>)>,
}

/// Counts by key, allocated when the first request is counted.
type Keys = OnceLock<KeyTable>;

/// Limits of a route, in the order in which they apply.
#[derive(Debug)]
pub struct RouteLimits(Box<[Limit]>);

/// A limit of a route as planned, and its counts.
#[derive(Debug)]
pub struct Limit {
    pub plan: plan::Limit,
    bound: Bound,
    counts: Arc<Counts>,
}

/// Bound of a limit, as requests are held against it.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Rate(Rate),
    InFlight(u32),
}

/// State of a limit, kept across plans.
#[derive(Debug, Default)]
struct Counts {
    /// Shared by the routes that use the same limit.
    table: Arc<Keys>,
    refused: AtomicU64,
}

/// A request that is counted as in flight by some limits of its route, until this is dropped.
#[derive(Debug)]
pub struct Held {
    limits: Arc<RouteLimits>,
    /// Its place in the table of each limit that counts it.
    places: [Option<u32>; LIMITS_MAX],
}

/// A limit that refuses a request.
#[derive(Clone, Copy, Debug)]
pub struct Over<'l> {
    pub limit: &'l Limit,
    /// Time after which a request may pass; 0 if that depends on others.
    pub wait_ns: u64,
}

impl Resource for AllLimits {
    /// Limits of the routes of a plan. A limit keeps its state from the plan before if its key and size are the same,
    /// and if it bounds a rate or a number in flight as before.
    fn next(plan: &Plan, before: Option<&Arc<AllLimits>>) -> Result<Arc<AllLimits>, Vec<Diagnostic>> {
        let keys = |(name, limit): &(Arc<str>, plan::Limit)| {
            let old = before.and_then(|before| before.shared.get(name)).filter(|(old, _)| is_same(old, limit));
            (name.clone(), (limit.clone(), old.map_or_else(Arc::default, |(_, keys)| keys.clone())))
        };
        let shared: HashMap<_, _> = plan.limits.iter().map(keys).collect();
        let limited = plan.routes.iter().filter(|route| !route.filters.limits.is_empty());
        let next = |route: &plan::Route| {
            let before = before.and_then(|before| before.of(&route.name));
            let mut before: Vec<&Limit> = before.map_or(Vec::new(), |limits| limits.0.iter().collect());
            let all = route.filters.limits.iter().map(|limit| {
                let stays = before.iter().position(|old| is_same(&old.plan, limit));
                let counts = stays.map_or_else(Arc::default, |at| before.remove(at).counts.clone());
                let keys = limit.shared.as_ref().and_then(|name| shared.get(name)).map(|(_, keys)| keys);
                let counts = match keys {
                    Some(keys) if !Arc::ptr_eq(keys, &counts.table) => {
                        Arc::new(Counts { table: keys.clone(), refused: counts.refused.load(Ordering::Relaxed).into() })
                    }
                    _ => counts,
                };
                Limit { plan: limit.clone(), bound: Bound::of(limit.most), counts }
            });
            Arc::new(RouteLimits(all.collect()))
        };
        let routes = limited.map(|route| (route.name.clone(), next(route))).collect();
        Ok(Arc::new(AllLimits { routes, shared }))
    }

    fn collect(&self, plan: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests that got a 429 from a limit of their route, by key of the limit";
        self.count(plan, to, ("evenkeel_http_limited_requests", help), Limit::refused)?;
        let help = "Keys that a limit forgot too early because its table was full, and requests in flight that it \
                    could not count";
        self.count(plan, to, ("evenkeel_http_limit_keys_forgotten", help), Limit::forgotten)
    }
}

impl AllLimits {
    /// Limits of a route, if it has any.
    pub fn of(&self, route: &str) -> Option<&Arc<RouteLimits>> {
        self.routes.get(route)
    }

    /// Writes a counter for each key of the limits of each route: their sum, if there are several.
    fn count(
        &self,
        plan: &Plan,
        to: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        count: fn(&Limit) -> u64,
    ) -> fmt::Result {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for route in plan.routes.iter() {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for limit in self.of(&route.name).iter().flat_map(|limits| limits.all()) {
                *counts.entry(limit.plan.key.to_string()).or_default() += count(limit);
            }
            for (key, n) in counts {
                let labels = [("route", &*route.name), ("limit", &*key)];
                ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// True if a new limit can use the state of an old limit.
fn is_same(old: &plan::Limit, new: &plan::Limit) -> bool {
    let kind = |limit: &plan::Limit| matches!(limit.most, Most::InFlight(_));
    (&old.shared, &old.key, old.keys, kind(old)) == (&new.shared, &new.key, new.keys, kind(new))
}

impl RouteLimits {
    /// Counts a request. Returns its places among the requests in flight, if those are limited. `of_map`: the key of the
    /// limit with this index, if that is a map.
    ///
    /// # Errors
    /// The limit that refuses it. Limits before that limit have counted it, but not as in flight.
    pub fn admit(
        self: &Arc<RouteLimits>,
        request: &Request<'_, '_>,
        client: IpAddr,
        of_map: impl Fn(usize, &KeyTable) -> Option<KeyHash>,
        now: impl Fn() -> Instant,
    ) -> Result<Option<Box<Held>>, Over<'_>> {
        self.count(None, |at, limit, table| limit.key(table, request, client).or_else(|| of_map(at, table)), now)
    }

    /// Counts a request with a verified token, by claims. `held`: its places so far. A refused request loses them.
    ///
    /// # Errors
    /// The limit that refuses it. Limits before that limit have counted it, but not as in flight.
    pub fn admit_token(
        self: &Arc<RouteLimits>,
        held: Option<Box<Held>>,
        token: &Verified,
        now: impl Fn() -> Instant,
    ) -> Result<Option<Box<Held>>, Over<'_>> {
        self.count(held, |_, limit, table| limit.key_of_token(table, token), now)
    }

    #[inline]
    fn count(
        self: &Arc<RouteLimits>,
        mut held: Option<Box<Held>>,
        key: impl Fn(usize, &Limit, &KeyTable) -> Option<KeyHash>,
        now: impl Fn() -> Instant,
    ) -> Result<Option<Box<Held>>, Over<'_>> {
        for (index, limit) in self.0.iter().enumerate() {
            let table = limit.counts.table.get_or_init(|| limit.table());
            let Some(key) = key(index, limit, table) else { continue };
            match limit.bound {
                Bound::Rate(rate) => {
                    if let Some((_, Err(wait_ns))) = table.apply(key, &Take { rate, now: now() }) {
                        return Err(limit.over(wait_ns));
                    }
                }
                Bound::InFlight(max) => match table.apply(key, &Enter { max }) {
                    Some((place, true)) => {
                        let new = || Box::new(Held { limits: self.clone(), places: [None; LIMITS_MAX] });
                        let held = held.get_or_insert_with(new);
                        held.places[index] = Some(place);
                    }
                    Some((_, false)) => return Err(limit.over(0)),
                    // More keys have requests in flight than the table has places for: a further key is not limited.
                    None => {}
                },
            }
        }
        Ok(held)
    }

    /// Returns the limit that would refuse a request now, without counting it.
    pub fn would_refuse(
        &self,
        request: &Request<'_, '_>,
        client: IpAddr,
        of_map: impl Fn(usize, &KeyTable) -> Option<KeyHash>,
        now: Instant,
    ) -> Option<Over<'_>> {
        self.over_now(|at, limit, table| limit.key(table, request, client).or_else(|| of_map(at, table)), now)
    }

    /// Returns the limit by claims that would refuse a request with this token now, without counting it.
    pub fn would_refuse_token(&self, token: &Verified, now: Instant) -> Option<Over<'_>> {
        self.over_now(|_, limit, table| limit.key_of_token(table, token), now)
    }

    fn over_now(&self, key: impl Fn(usize, &Limit, &KeyTable) -> Option<KeyHash>, now: Instant) -> Option<Over<'_>> {
        self.0.iter().enumerate().find_map(|(at, limit)| {
            // Without a table, no request was counted yet.
            let table = limit.counts.table.get()?;
            let key = key(at, limit, table)?;
            let wait_ns = match limit.bound {
                Bound::Rate(rate) => table.peek(key, &Take { rate, now }).err()?,
                Bound::InFlight(max) => (!table.peek(key, &Enter { max })).then_some(0)?,
            };
            Some(Over { limit, wait_ns })
        })
    }

    /// The limits, in the order in which they apply.
    pub fn all(&self) -> &[Limit] {
        &self.0
    }
}

impl Bound {
    fn of(most: Most) -> Bound {
        match most {
            Most::Requests { rate, burst } => Bound::Rate(Rate::per(rate.requests, rate.per.as_nanos() as u64, burst)),
            Most::InFlight(max) => Bound::InFlight(max),
        }
    }
}

impl Limit {
    /// True if the key is a claim of a token.
    pub fn is_of_token(&self) -> bool {
        matches!(self.plan.key, LimitKey::Claim(_))
    }

    /// Number of requests that it refused.
    pub fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }

    /// Number of keys that it forgot although they had used some of the limit.
    pub fn forgotten(&self) -> u64 {
        self.counts.table.get().map_or(0, KeyTable::forgotten)
    }

    fn table(&self) -> KeyTable {
        KeyTable::new(if self.plan.key == LimitKey::Route { 1 } else { self.plan.keys })
    }

    /// Key of a request; `None` if the request lacks the field or cookie of the key.
    #[inline]
    fn key(&self, table: &KeyTable, request: &Request<'_, '_>, client: IpAddr) -> Option<KeyHash> {
        match &self.plan.key {
            LimitKey::Client { v4, v6 } => Some(table.hash(network(client, *v4, *v6))),
            LimitKey::Header(name) => counted(request, name).next().map(|value| table.hash(value)),
            LimitKey::Cookie(name) => {
                let mut fields = counted(request, "cookie");
                fields.find_map(|field| cookie(field, name.as_bytes())).map(|value| table.hash(value))
            }
            LimitKey::Route => Some(KeyHash::ONLY),
            // Counted once the token is verified, and by the lookups of a worker.
            LimitKey::Claim(_) | LimitKey::Map(_) => None,
        }
    }

    /// Key of a request with this token; `None` if it is not a claim of it.
    #[inline]
    fn key_of_token(&self, table: &KeyTable, token: &Verified) -> Option<KeyHash> {
        match &self.plan.key {
            LimitKey::Claim(name) => token.claim(name).map(|text| table.hash(text)),
            _ => None,
        }
    }

    #[cold]
    fn over(&self, wait_ns: u64) -> Over<'_> {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        Over { limit: self, wait_ns }
    }
}

/// Values of a field that count. A field that `Connection` names counts as missing: the endpoint does not get it,
/// either.
fn counted<'b>(request: &Request<'_, 'b>, name: &str) -> impl Iterator<Item = &'b [u8]> {
    let (bytes, may_drop) = (request.fields.bytes, kind(name.as_bytes()) == Kind::Other);
    let rows = request.fields.rows.iter().filter(move |row| !(may_drop && row.dropped));
    let named = rows.filter(move |row| row.name(bytes).eq_ignore_ascii_case(name.as_bytes()));
    named.map(move |row| row.value(bytes))
}

/// Network of a client as a number. Numbers of IPv4 and IPv6 networks are distinct.
fn network(client: IpAddr, v4: u8, v6: u8) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(u32::from(32 - v4.min(32))).unwrap_or(0);
            0xffff << 32 | u128::from(ip.to_bits() & mask)
        }
        IpAddr::V6(ip) => ip.to_bits() & u128::MAX.checked_shl(u32::from(128 - v6.min(128))).unwrap_or(0),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (limit, place) in self.limits.0.iter().zip(self.places) {
            if let (Some(place), Some(table)) = (place, limit.counts.table.get()) {
                table.leave(place);
            }
        }
    }
}

#[cfg(test)]
#[path = "route_limits_tests.rs"]
mod tests;
