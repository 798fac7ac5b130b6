//! Conduct of a run: all balancers at once, in front of the same endpoints, so that each meets the same faults in the
//! same state of the machine. At this load none uses a noticeable part of a core, so they do not disturb each other.

use super::measure::{Course, Felt, Lived, Second, Struck};
use super::schedule::Lap;
use super::traffic::{self, KINDS, Outcome, Record, Request};
use crate::balancers::{Balancer, Running};
use crate::certificates::Certificates;
use crate::child;
use crate::client::connector::Connector;
use crate::clock;
use crate::endpoint::{Arrival, Endpoint};
use crate::error::{Error, Result};
use crate::hosts::Loopback;
use crate::progress::Progress;
use crate::scratch::Scratch;
use crate::setups::mixed;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Time for clients to get ready before the first request.
const HEAD_START: Duration = Duration::from_millis(500);
/// Interval of progress updates.
const GLANCE: Duration = Duration::from_millis(100);

/// Results of a balancer in a run.
pub struct Took {
    pub felt: Felt,
    /// Totals by client kind, as in `KINDS`.
    pub over: [Felt; KINDS.len()],
    pub lived: Vec<Lived>,
    /// Figures of each second.
    pub seconds: Vec<Second>,
    /// POSTs that reached endpoints more than once.
    pub posts_twice: usize,
    /// Number of retries by the balancer's own count.
    pub retries: u64,
}

pub struct Ran {
    /// Seed of its schedule and its load.
    pub seed: u64,
    /// Start of its first second.
    pub begin_ns: u64,
    /// Faults as they actually happened.
    pub struck: Vec<Struck>,
    /// Results of the balancers, in the order given.
    pub took: Vec<Took>,
}

pub struct Stage<'s> {
    pub balancers: &'s [Balancer],
    /// Number of endpoints behind each balancer.
    pub endpoints: u8,
    /// Network in which packets can be dropped.
    pub network: Option<&'s Loopback>,
    pub certificates: &'s Certificates,
    /// Number of runs before this run, and in total.
    pub round: (usize, usize),
    pub progress: &'s Progress,
}

impl Stage<'_> {
    fn start(&self, endpoints: &[Endpoint]) -> Result<(Vec<Running>, Vec<Connector>)> {
        let addresses: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address).collect();
        let one = |balancer: &Balancer| {
            let (running, ports) = mixed::start(balancer, &addresses, self.certificates)?;
            Ok((running, Connector::new(ports)?))
        };
        self.balancers.iter().map(one).collect()
    }

    /// Runs the plan through each balancer while endpoints break as scheduled.
    ///
    /// # Errors
    /// If something does not start, stop or answer as it must, or the experiment is interrupted.
    pub fn conduct(&self, seed: u64, laps: &[Lap], plan: &Arc<[Request]>) -> Result<Ran> {
        let folder = Scratch::new()?;
        let endpoints = (0..self.endpoints).map(|number| Endpoint::start(number, folder.path()));
        let mut endpoints = endpoints.collect::<Result<Vec<_>>>()?;
        let (running, connectors) = self.start(&endpoints)?;
        let begin_ns = clock::now_ns() + clock::ns(HEAD_START);
        let (tell, told) = mpsc::channel();
        let clients = traffic::start(Arc::clone(plan), connectors, begin_ns, tell);
        let records = vec![Vec::new(); running.len()];
        let mut watch = Watch { begin_ns, told, records, stage: self, laps };
        let mut struck = Vec::new();
        for lap in laps {
            let place = format!("{} at endpoint {}", lap.fault.name, lap.endpoint + 1);
            let endpoint = &mut endpoints[lap.endpoint];
            watch.until(lap.from, &running, "well")?;
            let from_ns = clock::now_ns();
            lap.fault.strike(endpoint, self.network)?;
            for (number, &turn) in lap.turns.iter().enumerate() {
                watch.until(turn, &running, &place)?;
                match number % 2 {
                    0 => lap.fault.mend(endpoint, self.network)?,
                    _ => lap.fault.strike(endpoint, self.network)?,
                }
            }
            watch.until(lap.until, &running, &place)?;
            lap.fault.mend(endpoint, self.network)?;
            let to_ns = begin_ns + clock::ns(lap.to);
            struck.push(Struck { fault: lap.fault, endpoint: lap.endpoint, from_ns, until_ns: clock::now_ns(), to_ns });
            watch.until(lap.to, &running, &format!("after {place}"))?;
        }
        while !clients.is_finished() {
            child::pause(GLANCE)?;
        }
        let ended = clients.join().map_err(|_| Error::Wrong("the clients failed".into()))?;
        ended.map_err(|e| Error::Os("clients".into(), e))?;
        watch.collect();
        let arrivals = endpoints.iter().map(Endpoint::arrivals).collect::<Result<Vec<_>>>()?;
        let took = (running.iter().zip(&watch.records).enumerate())
            .map(|(number, (running, records))| {
                let own = |all: &Vec<Arrival>| all.iter().filter(|a| a.id.balancer == number).copied().collect();
                let arrivals: Vec<Vec<Arrival>> = arrivals.iter().map(own).collect();
                took(&Course { begin_ns, plan, records, arrivals: &arrivals }, &struck, running)
            })
            .collect::<Result<_>>()?;
        Ok(Ran { seed, begin_ns, struck, took })
    }
}

fn took(course: &Course, struck: &[Struck], running: &Running) -> Result<Took> {
    Ok(Took {
        felt: course.felt(),
        over: KINDS.map(|(over, ..)| course.felt_over(over)),
        lived: struck.iter().map(|struck| course.lived(struck)).collect(),
        seconds: course.seconds(),
        posts_twice: course.posts_done_twice(),
        retries: running.retries()?,
    })
}

/// Waits for points in time; collects the clients' records meanwhile and shows progress.
struct Watch<'a> {
    begin_ns: u64,
    told: Receiver<Record>,
    records: Vec<Vec<Record>>,
    stage: &'a Stage<'a>,
    laps: &'a [Lap],
}

impl Watch<'_> {
    fn until(&mut self, moment: Duration, running: &[Running], doing: &str) -> Result<()> {
        let whole = self.laps.last().map_or(0.0, |lap| lap.to.as_secs_f64());
        loop {
            self.collect();
            let now_ns = clock::now_ns();
            let left = Duration::from_nanos((self.begin_ns + clock::ns(moment)).saturating_sub(now_ns));
            if left.is_zero() {
                return Ok(());
            }
            let failed = |records: &Vec<Record>| records.iter().filter(|r| r.outcome != Outcome::Good).count();
            let failed: Vec<String> = (running.iter().zip(&self.records))
                .map(|(running, records)| format!("{} {}", running.name, failed(records)))
                .collect();
            let done = Duration::from_nanos(now_ns.saturating_sub(self.begin_ns)).as_secs_f64();
            let (round, rounds) = self.stage.round;
            let (done, whole) = (done + whole * round as f64, whole * rounds as f64);
            self.stage.progress.tell(done, whole, &format!("s; {doing}; failed: {}", failed.join(", ")));
            child::pause(GLANCE.min(left))?;
        }
    }

    fn collect(&mut self) {
        for record in self.told.try_iter() {
            self.records[record.id.balancer].push(record);
        }
    }
}
