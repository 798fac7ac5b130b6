//! Requests of the load: ids, bodies, and the line that an endpoint prints for each.

use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Get,
    Post,
    Call,
}

/// Id of a request of the load, part of its path: the balancer that it goes through, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub balancer: usize,
    /// Number at its balancer, from 0. Equal numbers are the same request at different balancers.
    pub number: usize,
}

impl Id {
    /// Path prefix of the gRPC service.
    pub(super) const CALLS: &str = "/lab.Echo/";

    /// Path that carries the id.
    pub fn path(self) -> String {
        format!("/item/{}/{}", self.balancer, self.number)
    }

    /// Path of the same request as a gRPC call.
    pub fn call_path(self) -> String {
        format!("{}{}/{}", Id::CALLS, self.balancer, self.number)
    }

    pub(super) fn of_path(path: &str) -> Option<Id> {
        let named = path.strip_prefix("/item/").or_else(|| path.strip_prefix(Id::CALLS))?;
        let (balancer, number) = named.split_once('/')?;
        Some(Id { balancer: balancer.parse().ok()?, number: number.parse().ok()? })
    }

    /// Body of the answer: 8 KiB, unique to the request.
    pub fn answer(self) -> Vec<u8> {
        self.text("answer", 8 * 1024)
    }

    /// Body of a POST: 600 bytes, unique to the request.
    pub fn posted(self) -> Vec<u8> {
        self.text("posted", 600)
    }

    fn text(self, kind: &str, size: usize) -> Vec<u8> {
        let line = format!("{kind} {} {}\n", self.balancer, self.number);
        line.bytes().cycle().take(size).collect()
    }
}

/// Arrival of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time when its head had been read, on the clock of `clock::now_ns`.
    pub at_ns: u64,
    pub id: Id,
}

impl Arrival {
    pub(super) fn line(&self) -> String {
        format!("{} {} {}", self.at_ns, self.id.balancer, self.id.number)
    }

    pub(super) fn of_line(line: &str) -> Option<Arrival> {
        let mut numbers = line.split(' ');
        let at_ns = numbers.next()?.parse().ok()?;
        let id = Id { balancer: numbers.next()?.parse().ok()?, number: numbers.next()?.parse().ok()? };
        Some(Arrival { at_ns, id })
    }
}

/// Callback for each request of the load.
pub type Saw = Arc<dyn Fn(Arrival) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_path_and_an_arrival_its_line() {
        let id = Id { balancer: 2, number: 4711 };
        assert_eq!(Id::of_path(&id.path()), Some(id));
        assert_eq!(Id::of_path(&id.call_path()), Some(id));
        assert_eq!(Id::of_path("/health"), None);
        let arrival = Arrival { at_ns: 99, id };
        assert_eq!(Arrival::of_line(&arrival.line()), Some(arrival));
        assert_eq!(Arrival::of_line("evenkeel-lab: oh"), None);
    }

    #[test]
    fn no_two_requests_share_a_body() {
        let (one, other) = (Id { balancer: 0, number: 11 }, Id { balancer: 0, number: 1 });
        assert_eq!((one.answer().len(), one.posted().len()), (8192, 600));
        assert_ne!(one.answer(), other.answer());
        assert_ne!(one.answer()[..600], one.posted()[..]);
    }
}
