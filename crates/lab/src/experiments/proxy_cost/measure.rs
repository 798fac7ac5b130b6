//! How is one figure taken? Everything is read from the proxy's processes before and after a load, and the endpoints'
//! counts show whether it reused connections as the case says.

use super::case::{Case, Measure, Setup};
use super::proxy::{Proxy, Running};
use crate::child;
use crate::error::{Error, Result};
use crate::http;
use crate::load::Answered;
use crate::machine;
use crate::origin::Origin;
use crate::procfs::{self, Cpu};
use crate::strace::{self, Calls};
use std::net::TcpStream;

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

/// One proxy under one case.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// A figure per round, in the case's unit.
    pub runs: Vec<f64>,
    /// Requests per second, per round. Only informs: it depends as much on the load generator and on other processes.
    pub per_second: Vec<f64>,
    /// Connections to endpoints per request, per round.
    pub connections: Vec<f64>,
    /// Syscalls by name, of the last round.
    pub calls: Calls,
    /// Notes that a reader of the figures needs.
    pub notes: Vec<String>,
}

/// Measures every proxy under one case, round by round in turn, so that other work of the machine affects all of them.
///
/// # Errors
/// If a proxy cannot be measured, or its figure would mislead.
pub fn case(case: &Case, proxies: &[Proxy], origin: &Origin, effort: Effort) -> Result<Vec<Cell>> {
    let mut cells = vec![Cell::default(); proxies.len()];
    if case.measure == Measure::IdleMemory {
        // A process that has served more has more freed memory to reuse, so each round has a fresh one.
        for _ in 0..effort.rounds.min(3) {
            for (proxy, cell) in proxies.iter().zip(&mut cells) {
                idle_memory(case, proxy, origin, effort, cell)?;
            }
        }
        return Ok(cells);
    }
    let mut running = Vec::new();
    for proxy in proxies {
        let process = proxy.start(origin.ports, case.setup, effort.core)?;
        let warm_up = named(proxy, case.load.run(process.port, case.path, 1))?;
        running.push((process, warm_up.requests));
    }
    for _ in 0..effort.rounds {
        for ((proxy, cell), (process, answered)) in proxies.iter().zip(&mut cells).zip(&mut running) {
            let round = match case.measure {
                Measure::Cpu => cpu(case, process, origin, effort, cell),
                Measure::Syscalls | Measure::IdleMemory => syscalls(case, process, effort, cell),
            };
            *answered += named(proxy, round)?.requests;
        }
    }
    for ((proxy, cell), (process, answered)) in proxies.iter().zip(&mut cells).zip(running) {
        let logged = process.stop_and_count_log();
        if case.setup == Setup::Logged {
            cell.notes.extend(named(proxy, check_log(logged, answered))?);
        }
    }
    Ok(cells)
}

fn named<T>(proxy: &Proxy, result: Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        Error::Refused(text) => Error::Refused(format!("{}: {text}", proxy.name)),
        other => other,
    })
}

fn cpu(case: &Case, proxy: &Running, origin: &Origin, effort: Effort, cell: &mut Cell) -> Result<Answered> {
    let seen = origin.seen()?;
    let before = Cpu::of(&proxy.pids)?;
    let answered = case.load.run(proxy.port, case.path, effort.seconds)?;
    let used = Cpu::of(&proxy.pids)?.since(&before);
    let seen_after = origin.seen()?;
    // The second question to the endpoints is itself a connection and a request.
    let (asked, opened) = (seen_after.requests - seen.requests - 1, seen_after.connections - seen.connections - 1);
    let connections = opened as f64 / asked.max(1) as f64;
    check_reuse(case.setup, connections)?;
    cell.runs.push(used.time.as_secs_f64() * 1e6 / answered.requests as f64);
    cell.per_second.push(answered.requests as f64 / answered.seconds);
    cell.connections.push(connections);
    if !used.exact {
        cell.notes.push("CPU time in clock ticks: the scheduler's count differs from them".into());
    }
    Ok(answered)
}

/// Fails if a proxy made fewer or more connections than the case allows.
fn check_reuse(setup: Setup, connections: f64) -> Result<()> {
    let meant = match setup {
        Setup::CloseUpstream => connections > 0.99,
        // A few are opened as concurrency peaks, or replaced when they stood idle.
        Setup::Plain | Setup::Logged => connections < 0.05,
        // Each session has one, and how many there are is the client's choice.
        Setup::Session => connections < 1.1,
    };
    let wanted = match setup {
        Setup::CloseUpstream => "one",
        Setup::Plain | Setup::Logged => "almost none",
        Setup::Session => "at most one",
    };
    let text = || format!("it opened {connections:.3} connections to endpoints per request; this case means {wanted}");
    if meant { Ok(()) } else { Err(Error::Refused(text())) }
}

/// Every answer must have left a line; a log over datagrams may lose some, and says so.
fn check_log(lines: u64, answered: u64) -> Result<Option<String>> {
    let share = lines as f64 / answered as f64;
    if lines == 0 {
        return Err(Error::Refused("it wrote no access log".into()));
    }
    Ok((share < 0.999).then(|| format!("only {:.1} % of the requests left a line in the access log", share * 100.0)))
}

fn syscalls(case: &Case, proxy: &Running, effort: Effort, cell: &mut Cell) -> Result<Answered> {
    let load = || case.load.run(proxy.port, case.path, effort.seconds);
    let (calls, answered) = strace::count(&proxy.pids, proxy.folder(), load)?;
    let total: u64 = calls.iter().map(|(_, count)| count).sum();
    cell.runs.push(total as f64 / answered.requests as f64);
    cell.calls = calls.into_iter().filter(|(_, count)| *count * 200 >= answered.requests).collect();
    let each = cell.calls.iter().map(|(name, count)| format!("{name} {:.2}", *count as f64 / answered.requests as f64));
    cell.notes = vec![each.collect::<Vec<_>>().join(", ")];
    Ok(answered)
}

const IDLE_CONNECTIONS: u64 = 10_000;

fn idle_memory(case: &Case, proxy: &Proxy, origin: &Origin, effort: Effort, cell: &mut Cell) -> Result<()> {
    // The lab's and the proxy's side of each connection are files of two processes; some more are open anyway.
    let per_client = if case.setup == Setup::Session { 2 } else { 1 };
    let count = IDLE_CONNECTIONS.min(machine::allow_files(0).saturating_sub(400) / per_client);
    if count < IDLE_CONNECTIONS {
        let note = format!("{count} connections instead of {IDLE_CONNECTIONS}: the limit of open files allows no more");
        cell.notes = vec![note];
    }
    let process = proxy.start(origin.ports, case.setup, effort.core)?;
    let resident = || process.pids.iter().map(|&pid| procfs::resident_bytes(pid)).sum::<Result<u64>>();
    let ask = |stream: &mut TcpStream| named(proxy, http::get(stream, case.path, "1.1"));
    ask(&mut http::connect(process.port)?)?;
    let before = resident()?;
    let mut idle = Vec::new();
    for _ in 0..count {
        child::go_on()?;
        let mut stream = http::connect(process.port)?;
        ask(&mut stream)?;
        idle.push(stream);
    }
    let grown = resident()?.saturating_sub(before);
    // A proxy that had closed some of them meanwhile would seem to need little memory.
    for stream in idle.iter_mut().step_by(100) {
        ask(stream)?;
    }
    cell.runs.push(grown as f64 / 1024.0 / count as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_reuses_where_it_must_not_gives_no_figure() {
        assert!(check_reuse(Setup::CloseUpstream, 1.0).is_ok());
        assert!(check_reuse(Setup::CloseUpstream, 0.5).is_err());
        assert!(check_reuse(Setup::Plain, 0.001).is_ok());
        assert!(check_reuse(Setup::Logged, 1.0).is_err());
    }

    #[test]
    fn a_proxy_that_logs_nothing_gives_no_figure() {
        assert!(check_log(0, 100).is_err());
        assert_eq!(check_log(1000, 1000).expect("all are there"), None);
        let note = check_log(500, 1000).expect("half are there").expect("which is said");
        assert!(note.contains("50.0 %"), "{note}");
    }
}
