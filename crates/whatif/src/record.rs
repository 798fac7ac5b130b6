//! Requests of a log as an analysis needs them: when each reached the pool, and its tries at endpoints.

use evenkeel_balance::endpoint::stable_hash;
use evenkeel_logs::lacks::{self, Lack};
use evenkeel_logs::read::{Place, Report};
use evenkeel_logs::tries::Outcome;
use evenkeel_logs::{Logs, Request, Try};
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

/// Requests that are kept, the latest of the log. With 150 bytes each they take 60 MB.
pub const KEPT_MAX: usize = 400_000;

/// Try at an endpoint, with absolute times.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    /// Index of the endpoint among the names of the record.
    pub endpoint: u32,
    /// Start, in nanoseconds since 1970.
    pub began: u64,
    /// Nanoseconds from the start to the end.
    pub held: u64,
    pub failed: bool,
}

/// Request that an endpoint got.
#[derive(Clone, Debug)]
pub struct Row {
    /// Index of the pool among the names of the record.
    pub pool: u32,
    /// Index of the file, and number of the line in it.
    pub file: u32,
    pub line: u64,
    /// Arrival and end, in nanoseconds since 1970.
    pub arrived: u64,
    pub ended: u64,
    pub first: Tried,
    pub more: Vec<Tried>,
    /// Hash of the client's address.
    pub client: Option<u64>,
    /// Number of endpoints from which the first was drawn uniformly; 0 if it was not explored.
    pub drawn_from: u32,
    /// Requests that the balancer counted in flight as the line was written: at the endpoint, and in the pool.
    pub counted: Option<[u32; 2]>,
}

impl Row {
    /// Tries, of which the last ended the request.
    pub fn tries(&self) -> impl Iterator<Item = &Tried> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Nanoseconds from the start of the first try to the end of the last.
    pub fn took(&self) -> u64 {
        let last = self.more.last().unwrap_or(&self.first);
        (last.began + last.held).saturating_sub(self.first.began)
    }
}

/// Numbers of names, by first occurrence.
#[derive(Clone, Debug, Default)]
struct Names {
    all: Vec<String>,
    index: BTreeMap<Vec<u8>, u32>,
}

impl Names {
    fn of(&mut self, name: &[u8]) -> u32 {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        let index = self.all.len() as u32;
        self.all.push(String::from_utf8_lossy(name).into_owned());
        self.index.insert(name.to_vec(), index);
        index
    }
}

/// The latest requests of a log, and counts of all.
#[derive(Clone, Debug)]
pub struct Record {
    /// Name of the format, and of the program that writes it.
    pub format: &'static str,
    /// Other formats that may be meant; `None` if there are none.
    pub ambiguity: Option<String>,
    pub files: Vec<String>,
    pub pools: Vec<String>,
    /// Requests with an endpoint, by pool, over the whole log.
    pub counts: Vec<u64>,
    pub endpoints: Vec<String>,
    /// The latest requests with an endpoint, in the order of the lines.
    pub rows: VecDeque<Row>,
    /// Requests that no endpoint got, and requests whose times the log lacks.
    pub unserved: u64,
    pub untimed: u64,
    /// Units of arrivals and of durations, in nanoseconds.
    pub units_ns: [u32; 2],
    pub lacks: Vec<Lack>,
    pub report: Report,
}

/// Reads logs. `progress` gets the share of the bytes that were read, 0 to 1, about every thousand requests.
pub fn read(logs: Logs, mut progress: impl FnMut(f64)) -> Record {
    let found = logs.found();
    let row = found.format.row;
    let ambiguity = lacks::ambiguity(found);
    let files = logs.names();
    let (mut pools, mut endpoints) = (Names::default(), Names::default());
    let (mut rows, mut counts) = (VecDeque::new(), Vec::new());
    let (mut unserved, mut untimed) = (0, 0);
    let report = logs.read(|request, place| {
        if place.line % 1_000 == 0
            && let Some(total) = place.total
        {
            progress(place.read as f64 / total.max(1) as f64);
        }
        let pool = pools.of(request.pool.unwrap_or_default());
        counts.resize(pools.all.len(), 0);
        match one(request, place, pool, &mut endpoints) {
            Ok(row) => {
                counts[pool as usize] += 1;
                if rows.len() == KEPT_MAX {
                    rows.pop_front();
                }
                rows.push_back(row);
            }
            Err(Missing::Endpoint) => unserved += 1,
            Err(Missing::Times) => untimed += 1,
        }
        ControlFlow::Continue(())
    });
    Record {
        format: row.name,
        ambiguity,
        files,
        pools: pools.all,
        counts,
        endpoints: endpoints.all,
        rows,
        unserved,
        untimed,
        units_ns: [report.coverage.arrival_unit_ns(), report.coverage.total_unit_ns()],
        lacks: lacks::lacks(row, &report.coverage),
        report,
    }
}

enum Missing {
    Endpoint,
    Times,
}

fn one(request: &Request<'_>, place: Place, pool: u32, names: &mut Names) -> Result<Row, Missing> {
    let tries = request.tries.kept();
    if tries.is_empty() && request.endpoint.is_none() {
        return Err(Missing::Endpoint);
    }
    let (Some(arrived), Some(total)) = (request.arrived, request.total) else { return Err(Missing::Times) };
    let ended = request.ended.unwrap_or(arrived.after(total));
    let mut tried = |of: &Try<'_>| {
        let endpoint = of.endpoint.or(request.endpoint)?;
        let began = arrived.after(of.began?);
        let failed = matches!(of.outcome, Outcome::Refused | Outcome::TimedOut | Outcome::Broken | Outcome::Retried)
            || of.status.is_some_and(|status| (502..=504).contains(&status));
        Some(Tried { endpoint: names.of(endpoint), began: began.ns, held: of.took?.ns, failed })
    };
    let mut all = tries.iter().map(&mut tried);
    let first = all.next().flatten().ok_or(Missing::Times)?;
    let more = all.collect::<Option<Vec<Tried>>>().ok_or(Missing::Times)?;
    Ok(Row {
        pool,
        file: place.file as u32,
        line: place.line,
        arrived: arrived.ns,
        ended: ended.ns,
        first,
        more,
        client: request.client.map(stable_hash),
        drawn_from: request.chance.map_or(0, |chance| (1.0 / chance).round() as u32),
        counted: request.counts.map(|counts| [counts.endpoint, counts.pool]),
    })
}
