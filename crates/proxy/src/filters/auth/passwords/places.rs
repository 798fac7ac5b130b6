//! Places of passwords that wait to be verified: the choice of the next password to verify, and of the password that
//! gives its place to a new password.

use super::networks::Standing;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

/// Most passwords that wait for a thread. With bcrypt of cost 10 the last password waits for about two seconds.
pub const WAITING_MAX: usize = 64;

/// Places reserved for networks that have sent a right password.
pub const RESERVED: usize = 16;

/// Every eighth password is the oldest of all, so that no password waits for ever.
const OLDEST_EACH: u64 = 8;

/// Network of a password and the standing of that network.
pub type Of = (IpAddr, Standing);

/// Place for a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Free,
    /// Place of the password at this position, which gives it up.
    Of(usize),
    None,
}

/// Finds a place for a new password. If all are taken, the network with the worst standing, and among equals the
/// network with the most passwords, gives up its newest place for a network with better standing or clearly fewer
/// passwords.
pub fn place(waiting: &[Of], new: Of) -> Place {
    let is_reserved = new.1 == Standing::Right;
    let others = waiting.iter().filter(|(_, standing)| *standing != Standing::Right).count();
    if waiting.len() < WAITING_MAX && (is_reserved || others < WAITING_MAX - RESERVED) {
        return Place::Free;
    }
    let count = |network: IpAddr| waiting.iter().filter(|(other, _)| *other == network).count();
    let ours = count(new.0);
    let most = (0..waiting.len()).max_by_key(|&at| (Reverse(waiting[at].1), count(waiting[at].0), at));
    let gives_up = |at: &usize| {
        let (network, standing) = waiting[*at];
        standing < new.1 || (standing == new.1 && count(network) > ours + 1)
    };
    most.filter(gives_up).map_or(Place::None, Place::Of)
}

/// Position of the password that is verified next. Networks with the best standing go first, then the network that was
/// served longest ago, then its oldest password. `served` has the turn in which a network was last served; `turn`
/// counts the calls.
pub fn next(waiting: &[Of], served: &HashMap<IpAddr, u64>, turn: u64) -> Option<usize> {
    if turn % OLDEST_EACH == OLDEST_EACH - 1 {
        return (!waiting.is_empty()).then_some(0);
    }
    let served = |network: &IpAddr| served.get(network).map_or(0, |turn| turn + 1);
    (0..waiting.len()).min_by_key(|&at| (Reverse(waiting[at].1), served(&waiting[at].0), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(net: u8, standing: Standing) -> Of {
        ([192, 0, net, 0].into(), standing)
    }

    #[test]
    fn the_network_that_has_most_gives_its_newest_place_up() {
        let mut waiting = vec![of(1, Standing::Unknown); 30];
        waiting.extend([of(2, Standing::Unknown); 17]);
        assert_eq!(place(&waiting, of(3, Standing::Unknown)), Place::Free);
        waiting.push(of(2, Standing::Unknown));
        assert_eq!(waiting.len(), WAITING_MAX - RESERVED);
        assert_eq!(place(&waiting, of(3, Standing::Unknown)), Place::Of(29));
        assert_eq!(place(&waiting, of(2, Standing::Unknown)), Place::Of(29));
        assert_eq!(place(&waiting, of(1, Standing::Unknown)), Place::None);
        // A single password for each: no network has more than another.
        let each: Vec<Of> = (0..48).map(|net| of(net, Standing::Unknown)).collect();
        assert_eq!(place(&each, of(200, Standing::Unknown)), Place::None);
    }

    #[test]
    fn networks_that_were_right_have_places_and_those_that_guess_give_theirs_up_first() {
        let mut waiting = vec![of(1, Standing::Unknown); 47];
        waiting.push(of(2, Standing::Guesses));
        assert_eq!(place(&waiting, of(3, Standing::Right)), Place::Free);
        assert_eq!(place(&waiting, of(3, Standing::Unknown)), Place::Of(47));
        assert_eq!(place(&waiting, of(3, Standing::Guesses)), Place::None);
        waiting.extend([of(3, Standing::Right); 16]);
        assert_eq!(place(&waiting, of(3, Standing::Right)), Place::Of(47));
        waiting.remove(47);
        waiting.push(of(1, Standing::Unknown));
        assert_eq!(place(&waiting, of(3, Standing::Right)), Place::Of(63), "the newest of those that are not right");
        let right = vec![of(3, Standing::Right); WAITING_MAX];
        assert_eq!(place(&right, of(4, Standing::Unknown)), Place::None);
        assert_eq!(place(&right, of(4, Standing::Right)), Place::Of(63));
    }

    #[test]
    fn each_network_has_its_turn_those_that_guess_are_last_and_none_waits_for_ever() {
        let waiting = [
            of(1, Standing::Guesses),
            of(2, Standing::Unknown),
            of(2, Standing::Unknown),
            of(3, Standing::Unknown),
            of(4, Standing::Right),
        ];
        let mut left: Vec<(usize, Of)> = waiting.into_iter().enumerate().collect();
        let (mut order, mut served) = (Vec::new(), HashMap::new());
        while !left.is_empty() {
            let all: Vec<Of> = left.iter().map(|(_, of)| *of).collect();
            let turn = order.len() as u64;
            let (number, (network, _)) = left.remove(next(&all, &served, turn).expect("some are left"));
            served.insert(network, turn);
            order.push(number);
        }
        assert_eq!(order, [4, 1, 3, 2, 0]);
        assert_eq!(next(&waiting, &served, 7), Some(0));
        assert_eq!((next(&[], &served, 0), next(&[], &served, 7)), (None, None));
    }
}
