//! What do the endpoints of an experiment do? They are processes of this program that do a little work for each
//! request, write down what reached them, and fail in the way they are told.

pub mod http2;
mod process;
mod serve;
pub mod websocket;

pub use process::{Endpoint, arguments, run};

use std::sync::atomic::{AtomicU8, Ordering};

/// What an endpoint does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Answers in about 10 ms.
    Well,
    /// Ten times slower. Health checks too.
    Slow,
    /// Accepts, reads, and never answers.
    Hang,
    /// Resets each connection as soon as it is accepted.
    ResetAccept,
    /// Resets within the head of the response.
    ResetHead,
    /// Resets within the body of the response.
    ResetBody,
    /// Answers 500 at once, while the health check still passes: a defect in the program.
    Error500,
    /// Answers 503 at once, and fails the health check: it reports overload itself.
    Error503,
}

impl Mode {
    const ALL: [(Mode, &'static str); 8] = [
        (Mode::Well, "well"),
        (Mode::Slow, "slow"),
        (Mode::Hang, "hang"),
        (Mode::ResetAccept, "reset-accept"),
        (Mode::ResetHead, "reset-head"),
        (Mode::ResetBody, "reset-body"),
        (Mode::Error500, "error-500"),
        (Mode::Error503, "error-503"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Mode::ALL.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }

    /// What it answers requests with, if not by their work.
    fn status(self) -> Option<u16> {
        match self {
            Mode::Error500 => Some(500),
            Mode::Error503 => Some(503),
            _ => None,
        }
    }

    /// What it answers the health check with.
    fn health(self) -> u16 {
        if self == Mode::Error503 { 503 } else { 200 }
    }

    fn named(name: &str) -> Option<Mode> {
        Mode::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }
}

/// The mode that an endpoint is in, as its connections share it.
#[derive(Debug, Default)]
struct Dial(AtomicU8);

impl Dial {
    // Relaxed: nothing but the mode passes between connections, and they share a thread.
    fn set(&self, mode: Mode) {
        let row = Mode::ALL.iter().position(|(known, _)| *known == mode).unwrap_or(0);
        self.0.store(row as u8, Ordering::Relaxed);
    }

    fn mode(&self) -> Mode {
        Mode::ALL[usize::from(self.0.load(Ordering::Relaxed)).min(Mode::ALL.len() - 1)].0
    }
}

/// What a client wants of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A GET.
    Get,
    /// A POST.
    Post,
    /// A call of gRPC.
    Call,
}

/// A request of the load, as named in its path: which balancer it goes through, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// Index of the balancer.
    pub balancer: usize,
    /// From 0 at each balancer: the same number is the same request in each.
    pub number: usize,
}

impl Id {
    /// The service of gRPC.
    const CALLS: &str = "/lab.Echo/";

    /// The path of the request.
    pub fn path(self) -> String {
        format!("/item/{}/{}", self.balancer, self.number)
    }

    /// The path of the same as a call of gRPC.
    pub fn call_path(self) -> String {
        format!("{}{}/{}", Id::CALLS, self.balancer, self.number)
    }

    fn of_path(path: &str) -> Option<Id> {
        let named = path.strip_prefix("/item/").or_else(|| path.strip_prefix(Id::CALLS))?;
        let (balancer, number) = named.split_once('/')?;
        Some(Id { balancer: balancer.parse().ok()?, number: number.parse().ok()? })
    }

    /// The answer to it: 8 KiB that no other request has.
    pub fn answer(self) -> Vec<u8> {
        self.text("answer", 8 * 1024)
    }

    /// The body that it posts: 600 bytes that no other request has.
    pub fn posted(self) -> Vec<u8> {
        self.text("posted", 600)
    }

    fn text(self, kind: &str, size: usize) -> Vec<u8> {
        let line = format!("{kind} {} {}\n", self.balancer, self.number);
        line.bytes().cycle().take(size).collect()
    }
}

/// A request that reached an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When its head had been read, on the clock of `clock::now_ns`.
    pub at_ns: u64,
    /// Which request.
    pub id: Id,
}

impl Arrival {
    fn line(&self) -> String {
        format!("{} {} {}", self.at_ns, self.id.balancer, self.id.number)
    }

    fn of_line(line: &str) -> Option<Arrival> {
        let mut numbers = line.split(' ');
        let at_ns = numbers.next()?.parse().ok()?;
        let id = Id { balancer: numbers.next()?.parse().ok()?, number: numbers.next()?.parse().ok()? };
        Some(Arrival { at_ns, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dial_shows_what_it_was_set_to() {
        let dial = Dial::default();
        assert_eq!(dial.mode(), Mode::Well, "an endpoint starts well");
        for (mode, name) in Mode::ALL {
            dial.set(mode);
            assert_eq!((dial.mode(), Mode::named(name), mode.name()), (mode, Some(mode), name));
        }
        assert_eq!(Mode::named("ill"), None);
    }

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
