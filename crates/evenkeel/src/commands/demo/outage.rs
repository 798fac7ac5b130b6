//! Death of an endpoint: one of the ten is killed under load and revived. Each slice of time shows the responses of the
//! endpoint and the failures of clients.

use super::endpoints::Endpoints;
use super::load::{self, CLIENTS, Progress};
use super::trial::{no_loop, start};
use crate::failure::Failure;
use evenkeel_balance::algorithms;
use evenkeel_balance::state::State;
use evenkeel_proxy::{Command, Server};
use std::time::{Duration, Instant};

/// Time that it takes. The endpoint is dead in the second third.
const LASTS: Duration = Duration::from_secs(6);

/// Time of a bar of the picture.
const SLICE: Duration = Duration::from_millis(200);

/// Index of the endpoint: the first of those that take up to 10 ms.
const VICTIM: usize = 1;

/// Checks that notice within the time that a viewer waits.
const HEALTH: &str = "health = { http = '/', interval = '200ms', rise = 1 }\n";

/// Measurements by slice of time.
pub struct Outage {
    /// The name of the endpoint that was killed.
    pub victim: String,
    /// Answers of the endpoint in each slice.
    pub answered: Vec<u64>,
    /// Requests of clients that failed in each slice.
    pub failed: Vec<u64>,
    /// Requests of clients, over all slices.
    pub requests: u64,
    /// Tries that failed and were made again at another endpoint.
    pub retries: u64,
    /// Time from the kill until the pool stopped sending to it, and the state that showed it.
    pub out: Option<(Duration, State)>,
    /// From the revival until the pool sent to it again.
    pub back: Option<Duration>,
}

/// Kills and revives an endpoint under the default algorithm.
pub fn run(endpoints: &Endpoints) -> Result<Outage, Failure> {
    let server = start(endpoints, algorithms::default(), HEALTH)?;
    endpoints.reset();
    let mut watch = Watch::new(endpoints, &server);
    let seen = load::run(server.addresses()[0], CLIENTS, u64::MAX, LASTS, |at| watch.look(at));
    let mut outage = watch.outage;
    let seen = seen.map_err(no_loop)?;
    outage.requests = seen.latency_us.len() + seen.errors;
    outage.retries = server.stats().iter().flat_map(|worker| worker.pools.iter()).map(|p| p.retries.get()).sum();
    server.command(Command::Stop);
    server.join();
    Ok(outage)
}

/// Looks at the pool now and then, and ends and begins the life of the endpoint.
struct Watch<'a> {
    endpoints: &'a Endpoints,
    server: &'a Server,
    began: Instant,
    killed: Option<Instant>,
    revived: Option<Instant>,
    /// At the end of the last slice.
    last: (u64, u64),
    outage: Outage,
}

impl<'a> Watch<'a> {
    fn new(endpoints: &'a Endpoints, server: &'a Server) -> Watch<'a> {
        let outage = Outage {
            victim: endpoints.all()[VICTIM].name.clone(),
            answered: Vec::new(),
            failed: Vec::new(),
            requests: 0,
            retries: 0,
            out: None,
            back: None,
        };
        Watch { endpoints, server, began: Instant::now(), killed: None, revived: None, last: (0, 0), outage }
    }

    fn look(&mut self, at: Progress) {
        let (now, victim) = (Instant::now(), &self.endpoints.all()[VICTIM]);
        let since = now - self.began;
        let (slices, outage) = (self.outage.answered.len(), &mut self.outage);
        if since >= SLICE * (slices as u32 + 1) && since < LASTS + SLICE {
            let all = (victim.answered(), at.errors);
            outage.answered.push(all.0 - self.last.0);
            outage.failed.push(all.1 - self.last.1);
            self.last = all;
        }
        let state = self.server.control().snapshot(&self.server.now())[0].endpoints[VICTIM].state;
        let is_out = state.filter(|s| matches!(s, State::Down | State::Ejected(_)));
        match (self.killed, self.revived) {
            (None, _) if since >= LASTS / 3 => {
                victim.kill();
                self.killed = Some(now);
            }
            (Some(killed), None) => {
                if let (None, Some(state)) = (outage.out, is_out) {
                    outage.out = Some((now - killed, state));
                }
                if since >= LASTS * 2 / 3 {
                    victim.revive();
                    self.revived = Some(now);
                }
            }
            (_, Some(revived)) if outage.back.is_none() && state.is_some() && is_out.is_none() => {
                outage.back = Some(now - revived);
            }
            _ => {}
        }
    }
}
