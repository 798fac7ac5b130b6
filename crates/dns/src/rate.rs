//! Response rate limit per client network, with a token bucket each: a query with a forged source makes the
//! server send to that address. Every second response over the limit is empty and truncated, which makes
//! resolvers retry over TCP, so real clients of an abused network are still served.

use crate::query::Subnet;
use evenkeel_balance::Instant;
use evenkeel_balance::rng::mix;
use evenkeel_balance::token_bucket::{Rate, TokenBucket};
use std::net::IpAddr;

/// Number of buckets: 256 KiB. Networks that share a bucket share its tokens, so they get less and never
/// more.
const BUCKETS: usize = 1 << 14;

/// Permitted form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// The full answer, unchanged.
    Yes,
    /// An empty answer with the TC bit, so that the client retries over TCP.
    Short,
    No,
}

/// Rate limit of a worker and listener.
#[derive(Debug)]
pub struct Limit {
    rate: Rate,
    salt: u64,
    buckets: Box<[Bucket]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: TokenBucket,
    /// Number of responses over the limit.
    over: u32,
}

impl Limit {
    /// A limit of responses per second to a network; 0 = unlimited. `salt` keeps attackers from choosing
    /// networks that share a bucket.
    pub fn new(per_second: u32, salt: u64) -> Limit {
        let buckets = if per_second == 0 { 0 } else { BUCKETS };
        // The burst is a second of the rate.
        let rate = Rate::new(per_second.into(), per_second);
        Limit { rate, salt, buckets: vec![Bucket::default(); buckets].into() }
    }

    /// Takes a token for a response to this address. Returns the permitted form of the response.
    pub fn take(&mut self, client: IpAddr, now: Instant) -> Allowed {
        if self.buckets.is_empty() {
            return Allowed::Yes;
        }
        let at = mix(Subnet::around(client).key() ^ self.salt) as usize % BUCKETS;
        let bucket = &mut self.buckets[at];
        if bucket.tokens.take(self.rate, now).is_ok() {
            return Allowed::Yes;
        }
        bucket.over = bucket.over.wrapping_add(1);
        if bucket.over.is_multiple_of(2) { Allowed::Short } else { Allowed::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_gets_its_rate_and_every_second_of_the_rest_may_come_by_tcp() {
        let mut rate = Limit::new(100, 1);
        let (one, same, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 200].into(), [198, 51, 100, 1].into());
        let second = |n: u64| Instant(n * 1_000_000_000);
        let mut seen = [0; 3];
        for i in 0..300 {
            seen[rate.take(if i % 2 == 0 { one } else { same }, second(1)) as usize] += 1;
        }
        assert_eq!(seen, [100, 100, 100]);
        assert_eq!(rate.take(other, second(1)), Allowed::Yes);
        let later = (0..300).filter(|_| rate.take(one, Instant(1_500_000_000)) == Allowed::Yes).count();
        assert_eq!(later, 50, "half a second fills half of it");
    }

    #[test]
    fn no_limit_takes_no_memory() {
        let mut rate = Limit::new(0, 1);
        assert!((0..10_000).all(|_| rate.take([192, 0, 2, 1].into(), Instant(0)) == Allowed::Yes));
        assert!(rate.buckets.is_empty());
    }
}
