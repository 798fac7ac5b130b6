//! Networks of clients by the results of their passwords, in a bounded amount of memory.

use evenkeel_balance::Instant;
use evenkeel_balance::time::SECOND_NS;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most networks that are remembered. A new network replaces the network with the oldest last result.
const NETWORKS_MAX: usize = 2048;

/// Time for which a right password counts.
const RIGHT_NS: u64 = 24 * 3600 * SECOND_NS;

/// Time for which wrong passwords count, from the last of them on.
const WRONG_NS: u64 = 600 * SECOND_NS;

/// Wrong passwords in a row after which a network counts as guessing. A person mistypes once or twice.
const WRONG_MIN: u32 = 3;

/// Standing of a network, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Its passwords were wrong, time and again.
    Guesses,
    Unknown,
    /// A password of it was right within a day.
    Right,
}

/// Networks whose passwords were verified.
#[derive(Debug, Default)]
pub struct Networks {
    right: HashMap<IpAddr, Instant>,
    wrong: HashMap<IpAddr, (Instant, u32)>,
}

impl Networks {
    /// Notes the result of a verification.
    pub fn note(&mut self, network: IpAddr, is_right: bool, now: Instant) {
        if is_right {
            self.wrong.remove(&network);
            make_room(&mut self.right, network, |at| *at);
            self.right.insert(network, now);
            return;
        }
        make_room(&mut self.wrong, network, |(at, _)| *at);
        let (at, count) = self.wrong.entry(network).or_insert((now, 0));
        *count = if is_within(*at, WRONG_NS, now) { count.saturating_add(1) } else { 1 };
        *at = now;
    }

    pub fn standing(&self, network: IpAddr, now: Instant) -> Standing {
        if self.right.get(&network).is_some_and(|at| is_within(*at, RIGHT_NS, now)) {
            return Standing::Right;
        }
        match self.wrong.get(&network) {
            Some((at, WRONG_MIN..)) if is_within(*at, WRONG_NS, now) => Standing::Guesses,
            _ => Standing::Unknown,
        }
    }
}

fn is_within(at: Instant, time_ns: u64, now: Instant) -> bool {
    now.0.saturating_sub(at.0) < time_ns
}

/// Removes the oldest entry if there is no room for a new entry.
fn make_room<T>(all: &mut HashMap<IpAddr, T>, new: IpAddr, at: impl Fn(&T) -> Instant) {
    if all.len() < NETWORKS_MAX || all.contains_key(&new) {
        return;
    }
    let oldest = all.iter().min_by_key(|(_, value)| at(value)).map(|(network, _)| *network);
    if let Some(oldest) = oldest {
        all.remove(&oldest);
    }
}

/// Network of an address: /24 for IPv4, /48 for IPv6, since the owner of an address there may have many.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & u32::MAX << 8).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & u128::MAX << 80).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_in_a_row_make_a_network_one_that_guesses_until_one_is_right_or_time_has_passed() {
        let (mut all, net) = (Networks::default(), network([192, 0, 2, 7].into()));
        let at = |secs: u64| Instant(secs * SECOND_NS);
        assert_eq!(all.standing(net, at(1)), Standing::Unknown);
        all.note(net, false, at(1));
        all.note(net, false, at(700));
        all.note(net, false, at(701));
        assert_eq!(all.standing(net, at(702)), Standing::Unknown);
        all.note(net, false, at(702));
        assert_eq!(all.standing(net, at(703)), Standing::Guesses);
        assert_eq!(all.standing(net, at(1302)), Standing::Unknown);
        all.note(net, true, at(704));
        assert_eq!(all.standing(net, at(704)), Standing::Right);
        // Its people mistype, too.
        (0..9).for_each(|_| all.note(net, false, at(705)));
        assert_eq!(all.standing(net, at(706)), Standing::Right);
        assert_eq!(all.standing(net, at(24 * 3600 + 704)), Standing::Unknown);
    }

    #[test]
    fn memory_is_bounded_and_networks_that_guess_take_no_place_of_right_ones() {
        let mut all = Networks::default();
        let right = network([192, 0, 2, 7].into());
        all.note(right, true, Instant(1));
        for n in 0..3 * NETWORKS_MAX as u128 {
            let net = network(Ipv6Addr::from_bits(n << 80).into());
            (0..3).for_each(|_| all.note(net, false, Instant(n as u64 + 2)));
        }
        assert!(all.wrong.len() == NETWORKS_MAX && all.standing(right, Instant(9)) == Standing::Right);
        let latest = network(Ipv6Addr::from_bits((3 * NETWORKS_MAX as u128 - 1) << 80).into());
        assert_eq!(all.standing(latest, Instant(9)), Standing::Guesses);
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let same = |a: &str, b: &str| network(a.parse().expect("good")) == network(b.parse().expect("good"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.200") && !same("192.0.2.1", "192.0.3.1"));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:ffff::1") && !same("2001:db8:1::1", "2001:db8:2::1"));
    }
}
