//! Load probes. Requests do not wait for them: if the algorithm wants a probe at a pick, the request queues the probe
//! and continues. The worker's prober sends queued probes after the current batch of requests, and passes the answers
//! to the balancers of the same worker.

pub mod datagram;
mod http;
mod outstanding;

use crate::core::Core;
use crate::load::reports::Came;
use crate::observe::stats::ProbingStats;
use crate::upstream::pool::{Endpoint, WorkerPool};
use crate::upstream::rules::PoolRules;
use datagram::Datagram;
use evenkeel_balance::{Clock, Instant, LoadReport, Slot};
use evenkeel_config::plan::{LoadReports, Probe};
use evenkeel_net::dial::Remote;
use evenkeel_net::event_loop::{Source, spawn};
use outstanding::{Outstanding, Unwanted};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// Questions that may wait to be sent; more than a batch of requests causes.
const DUE_MAX: usize = 256;

/// Concurrent probes over HTTP: each needs a connection or stream.
const HTTP_MAX: usize = 32;

/// Answers read between two measurements of the time spent.
const AT_ONCE: usize = 16;

/// Result of a probe, in the order of [`PROBES`](crate::observe::stats::PROBES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Answered,
    Timeout,
    /// The probe could not be sent.
    Unsent,
    /// Over the rate limit of probes.
    Rate,
    /// Too many probes are in progress.
    Busy,
    /// The response over HTTP has no report.
    NoReport,
}

struct Question {
    pool: Rc<WorkerPool>,
    /// Rules of the pool when the probe was requested.
    rules: Rc<PoolRules>,
    slot: Slot,
    endpoint: Rc<Endpoint>,
    at: Instant,
}

impl Question {
    fn ends(&self, end: End) {
        self.pool.stats.probes[end as usize].add(1);
    }

    fn reports(&self) -> &LoadReports {
        self.rules.plan.load_reports.as_ref().expect("only pools with reports are asked")
    }

    fn is_over(&self, now: Instant) -> bool {
        now.since(self.at) > self.reports().timeout.as_nanos() as u64
    }
}

pub struct Prober {
    core: Rc<Core>,
    due: RefCell<VecDeque<Question>>,
    woken: Notify,
    outstanding: RefCell<Outstanding<(Question, SocketAddr)>>,
    /// Sockets for IPv4 and IPv6, each opened at its first use.
    sockets: [OnceCell<Rc<Source<UdpSocket>>>; 2],
    http: Cell<usize>,
    stats: Arc<ProbingStats>,
}

impl Prober {
    /// Creates a prober without outstanding probes.
    pub fn new(core: Rc<Core>, stats: Arc<ProbingStats>) -> Prober {
        Prober {
            core,
            due: RefCell::default(),
            woken: Notify::new(),
            outstanding: RefCell::default(),
            sockets: [const { OnceCell::new() }; 2],
            http: Cell::new(0),
            stats,
        }
    }

    /// State of the worker that the prober belongs to.
    pub fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Queues the probes that the pool's algorithm wants now. To be called after each start of a request.
    pub fn after_start(&self, pool: &Rc<WorkerPool>) {
        if pool.plan().load_reports.as_ref().is_some_and(|reports| reports.probe != Probe::Off) {
            self.note(pool, self.core.clock.now());
        }
    }

    fn note(&self, pool: &Rc<WorkerPool>, now: Instant) {
        loop {
            let wanted = pool.balancer.borrow_mut().poll_probe(now);
            let Some(slot) = wanted else { return };
            let (rules, endpoint) = (pool.rules(), pool.endpoints.at(slot));
            let question = Question { pool: pool.clone(), rules, slot, endpoint, at: now };
            let mut due = self.due.borrow_mut();
            if due.len() >= DUE_MAX {
                question.ends(End::Busy);
            } else if !question.pool.probes.take(question.reports().rate_max, now) {
                question.ends(End::Rate);
            } else {
                due.push_back(question);
                self.woken.notify_one();
            }
        }
    }

    /// Ends UDP questions that were not answered in time. To be called periodically while
    /// [`is_asking`](Self::is_asking).
    pub fn sweep(&self, now: Instant) {
        let mut outstanding = self.outstanding.borrow_mut();
        while let Some((question, _)) = outstanding.give_up(|(question, _)| question.is_over(now)) {
            question.ends(End::Timeout);
        }
    }

    /// True if UDP questions may be outstanding.
    pub fn is_asking(&self) -> bool {
        self.outstanding.borrow().any()
    }
}

/// Sends queued probes. Never ends.
pub async fn run(prober: Rc<Prober>) {
    let clock = &prober.core.clock;
    loop {
        prober.woken.notified().await;
        let began = clock.read();
        loop {
            let next = prober.due.borrow_mut().pop_front();
            let Some(question) = next else { break };
            match question.reports().probe {
                Probe::Http => http::start(&prober, question),
                Probe::Udp | Probe::Off => send(&prober, question),
            }
        }
        prober.stats.spent_ns.add(clock.read().since(began));
    }
}

/// Sends a question as a datagram.
fn send(prober: &Rc<Prober>, question: Question) {
    let socket = question
        .endpoint
        .addr
        .as_ref()
        .and_then(Remote::socket_addr)
        .and_then(|addr| Some((socket(prober, addr).ok()?, addr)));
    let Some((socket, addr)) = socket else { return question.ends(End::Unsent) };
    let asked = prober.outstanding.borrow_mut().ask((question, addr));
    let nonce = match asked {
        Ok(nonce) => nonce,
        Err((question, _)) => return question.ends(End::Busy),
    };
    let bytes = datagram::write(&Datagram::Question(nonce));
    if socket.send_to(&bytes, addr).is_err()
        && let Ok((question, _)) = prober.outstanding.borrow_mut().answer(nonce, |_| true)
    {
        question.ends(End::Unsent);
    }
}

/// Returns the socket for the family of an address, opening it at the first use.
fn socket(prober: &Rc<Prober>, addr: SocketAddr) -> io::Result<Rc<Source<UdpSocket>>> {
    let cell = &prober.sockets[usize::from(addr.is_ipv6())];
    if let Some(socket) = cell.get() {
        return Ok(socket.clone());
    }
    let any: IpAddr = if addr.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    let socket = Rc::new(Source::new(socket)?);
    spawn(listen(prober.clone(), socket.clone()));
    Ok(cell.get_or_init(|| socket).clone())
}

/// Receives answers. Ends only with the event loop.
async fn listen(prober: Rc<Prober>, socket: Rc<Source<UdpSocket>>) {
    // One byte more than a datagram has, so that a longer datagram is not mistaken for a valid datagram.
    let mut bytes = [0; datagram::LEN + 1];
    loop {
        socket.readable().await;
        let began = prober.core.clock.read();
        for _ in 0..AT_ONCE {
            match socket.recv_from(&mut bytes) {
                Ok((n, from)) => on_answer(&prober, &bytes[..n], from),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.note_empty();
                    break;
                }
                // An error about an earlier datagram (ICMP). Reading cleared it, so the loop continues.
                Err(_) => {}
            }
        }
        prober.stats.spent_ns.add(prober.core.clock.read().since(began));
    }
}

fn on_answer(prober: &Prober, bytes: &[u8], from: SocketAddr) {
    let now = prober.core.clock.now();
    let (nonce, load) = match datagram::read(bytes) {
        Some(Datagram::Answer(nonce, load)) => (nonce, load),
        // Questions are not expected on this socket.
        Some(Datagram::Question(_)) | None => return prober.stats.answers_dropped[0].add(1),
    };
    // Compares without IPv6 scope and flow, which the kernel may fill in.
    let is_from = |asked: SocketAddr| (from.ip(), from.port()) == (asked.ip(), asked.port());
    let answered = prober.outstanding.borrow_mut().answer(nonce, |(_, asked)| is_from(*asked));
    match answered {
        Ok((question, _)) if question.is_over(now) => {
            question.ends(End::Timeout);
            prober.stats.answers_dropped[1 + Unwanted::Late as usize].add(1);
        }
        Ok((question, _)) => {
            question.ends(End::Answered);
            take(&question, &load, now);
        }
        Err(why) => prober.stats.answers_dropped[1 + why as usize].add(1),
    }
}

fn take(question: &Question, load: &LoadReport, now: Instant) {
    let LoadReport { in_flight, latency_ns, stamp } = *load;
    let report = evenkeel_wire::orca::Report {
        in_flight: Some(f64::from(in_flight)),
        latency_ns: Some(latency_ns as f64),
        stamp: Some(stamp as f64),
        ..Default::default()
    };
    question.pool.take_report(question.slot, &question.endpoint, Came::Udp, &report, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::stats::{ANSWERS_DROPPED, PROBES};

    #[test]
    fn each_end_has_its_label() {
        assert_eq!(PROBES[End::Answered as usize], "answered");
        assert_eq!(PROBES[End::NoReport as usize], "no_report");
        assert_eq!(ANSWERS_DROPPED[1 + Unwanted::Unknown as usize], "unknown");
        assert_eq!(ANSWERS_DROPPED[1 + Unwanted::Sender as usize], "sender");
    }
}
