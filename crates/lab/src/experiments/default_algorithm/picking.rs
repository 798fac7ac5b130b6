//! Cost of picking an endpoint, with its locks: the share of CPU samples of the balancer whose stack has a function that
//! picks, by algorithm and by workers.

use super::known::How;
use crate::balancers::{Algorithm, Balancer, Setup};
use crate::child::{self, Child};
use crate::error::{Result, While};
use crate::http;
use crate::load::Load;
use crate::origin;
use crate::scratch::Scratch;
use crate::stats::{Interval, Spread};
use crate::study::figures::told;
use crate::study::perf::{self, Sample};
use crate::study::{Claim, Failed, Finding, Options, Plot, Rounds};
use evenkeel_draw::axis::Axis;
use evenkeel_draw::chart::{Chart, Line, Size};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Worker counts; more workers than cores take turns.
const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];
/// Number of endpoints, as with slow links.
const ENDPOINTS: usize = 4;
/// Maximum threads of a thread group in HAProxy.
const WORKERS_MAX: usize = 64;
/// Minimum cores for lock contention comparable to the published figures.
const CORES_MIN: usize = 32;
const WARM_UP: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(20);

const UNDER_ONE: Claim = Claim::ours("Picking costs evenkeel under 1 % of its CPU at every worker count");
/// Claims with the published share of each algorithm, in per cent.
const LB_CPU: [(Claim, f64); 3] = [
    (
        Claim {
            text: "On 64 cores picking by round robin is 48 % of HAProxy's CPU",
            source: "HAProxy mailing list, LB_CPU",
        },
        48.0,
    ),
    (
        Claim {
            text: "On 64 cores picking by leastconn is 14 % of HAProxy's CPU",
            source: "HAProxy mailing list, LB_CPU",
        },
        14.0,
    ),
    (
        Claim {
            text: "On 64 cores picking by random is 1.04 % of HAProxy's CPU",
            source: "HAProxy mailing list, LB_CPU",
        },
        1.04,
    ),
];
const LOCKS: [Claim; 2] = [
    Claim {
        text: "On 64 cores leastconn serves more than round robin",
        source: "HAProxy mailing list, 1,020,000 beside 910,000",
    },
    Claim {
        text: "On 64 cores random serves more than round robin",
        source: "HAProxy mailing list, 1,060,000 beside 910,000",
    },
];

/// Result of a run: shares of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    /// Share of samples that were picking, 0 to 1; `None` if functions have no names.
    picking: Option<f64>,
    /// Share of samples that were picking or measuring; evenkeel only.
    balancing: Option<f64>,
    /// Share of samples in the kernel's futex call, waiting for a lock.
    futex: f64,
    samples: usize,
    /// Requests per second.
    rate: f64,
}

/// Measurements, or the reason why there are none.
pub struct Picking {
    cells: Vec<Cell>,
    rounds: Option<Rounds<Run>>,
    /// Reason why nothing was measured.
    why: String,
    /// Balancers without a figure, with the reason.
    pub notes: Vec<String>,
    cores: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Cell {
    balancer: &'static str,
    algorithm: Algorithm,
    workers: usize,
}

impl Cell {
    fn name(&self) -> String {
        let s = if self.workers == 1 { "" } else { "s" };
        format!("{} {}, {} worker{s}", self.balancer, self.algorithm.name(), self.workers)
    }
}

impl Picking {
    /// Measures evenkeel and every HAProxy. Without perf it prints a message and measures nothing.
    ///
    /// # Errors
    /// A process does not start, or the experiment is interrupted.
    pub fn measure(balancers: &[Balancer], options: &Options) -> Result<Picking> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut picking = Picking { cells: Vec::new(), rounds: None, why: String::new(), notes: Vec::new(), cores };
        if let Err(missing) = perf::can_run() {
            eprintln!("left out: what picking costs: {missing}");
            picking.why = missing.to_string();
            return Ok(picking);
        }
        let told: Vec<&Balancer> =
            balancers.iter().filter(|one| ["evenkeel", "haproxy"].contains(&one.kind.name)).collect();
        let more = Some(cores.min(WORKERS_MAX)).filter(|cores| *cores > WORKERS[WORKERS.len() - 1]);
        let mut workers: Vec<usize> = WORKERS.into_iter().chain(more).collect();
        if options.quick {
            workers = vec![workers[0], workers[workers.len() - 1]];
        }
        for one in &told {
            for algorithm in Algorithm::ALL {
                let cell = |&workers: &usize| Cell { balancer: one.name, algorithm, workers };
                picking.cells.extend(workers.iter().map(cell));
            }
        }
        let endpoints = Endpoints::start(cores)?;
        let mut how = told.iter().map(|one| How::of(one)).collect::<Result<Vec<How>>>()?;
        let names: Vec<String> = picking.cells.iter().map(Cell::name).collect();
        let each = picking.cells.len() / told.len().max(1);
        // A few seconds over all rounds suffice for a share.
        let seconds = options.seconds().div_ceil(3);
        let rounds = Rounds::run(&names, options.rounds_of_many(), |at, _| {
            let Cell { algorithm, workers, .. } = picking.cells[at];
            let bind = http::local(origin::free_ports()?[0]);
            let setup = Setup { workers, ..Setup::of_algorithm(algorithm, &endpoints.addresses, bind) };
            run(told[at / each], setup, &mut how[at / each], seconds, cores)
        })?;
        for (at, of) in how.iter().enumerate() {
            if (at * each..(at + 1) * each).all(|cell| rounds.of(cell).all(|run| run.picking.is_none())) {
                picking.notes.push(of.unknown());
            }
        }
        picking.rounds = Some(rounds);
        Ok(picking)
    }

    fn shares(&self, cell: &Cell) -> Option<Vec<f64>> {
        self.runs(cell, |run| percent(run.picking))
    }

    fn runs(&self, cell: &Cell, figure: impl Fn(&Run) -> f64) -> Option<Vec<f64>> {
        let at = self.cells.iter().position(|known| known == cell)?;
        Some(self.rounds.as_ref()?.figures(at, figure))
    }

    /// Cell of a balancer with the largest upper bound of its share, with the interval.
    fn largest(&self, balancer: &str) -> Option<(&Cell, Interval)> {
        let of = self.cells.iter().filter(|cell| cell.balancer == balancer);
        let all: Option<Vec<_>> =
            of.map(|cell| Interval::of(&self.shares(cell)?).map(|interval| (cell, interval))).collect();
        all?.into_iter().max_by(|a, b| a.1.high.total_cmp(&b.1.high))
    }

    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.ours()];
        let workers = self.cells.iter().map(|cell| cell.workers).max().unwrap_or(0);
        let few = match (self.rounds.is_some(), self.cells.iter().any(|cell| cell.balancer == "haproxy")) {
            (false, _) => Some(self.why.clone()),
            (_, false) => Some("HAProxy did not run".to_owned()),
            _ if self.cores < CORES_MIN => Some(format!(
                "{} cores are fewer than {CORES_MIN}: at most {} workers are at the lock at the same moment, and further ones only \
take turns; what 64 at once wait for each other cannot show here",
                self.cores, self.cores
            )),
            _ => None,
        };
        let cell = |algorithm: Algorithm| Cell { balancer: "haproxy", algorithm, workers };
        for ((claim, published), algorithm) in LB_CPU.into_iter().zip(Algorithm::ALL) {
            let shares = self.shares(&cell(algorithm)).and_then(|shares| Interval::of(&shares));
            findings.push(match &few {
                Some(why) => Finding::not_shown(claim, why.clone()),
                None => Finding::near(claim, &format!("percent, {workers} workers"), shares, published, 0.5),
            });
        }
        let rates = |algorithm: Algorithm| self.runs(&cell(algorithm), |run| run.rate).unwrap_or_default();
        for (claim, algorithm) in LOCKS.into_iter().zip([Algorithm::LeastConn, Algorithm::Random]) {
            let ratio = Interval::of_ratios(&rates(algorithm), &rates(Algorithm::RoundRobin));
            findings.push(match &few {
                Some(why) => Finding::not_shown(claim, why.clone()),
                None => Finding::at_least(claim, "requests a second over those by round robin", ratio, 1.0),
            });
        }
        findings
    }

    fn ours(&self) -> Finding {
        if self.rounds.is_none() {
            return Finding::not_shown(UNDER_ONE, self.why.clone());
        }
        let beside = self.largest("haproxy").map_or_else(String::new, |(cell, of)| {
            format!("; HAProxy's, of {}, is {:.2} ({:.2} to {:.2})", cell.name(), of.median, of.low, of.high)
        });
        match self.largest("evenkeel") {
            Some((cell, interval)) => {
                let what = format!("the largest share of evenkeel in percent, of {}{beside}", cell.name());
                Finding::at_most(UNDER_ONE, &what, Some(interval), 1.0)
            }
            None => Finding::at_most(UNDER_ONE, "percent", None, 1.0),
        }
    }

    /// Table with a row for each balancer, algorithm and number of workers.
    pub fn table(&self) -> Option<(String, Vec<Vec<String>>)> {
        let rounds = self.rounds.as_ref()?;
        let header =
            ["", "picking, % of CPU", "with measuring", "in futex", "samples a run", "requests/s", "failed runs"];
        let row = |(at, cell): (usize, &Cell)| {
            let of = |digits: usize, figure: &dyn Fn(&Run) -> f64| told(&rounds.figures(at, figure), digits);
            let over = if cell.workers > self.cores { ", oversubscribed" } else { "" };
            vec![
                cell.name() + over,
                of(2, &|run| percent(run.picking)),
                of(2, &|run| percent(run.balancing)),
                of(2, &|run| run.futex * 100.0),
                of(0, &|run| run.samples as f64),
                of(0, &|run| run.rate),
                rounds.failed_of(at),
            ]
        };
        let rows = std::iter::once(header.map(str::to_owned).to_vec()).chain(self.cells.iter().enumerate().map(row));
        Some(("The cost of picking, with its locks".to_owned(), rows.collect()))
    }

    /// Plot with a line for each balancer and algorithm over the number of workers.
    pub fn plots(&self) -> Option<Plot> {
        self.rounds.as_ref()?;
        let mut lines: Vec<Line> = Vec::new();
        for cell in &self.cells {
            let label = format!("{} {}", cell.balancer, cell.algorithm.name());
            let shares = self.shares(cell).unwrap_or_default();
            if lines.last().is_none_or(|line| line.label != label) {
                lines.push(Line { label, points: Vec::new(), band: Vec::new(), is_dashed: false });
            }
            let line = lines.last_mut().expect("one was added if there was none");
            let x = cell.workers as f64;
            line.points.extend(Spread::of(&shares).map(|of| (x, of.median)));
            line.band.extend(Interval::of(&shares).map(|of| (x, of.low, of.high)));
        }
        let axis = |name: &str, log| Axis::Plain { name: name.into(), log };
        let (x, y) = (axis("workers", true), axis("percent of the balancer's CPU", false));
        let title = format!("The cost of picking, by workers, on {} cores", self.cores);
        let chart = Chart { title: String::new(), x, y, lines, marks: Vec::new(), size: Size::Report };
        Some(Plot::drawn(title, chart.svg()))
    }

    pub fn json(&self) -> Value {
        let run = |run: &Run| json!({ "picking": run.picking, "balancing": run.balancing, "futex": run.futex, "samples": run.samples, "rate": run.rate });
        self.rounds.as_ref().map_or_else(|| json!(self.why), |rounds| rounds.json(run))
    }

    /// Runs in which requests failed.
    pub fn failed(&self) -> Failed {
        self.rounds.as_ref().map(Rounds::failed).unwrap_or_default()
    }
}

/// Runs the balancer at full load, and samples its CPU.
fn run(balancer: &Balancer, setup: Setup, how: &mut How, seconds: u64, cores: usize) -> Result<Run> {
    let workers = setup.workers;
    let running = balancer.start(Vec::new(), setup)?;
    let folder = running.folder();
    let threads = (cores / 4).max(1);
    // Enough connections that every worker has some.
    let connections = 64 * threads.max(workers / 16);
    let load = Load::KeepAlive(u32::try_from(connections).unwrap_or(u32::MAX));
    let mut command = load.command(&format!("http://127.0.0.1:{}/1k", running.port()), seconds + 1)?;
    command.iter_mut().filter(|word| *word == "-t1").for_each(|word| *word = format!("-t{threads}"));
    let said = folder.join("load");
    let client = Child::spawn("wrk", &command, None, &said)?;
    child::pause(WARM_UP)?;
    let pid = running.pids()[0];
    let samples = perf::record(pid, workers.min(cores), seconds, folder)?;
    client.ends(PATIENCE)?;
    let text = std::fs::read_to_string(&said).or_say(|| "cannot read what wrk said".into())?;
    let answered = load.answered(&text)?;
    how.learn(&samples, folder)?;
    let count = |of: &dyn Fn(&Sample) -> bool| samples.iter().filter(|sample| of(sample)).count() as f64;
    let all = samples.len().max(1) as f64;
    let known = count(&|sample| how.knows(sample)) > 0.0;
    let balancing: Option<usize> = samples.iter().map(|sample| how.balances(sample).map(usize::from)).sum();
    Ok(Run {
        picking: known.then(|| count(&|sample| how.picks(sample)) / all),
        balancing: balancing.filter(|_| known).map(|count| count as f64 / all),
        futex: count(&|sample| sample.iter().any(|frame| frame.function.ends_with("sys_futex"))) / all,
        samples: samples.len(),
        rate: answered.requests as f64 / answered.seconds,
    })
}

/// Share in per cent; NaN if unknown.
fn percent(share: Option<f64>) -> f64 {
    share.map_or(f64::NAN, |share| share * 100.0)
}

/// NGINX that serves 1 kB at four ports of this machine, with half as many workers as cores.
struct Endpoints {
    addresses: Vec<SocketAddr>,
    _process: Child,
    _folder: Scratch,
}

impl Endpoints {
    fn start(cores: usize) -> Result<Endpoints> {
        let folder = Scratch::new()?;
        folder.write("1k", origin::content(1 << 10))?;
        let ports: [u16; ENDPOINTS] = origin::held_ports()?;
        let listen: String = ports.iter().map(|port| format!("listen 127.0.0.1:{port} backlog=4096; ")).collect();
        let lines = format!("  server {{ {listen}root {}; }}\n", folder.path().display());
        let process = origin::start_nginx(Vec::new(), folder.path(), (cores / 2).max(1), &lines, ports[0])?;
        let addresses = ports.into_iter().map(http::local).collect();
        Ok(Endpoints { addresses, _process: process, _folder: folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_perf_every_claim_says_why() {
        let picking = Picking {
            cells: Vec::new(),
            rounds: None,
            why: "perf is not installed".into(),
            notes: Vec::new(),
            cores: 2,
        };
        assert!(picking.findings().iter().all(|finding| finding.what.contains("perf") && finding.measured.is_none()));
        assert!(picking.table().is_none() && picking.plots().is_none());
    }
}
