//! Limit on concurrent TLS handshakes of a worker, shared fairly by client addresses.
//!
//! A stalled client holds its place at no cost to itself, so holding places must not shut others out. Once all are
//! taken, the address with the most places loses its oldest place to a newcomer with at least two fewer. Otherwise the
//! oldest place, of the newcomer's own address if it has any, is given up once it is `grace_ns` old.

use crate::observe::stats::Counter;
use crate::peer::per_address::Key;
use evenkeel_balance::Instant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Nanoseconds after which a handshake in progress counts as stalled: three round trips on a bad line. Before that, the
/// work spent on it is not thrown away for a newcomer with an equal claim.
const GRACE_NS: u64 = 1_000_000_000;

/// Limit on concurrent handshakes of the same kind.
pub struct Places {
    table: RefCell<Table>,
    /// Nanoseconds for which a place is safe from newcomers with an equal claim.
    grace_ns: u64,
}

#[derive(Default)]
struct Table {
    /// Number of the next place. Numbers only grow: the oldest place has the smallest.
    next: u64,
    taken: BTreeMap<u64, Rc<Taken>>,
    by_address: HashMap<Key, BTreeSet<u64>>,
}

struct Taken {
    key: Key,
    since: Instant,
    displaced: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// All places are taken, and none may be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A place, held until dropped.
pub struct Place<'p> {
    places: &'p Places,
    number: u64,
    taken: Rc<Taken>,
    count: &'p Counter,
}

impl Places {
    /// Places for clients whose ClientHello is incomplete. They have cost nothing, so there is no grace: newcomers win.
    pub fn for_hellos() -> Places {
        Places { table: RefCell::default(), grace_ns: 0 }
    }

    /// Places for clients from a complete ClientHello on, with a grace of 1 s.
    pub fn for_handshakes() -> Places {
        Places { table: RefCell::default(), grace_ns: GRACE_NS }
    }

    /// Takes one of `most` places for a client at this address. `count` is incremented until the place is dropped.
    ///
    /// # Errors
    /// All are taken, and none may be given up.
    pub fn take<'p>(&'p self, ip: IpAddr, most: usize, now: Instant, count: &'p Counter) -> Result<Place<'p>, Full> {
        let key = Key::of(ip);
        if self.table.borrow().taken.len() >= most {
            let number = self.displaceable(key, now).ok_or(Full)?;
            self.displace(number);
        }
        let taken = Rc::new(Taken { key, since: now, displaced: Cell::new(false), waker: RefCell::default() });
        let mut table = self.table.borrow_mut();
        let number = table.next;
        table.next += 1;
        table.taken.insert(number, taken.clone());
        table.by_address.entry(key).or_default().insert(number);
        drop(table);
        count.add(1);
        Ok(Place { places: self, number, taken, count })
    }

    /// Returns the number of the place to give up for a newcomer, if any.
    fn displaceable(&self, newcomer: Key, now: Instant) -> Option<u64> {
        let table = self.table.borrow();
        let own = table.by_address.get(&newcomer);
        let heaviest = table.by_address.values().max_by_key(|numbers| numbers.len())?;
        if heaviest.len() > own.map_or(0, BTreeSet::len) + 1 {
            return heaviest.first().copied();
        }
        let oldest = match own {
            Some(own) => *own.first()?,
            None => *table.taken.first_key_value()?.0,
        };
        (now.since(table.taken.get(&oldest)?.since) >= self.grace_ns).then_some(oldest)
    }

    fn displace(&self, number: u64) {
        let Some(taken) = self.table.borrow_mut().remove(number) else { return };
        taken.displaced.set(true);
        let waker = taken.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Table {
    fn remove(&mut self, number: u64) -> Option<Rc<Taken>> {
        let taken = self.taken.remove(&number)?;
        if let Some(numbers) = self.by_address.get_mut(&taken.key) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_address.remove(&taken.key);
            }
        }
        Some(taken)
    }
}

impl Place<'_> {
    /// True if the place was given to another client.
    pub fn is_displaced(&self) -> bool {
        self.taken.displaced.get()
    }

    /// Registers the task to be woken when the place is given to another client.
    pub fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.taken.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.table.borrow_mut().remove(self.number);
        self.count.sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn one_address_keeps_no_other_out() {
        let (places, count) = (Places::for_handshakes(), Counter::default());
        let take = |n, ms| places.take(ip(n), 10, at(ms), &count);
        let crowd: Vec<_> = (0..10).map(|_| take(1, 0).expect("there is room")).collect();
        // The oldest is displaced, until both have the same number.
        let others: Vec<_> = (0..5).map(|_| take(2, 0).expect("the crowd gives way")).collect();
        assert!(crowd.iter().take(5).all(Place::is_displaced) && !crowd.iter().skip(5).any(Place::is_displaced));
        assert!(take(2, 0).is_err() && take(1, 0).is_err());
        // A third client gets a place, too.
        let third = take(3, 0).expect("one of the others gives way");
        assert!(!third.is_displaced());
        drop((crowd, others, third));
        assert_eq!(count.get(), 0);
        let table = places.table.borrow();
        assert!(table.taken.is_empty() && table.by_address.is_empty());
    }

    #[test]
    fn clients_that_stall_make_room_for_their_own_address_and_for_equals() {
        let (places, count) = (Places::for_handshakes(), Counter::default());
        let take = |n, ms| places.take(ip(n), 3, at(ms), &count);
        let early: Vec<_> = [1, 1, 1].map(|n| take(n, 0).expect("there is room")).into();
        assert!(take(1, 999).is_err());
        let next = take(1, 1_000).expect("the oldest has stalled");
        assert!(early[0].is_displaced() && !early[1].is_displaced() && !next.is_displaced());
        drop((early, next));
        // Before they have cost anything, all are equal.
        let hellos = Places::for_hellos();
        let early: Vec<_> = (1..=3).map(|n| hellos.take(ip(n), 3, at(0), &count).expect("there is room")).collect();
        assert!(hellos.take(ip(4), 3, at(0), &count).is_ok() && early[0].is_displaced());
        // Each of another address.
        let _each: Vec<_> = [1, 2, 3].map(|n| take(n, 0).expect("there is room")).into();
        assert!(take(4, 500).is_err());
        assert!(take(4, 1_000).is_ok());
    }

    #[test]
    fn addresses_of_one_subscriber_are_one() {
        let (places, count) = (Places::for_handshakes(), Counter::default());
        let take = |ip: &str| places.take(ip.parse().expect("an address"), 2, at(0), &count);
        let crowd = [take("2001:db8::1"), take("2001:db8::2")];
        let crowd = crowd.map(|place| place.expect("there is room"));
        assert!(take("2001:db8::3").is_err());
        assert!(take("2001:db8:0:1::1").is_ok() && crowd[0].is_displaced());
    }
}
