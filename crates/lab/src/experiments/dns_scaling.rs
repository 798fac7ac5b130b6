//! DNS scaling experiment: answers per second of two workers and of a single worker, on a machine whose cores the
//! workers need, so that no generator may run at the same time.

use super::dns_cost;
use crate::balancers::{self, Balancer, Running};
use crate::child;
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::http;
use crate::origin;
use crate::procfs;
use crate::stats::Interval;
use crate::study::figures::{row, spread, told};
use crate::study::topology::{column, evenly, node};
use crate::study::{self, Claim, Finding, Found, Options, Plot, Rounds, Versions};
use clap::{Args, FromArgMatches};
use evenkeel_draw::flow::flow;
use rustix::process::Signal;
use serde_json::json;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "dns-scaling",
    summary: "answers a second of one DNS worker and of two, while nothing else runs",
    docs: "On two cores a generator takes from a second worker what that would add. Here it never runs beside them: queries \
are sent while evenkeel is stopped (SIGSTOP) and wait in its sockets; then it runs, while the generator sleeps, until all are \
answered. The rate is the number of answers over the CPU time of the worker that was busy longest: one worker has one core, \
two have two. This shows whether workers share the work evenly and whether they get in each other's way, in evenkeel and in \
the kernel; it does not show more than two, network cards, or the small batches of a server that waits for work.",
    args: |command| Options::augment_args(command).mut_arg("against", |arg| arg.default_value("").hide(true)),
    run: |matches| Options::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|o| run(&o)),
};

const TWICE: Claim =
    Claim::ours("Two DNS workers on two cores answer at least 1.7 times as many queries a second as one");

/// Runs per round; each takes a quarter of a second.
const EACH_ROUND: usize = 4;

/// Number of clients: enough that the kernel's hash of their ports spreads them evenly over the workers' sockets.
const CLIENTS: usize = 256;

/// Queries per client that wait, in total less than the sockets hold.
const EACH: usize = 32;

/// Time to answer them all, with a large margin, during which the lab sleeps.
const QUIET: Duration = Duration::from_millis(200);

/// Running evenkeel and its connected clients.
struct Asked {
    process: Running,
    clients: Vec<UdpSocket>,
}

impl Asked {
    /// Starts evenkeel with a worker per core, on these cores.
    fn start(evenkeel: &Balancer, cores: &[usize]) -> Result<Asked> {
        let to = http::local(origin::free_ports()?[0]);
        let process = evenkeel.start(child::on_cores(cores)?, dns_cost::setup(cores.len(), to.port()))?;
        let client = |_| {
            let socket = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.connect(to).map(|()| s));
            socket.and_then(|s| s.set_nonblocking(true).map(|()| s)).or_say(|| "cannot ask".into())
        };
        let clients = (0..CLIENTS).map(client).collect::<Result<_>>()?;
        Ok(Asked { process, clients })
    }

    /// Measures answers per second of CPU time of the busiest worker.
    fn rate(&self, query: &[u8]) -> Result<f64> {
        self.process.signal(Signal::STOP);
        // Time for running threads to stop.
        std::thread::sleep(Duration::from_millis(2));
        for client in &self.clients {
            for _ in 0..EACH {
                client.send(query).or_say(|| "cannot send a query".into())?;
            }
        }
        let before = procfs::threads(self.process.pid(), "dns-")?;
        self.process.signal(Signal::CONT);
        std::thread::sleep(QUIET);
        let after = procfs::threads(self.process.pid(), "dns-")?;
        let answered = self.take();
        if answered < CLIENTS * EACH {
            return Err(Error::Refused(format!("{answered} of {} queries were answered in time", CLIENTS * EACH)));
        }
        let busy = after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before));
        let busiest = busy.max().ok_or_else(|| Error::Wrong("evenkeel has no DNS worker".into()))?;
        Ok(answered as f64 / busiest.as_secs_f64())
    }

    /// Reads the answers that have arrived, and returns their number.
    fn take(&self) -> usize {
        let mut answer = [0; 512];
        let mut came = 0;
        for client in &self.clients {
            loop {
                match client.recv(&mut answer) {
                    Ok(_) => came += 1,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
        came
    }
}

fn run(options: &Options) -> Result<()> {
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let versions = vec![evenkeel.named_version()];
    let allowed = rustix::thread::sched_getaffinity(None).or_say(|| "cannot ask for the allowed cores".into())?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let [.., one, two] = cores[..] else {
        return Err(Error::Wrong("two cores are needed, one for each worker".into()));
    };
    let query = query("www.gslb.example.com");
    // Both servers run, but only the measured server is busy.
    let asked = [Asked::start(&evenkeel, &[two])?, Asked::start(&evenkeel, &[one, two])?];
    let names = ["1 worker", "2 workers"].map(str::to_owned);
    let rounds = Rounds::run(&names, options.rounds() * EACH_ROUND, |at, _| asked[at].rate(&query))?;
    let rates = |at: usize| rounds.figures(at, |rate| *rate);
    study::present(&found(&names, [&rates(0), &rates(1)], versions), options)
}

/// Report. `rates`: answers per second of a single worker and of two.
fn found(names: &[String; 2], rates: [&[f64]; 2], versions: Versions) -> Found {
    let ratio = Interval::of_ratios(rates[1], rates[0]);
    let header = ["", "answers/s"].map(str::to_owned).to_vec();
    let rows = names.iter().zip(rates).map(|(name, rates)| vec![name.clone(), told(rates, 0)]);
    let title = "Answers for each second that the busiest worker was busy".to_owned();
    let lines: Vec<_> =
        names.iter().zip(rates).enumerate().map(|(at, (name, rates))| row(name, rates, None, at)).collect();
    let columns = [
        column("clients", [node("256 clients", "ask, then sleep")]),
        column("evenkeel", [node("worker 1", "a core"), node("worker 2", "a core, or none")]),
    ];
    let raw = names
        .iter()
        .zip(rates)
        .map(|(name, rates)| (name.clone(), json!({ "figure": spread(rates), "answers_per_second": rates })));
    Found {
        title: "Does a second DNS worker answer as much as the first?",
        topology: flow("The machine", &columns, &evenly(&columns)),
        findings: vec![Finding::at_least(TWICE, "answers a second, two workers over one", ratio, 1.7)],
        figures: std::iter::once(header).chain(rows).collect(),
        plots: vec![Plot::of_rows(title, "answers a second", &lines)],
        method: vec![EXPERIMENT.docs.to_owned()],
        versions,
        raw: raw.collect::<serde_json::Map<_, _>>().into(),
        ..Found::default()
    }
}

/// DNS query for the A records of a name.
fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}
