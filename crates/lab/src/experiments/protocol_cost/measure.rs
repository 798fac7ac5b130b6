//! How is one figure taken? From the proxy's processes before and after a load, as in proxy-cost. A proxy that cannot be
//! measured in a case says why in its row, and the others go on.

use super::case::{Back, Case, Work};
use super::certificates::Certificates;
use super::grpc;
use super::idle::Idle;
use super::proxy::{Proxy, Running, url};
use crate::error::{Error, Result};
use crate::load::{Answered, Load};
use crate::origin::Origin;
use crate::procfs::{self, Cpu};

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs of each cell.
    pub rounds: usize,
    /// Seconds of load in each.
    pub seconds: u64,
    /// The proxy's core.
    pub core: usize,
}

/// Those behind the proxies.
pub struct Endpoints {
    /// They serve files.
    pub files: Origin,
    /// It answers calls.
    pub grpc: grpc::Endpoint,
}

impl Endpoints {
    fn ports(&self, back: Back) -> [u16; 2] {
        match back {
            Back::Http1 => self.files.ports,
            Back::H2c => self.files.h2_ports,
            Back::Grpc => self.grpc.ports,
        }
    }
}

/// One proxy under one case.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// A figure per round, in the case's unit. None if it cannot be measured.
    pub runs: Vec<f64>,
    /// Requests per second, per round. Only informs, as in proxy-cost.
    pub per_second: Vec<f64>,
    /// Notes that a reader needs, as why there are no runs.
    pub notes: Vec<String>,
}

/// Measures every proxy under one case, round by round in turn, so that other work of the machine affects all of them.
///
/// # Errors
/// If it is interrupted, or the endpoints are gone.
pub fn case(
    case: &Case,
    proxies: &[Proxy],
    endpoints: &Endpoints,
    certificates: &Certificates,
    effort: Effort,
) -> Result<Vec<Cell>> {
    let certificate = case.front.certificate().map(|certificate| certificates.of(certificate));
    let start =
        |proxy: &Proxy| proxy.start(endpoints.ports(case.back), case.front, case.back, certificate, effort.core);
    let mut cells = vec![Cell::default(); proxies.len()];
    if let Work::Idle(count) = case.work {
        // A process that has served more has more freed memory to reuse, so each round has a fresh one.
        for _ in 0..effort.rounds.min(3) {
            for (proxy, cell) in proxies.iter().zip(&mut cells).filter(|(_, cell)| cell.notes.is_empty()) {
                let grown = start(proxy).and_then(|process| idle_memory(case, &process, count));
                keep(grown, cell)?.into_iter().for_each(|grown| cell.runs.push(grown));
            }
        }
        return Ok(cells);
    }
    let mut running = Vec::new();
    for (proxy, cell) in proxies.iter().zip(&mut cells) {
        let started = start(proxy).and_then(|process| load(case, &process, 1).map(|_| process));
        running.push(keep(started, cell)?);
    }
    for _ in 0..effort.rounds {
        for (cell, process) in cells.iter_mut().zip(&mut running) {
            let Some(one) = process else { continue };
            if keep(round(case, one, endpoints, effort.seconds, cell), cell)?.is_none() {
                *process = None;
            }
        }
    }
    Ok(cells)
}

/// `None` if it failed in a way that is the proxy's: then the cell has no runs, but the reason.
fn keep<T>(result: Result<T>, cell: &mut Cell) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            *cell = Cell { notes: vec![error.to_string()], ..Cell::default() };
            Ok(None)
        }
    }
}

fn load(case: &Case, proxy: &Running, seconds: u64) -> Result<Answered> {
    let url = url(case.front, proxy.port, case.path);
    match case.work {
        Work::Streams(streams) => {
            let message = if case.back == Back::Grpc { Some(proxy.message()?) } else { None };
            streams.run(&url, message.as_deref(), seconds)
        }
        Work::Kept(clients) => Load::KeepAlive(clients).run_at(&url, seconds),
        Work::Handshakes(handshakes) => handshakes.run(proxy.port, case.path, seconds),
        Work::Idle(_) => Err(Error::Wrong("idle connections are no load".into())),
    }
}

fn round(case: &Case, proxy: &Running, endpoints: &Endpoints, seconds: u64, cell: &mut Cell) -> Result<()> {
    let seen = endpoints.files.seen()?;
    let before = Cpu::of(&proxy.pids)?;
    let answered = load(case, proxy, seconds)?;
    let used = Cpu::of(&proxy.pids)?.since(&before);
    // The second question is itself a connection.
    let opened = endpoints.files.seen()?.connections - seen.connections - 1;
    check_reuse(opened, answered.requests)?;
    cell.runs.push(used.time.as_secs_f64() * 1e6 / answered.requests as f64);
    cell.per_second.push(answered.requests as f64 / answered.seconds);
    let note = "CPU time in clock ticks: the scheduler's count differs from them";
    if !used.exact && cell.notes.iter().all(|known| known != note) {
        cell.notes.push(note.into());
    }
    Ok(())
}

/// The most requests that a load has at once.
const AT_ONCE: u64 = 16 * 32;

/// Fails if connections to endpoints were not kept. A few are opened as concurrency peaks.
fn check_reuse(opened: u64, requests: u64) -> Result<()> {
    if opened <= AT_ONCE + requests / 50 {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "it opened {opened} connections to endpoints for {requests} requests, instead of keeping them"
    )))
}

/// KiB of resident memory that each connection adds.
fn idle_memory(case: &Case, proxy: &Running, count: u32) -> Result<f64> {
    let resident = || proxy.pids.iter().map(|&pid| procfs::resident_bytes(pid)).sum::<Result<u64>>();
    let mut idle = Idle::none(case.front)?;
    idle.open(1, proxy.port, case.path)?;
    let before = resident()?;
    idle.open(count, proxy.port, case.path)?;
    let grown = resident()?.saturating_sub(before);
    idle.ask_again(case.path)?;
    Ok(grown as f64 / 1024.0 / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_does_not_keep_connections_gives_no_figure() {
        assert!(check_reuse(100, 100).is_ok(), "few requests, each at once with the others");
        assert!(check_reuse(600, 100_000).is_ok());
        assert!(check_reuse(50_000, 100_000).is_err());
    }

    #[test]
    fn a_proxy_that_fails_has_a_reason_and_no_runs() {
        let mut cell = Cell { runs: vec![1.0], ..Cell::default() };
        assert_eq!(keep::<()>(Err(Error::Missing("envoy".into())), &mut cell).expect("the others go on"), None);
        assert!(cell.runs.is_empty() && cell.notes[0].starts_with("envoy is not installed"), "{cell:?}");
        assert!(matches!(keep::<()>(Err(Error::Interrupted), &mut cell), Err(Error::Interrupted)));
    }
}
