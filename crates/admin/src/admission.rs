//! Connections of a socket of the admin listener: their limits, and the connection that ends for a newer connection.
//!
//! Every client is accepted. At a limit a new connection replaces the connection that has waited longest for its
//! client: idle, sending a head, or not reading its answer; if all have sent requests, the last connection whose turn
//! has not come. So clients that hold connections cannot shut out health checks and scrapers, and the address with the
//! most connections loses a connection first. Answers that are being computed, and streams that are read, are never
//! replaced; streams have a separate limit.

use crate::numbers::{Reason, SocketNumbers};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time in which the request of a new connection should arrive.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// Limits of a socket, for connections and streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections, without those that carry a stream.
    pub connections: usize,
    /// Such connections of a client address, of IPv6 for a /64. Clients of the Unix socket have no address, and no such
    /// limit.
    pub connections_per_address: usize,
    /// Streams, and requests that wait for something to happen.
    pub streams: usize,
}

impl Limits {
    /// Limits of the Unix socket: its clients are trusted, but their programs may have faults.
    pub const LOCAL: Limits = Limits { connections: 64, connections_per_address: usize::MAX, streams: 64 };
}

/// The connections of a socket.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    numbers: Arc<SocketNumbers>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    from: Option<IpAddr>,
    state: State,
    /// Notified when the connection is to end.
    end: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for its client, since then: to send a request, or to take the answer.
    Waiting(Instant),
    /// Waits for its turn, since then.
    Queued(Instant),
    /// The answer is being computed.
    Working,
    /// Start of the stream that it sends.
    Streaming(Instant),
}

impl Admission {
    /// Returns an admission without connections.
    pub fn new(limits: Limits, numbers: Arc<SocketNumbers>) -> Admission {
        Admission(Arc::new(Shared { limits, numbers, table: Mutex::default() }))
    }

    /// A place for a connection from this address; `None` if all places are taken by answers that are being computed.
    pub fn admit(&self, from: Option<IpAddr>) -> Option<Place> {
        let (from, limits) = (from.map(network), self.0.limits);
        let mut table = self.table();
        let own = table.connections().filter(|open| open.from == from).count();
        let replaced = if from.is_some() && own >= limits.connections_per_address {
            table.replaceable(from)
        } else if table.connections().count() >= limits.connections {
            let most = table.address_with_most(|open| !open.streams());
            table.replaceable(most.unwrap_or(from))
        } else {
            Some(None)
        };
        let Some(replaced) = replaced else {
            self.0.numbers.count(Reason::Connections);
            return None;
        };
        if let Some(id) = replaced {
            self.0.numbers.count(Reason::Replaced);
            table.end(id);
        }
        let (id, end) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        table.open.insert(id, Open { from, state: State::Waiting(Instant::now()), end: end.clone() });
        self.show(&table);
        Some(Place { admission: self.clone(), id, end })
    }

    /// Connections that are accepted at once: too few to replace each other.
    pub fn batch(&self) -> usize {
        let Limits { connections, connections_per_address, .. } = self.0.limits;
        (connections.min(connections_per_address) / 2).clamp(1, 16)
    }

    /// Counters of this socket, for metrics.
    pub fn numbers(&self) -> &Arc<SocketNumbers> {
        &self.0.numbers
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, table: &Table) {
        let streams = table.open.len() - table.connections().count();
        self.0.numbers.open(table.open.len() - streams, streams);
    }
}

impl Table {
    /// Open connections that carry no stream.
    fn connections(&self) -> impl Iterator<Item = &Open> {
        self.open.values().filter(|open| !open.streams())
    }

    /// The connection of this address that can be replaced, as `Some(Some(id))`: the connection that has waited longest
    /// for its client; or, if that is a new connection whose request may be under way, the last in the queue, so that
    /// those before it are answered.
    fn replaceable(&self, from: Option<IpAddr>) -> Option<Option<u64>> {
        let since = |of: fn(State) -> Option<Instant>| {
            let all = self.open.iter().filter(move |(_, open)| open.from == from);
            all.filter_map(move |(id, open)| Some((of(open.state)?, *id)))
        };
        let waiting = since(|state| if let State::Waiting(since) = state { Some(since) } else { None }).min();
        let queued = || since(|state| if let State::Queued(since) = state { Some(since) } else { None }).max();
        let is_new = waiting.is_some_and(|(since, _)| since.elapsed() < UNDER_WAY);
        let replaced = if is_new { queued().or(waiting) } else { waiting.or_else(queued) };
        replaced.map(|(_, id)| Some(id))
    }

    /// The address with the most of these.
    fn address_with_most(&self, counts: impl Fn(&Open) -> bool) -> Option<Option<IpAddr>> {
        let mut by_address = BTreeMap::<Option<IpAddr>, usize>::new();
        for open in self.open.values().filter(|open| counts(open)) {
            *by_address.entry(open.from).or_default() += 1;
        }
        by_address.into_iter().max_by_key(|(_, count)| *count).map(|(from, _)| from)
    }

    fn end(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id) {
            open.end.notify_one();
        }
    }
}

impl Open {
    fn streams(&self) -> bool {
        matches!(self.state, State::Streaming(_))
    }
}

/// The place of a connection, given back when dropped.
#[derive(Debug)]
pub struct Place {
    admission: Admission,
    id: u64,
    end: Arc<Notify>,
}

impl Place {
    /// Counters of the socket, for metrics.
    pub fn numbers(&self) -> &SocketNumbers {
        self.admission.numbers()
    }

    /// Waits until a newer connection needs the place.
    pub async fn replaced(&self) {
        self.end.notified().await;
    }

    /// A request has arrived, and waits for its turn.
    pub fn queues(&self) {
        self.set(State::Queued(Instant::now()));
    }

    /// The turn of a request has come: its answer is being computed.
    pub fn works(&self) {
        self.set(State::Working);
    }

    /// The answer is there, for the client to take. A stream remains a stream.
    pub fn answered(&self) {
        let streams = self.admission.table().open.get(&self.id).is_some_and(Open::streams);
        if !streams {
            self.set(State::Waiting(Instant::now()));
        }
    }

    /// Counts the connection as a stream until the result is dropped. `None` at the limit, unless another address has
    /// clearly more: then its oldest stream ends.
    pub fn stream(self: &Arc<Place>) -> Option<Streaming> {
        let admission = &self.admission;
        let mut table = admission.table();
        let from = table.open.get(&self.id)?.from;
        if table.open.values().filter(|open| open.streams()).count() >= admission.0.limits.streams {
            let of =
                |table: &Table, from| table.open.values().filter(|open| open.streams() && open.from == from).count();
            let most = table.address_with_most(Open::streams)?;
            // Two of equal rights would replace each other for ever.
            if of(&table, most) <= of(&table, from) + 1 {
                admission.0.numbers.count(Reason::Streams);
                return None;
            }
            let of_most = table.open.iter().filter(|(_, open)| open.from == most);
            let oldest = of_most.filter_map(|(id, open)| match open.state {
                State::Streaming(since) => Some((since, *id)),
                _ => None,
            });
            let (_, oldest) = oldest.min()?;
            admission.0.numbers.count(Reason::Replaced);
            table.end(oldest);
        }
        if let Some(open) = table.open.get_mut(&self.id) {
            open.state = State::Streaming(Instant::now());
        }
        admission.show(&table);
        drop(table);
        Some(Streaming(self.clone()))
    }

    fn set(&self, state: State) {
        let mut table = self.admission.table();
        if let Some(open) = table.open.get_mut(&self.id) {
            open.state = state;
        }
        self.admission.show(&table);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.admission.table();
        table.open.remove(&self.id);
        self.admission.show(&table);
    }
}

/// A stream; its connection counts as a stream until this is dropped.
#[derive(Debug)]
pub struct Streaming(Arc<Place>);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.set(State::Waiting(Instant::now()));
    }
}

/// Returns the network that counts as an address: hosts have a /64 of IPv6 to themselves.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { connections: 4, connections_per_address: 3, streams: 2 };

    fn admission() -> Admission {
        Admission::new(LIMITS, Arc::default())
    }

    fn from(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    /// True if a newer connection has its place.
    fn is_replaced(place: &Place) -> bool {
        !place.admission.table().open.contains_key(&place.id)
    }

    #[test]
    fn a_new_connection_replaces_the_one_that_waited_longest() {
        let admission = admission();
        let first: Vec<_> = (0..3).map(|_| admission.admit(from(1)).expect("there is room")).collect();
        first[0].works();
        let fourth = admission.admit(from(1)).expect("one of them waits");
        let replaced: Vec<bool> = first.iter().map(is_replaced).collect();
        assert_eq!(replaced, [false, true, false], "the first works");
        first[0].answered();
        let _fifth = admission.admit(from(1)).expect("one of them waits");
        assert!(is_replaced(&first[2]) && !is_replaced(&first[0]), "an answer begins a new wait");
        assert!(!is_replaced(&fourth));
        assert_eq!(admission.numbers().counted(Reason::Replaced), 2);
    }

    #[test]
    fn the_address_with_the_most_loses_one() {
        let admission = admission();
        let lone = admission.admit(from(1)).expect("there is room");
        let many: Vec<_> = (0..3).map(|_| admission.admit(from(2)).expect("there is room")).collect();
        let other = admission.admit(from(3)).expect("one of the many waits");
        assert!(is_replaced(&many[0]) && !is_replaced(&lone) && !is_replaced(&other));
    }

    #[test]
    fn of_those_that_have_sent_requests_the_last_is_replaced() {
        let admission = admission();
        let queued: Vec<_> = (0..3).map(|_| admission.admit(from(1)).expect("there is room")).collect();
        queued.iter().for_each(Place::queues);
        queued[0].works();
        let _new = admission.admit(from(1)).expect("one of them is in the queue");
        assert_eq!(queued.iter().map(is_replaced).collect::<Vec<_>>(), [false, false, true]);
        let _newer = admission.admit(from(1)).expect("another is in the queue");
        assert!(is_replaced(&queued[1]), "not the new one, whose request may be under way");
    }

    #[test]
    fn nothing_that_works_is_replaced() {
        let admission = admission();
        let working: Vec<_> = (1..=4).map(|n| admission.admit(from(n)).expect("there is room")).collect();
        working.iter().for_each(Place::works);
        assert!(admission.admit(from(5)).is_none());
        assert_eq!(admission.numbers().counted(Reason::Connections), 1);
        drop(working);
        assert!(admission.admit(from(5)).is_some());
    }

    #[test]
    fn streams_take_no_places_and_are_shared_by_address() {
        let admission = admission();
        let place = |n| Arc::new(admission.admit(from(n)).expect("there is room"));
        let (a, b) = (place(1), place(1));
        let _streams = [a.stream().expect("the first"), b.stream().expect("the second")];
        let _connections: Vec<_> = (1..=4).map(place).collect();
        assert!(!is_replaced(&a) && !is_replaced(&b), "streams are not connections");
        assert!(place(1).stream().is_none(), "its own address has them all");
        let of_other = place(2);
        let streaming = of_other.stream();
        assert!(streaming.is_some() && is_replaced(&a), "another address gets its share");
        assert!(place(2).stream().is_none(), "one each is fair");
        drop(streaming);
        assert!(place(2).stream().is_some());
    }

    #[test]
    fn a_host_has_one_network_of_ipv6() {
        let ip = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::ffff:2"));
        assert_ne!(ip("2001:db8::1"), ip("2001:db8:0:1::1"));
        assert_eq!(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
    }
}
