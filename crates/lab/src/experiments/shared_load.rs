//! What do balancers gain that know each other's load? Two evenkeels in front of six endpoints, one of them slow, with
//! and without the reports of the evenkeel beside each endpoint.

use crate::child;
use crate::client::{self, Answer};
use crate::error::{Error, Result, While};
use crate::evenkeel::{self, Running};
use crate::experiment::Experiment;
use crate::http;
use crate::machine::Machine;
use crate::origin;
use crate::report::table;
use crate::rng::Rng;
use crate::stats::{Spread, quantile};
use crate::wire::Wire;
use clap::{Args, FromArgMatches};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "shared-load",
    summary: "Two balancers in front of six endpoints, one four times slower, with and without shared load",
    docs: "Starts six applications, each with an evenkeel beside it that reports its load, and two evenkeels in front of \
all of them that balance by leastconn. An application works on one request at a time unless --at-once says more, first come \
first served: 8 to 12 ms each, the slow one four times that. So five take 100 requests a second each and one 25: 525 in \
all, and the offered load is given as a share of that. At 60 % there is mostly a free endpoint, but which one must be known, and \
a request that meets another waits for all of it, so what is measured is whether balancers find the free ones. Requests are \
sent at moments drawn beforehand (Poisson), half of them to each balancer, whatever becomes of the ones before; latency \
counts from the moment meant.

Rounds alternate: in one the balancers go by their own requests alone, in the next they ask endpoints and read reports in \
responses. The evenkeels beside the applications are the same processes in both, and the moments and the work of the \
requests are the same too. Balancers and sidecars are processes; applications and clients are this program. Timers are \
exact to a millisecond.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

const ENDPOINTS: usize = 6;
const BALANCERS: usize = 2;
/// How much longer the first endpoint takes.
const SLOWED: f64 = 4.0;
/// Requests a second that an endpoint takes for each that it works on at once, and the slow one a part of that.
const CAPACITY: f64 = 100.0;
/// The start of each round that is not counted: connections are opened, and queues fill.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
struct Arguments {
    /// Rounds without and with shared load.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Seconds of each round.
    #[arg(long, value_name = "S", default_value_t = 9, value_parser = clap::value_parser!(u64).range(3..=300))]
    seconds: u64,
    /// Offered load, as a share of what the endpoints can take together.
    #[arg(long, value_name = "X", default_value_t = 0.6)]
    load: f64,
    /// Requests that an endpoint works on at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    at_once: u8,
    /// How the balancers balance, as in a configuration; it must do without reports too.
    #[arg(long, value_name = "TOML", default_value = "\"leastconn\"")]
    balance: String,
    /// What moments and work are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The evenkeel to run; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

/// One request of the load.
#[derive(Clone, Copy)]
struct Planned {
    /// Seconds from the start of its round.
    at: f64,
    balancer: usize,
    /// Microseconds that an endpoint of the usual speed works on it.
    work_us: u32,
}

/// An application: a few requests at a time, and the share of requests that came to it.
struct Application {
    slowed: f64,
    /// When each of its places is free.
    free_at: RefCell<Vec<Instant>>,
    served: Rc<[Cell<u64>; ENDPOINTS]>,
    index: usize,
}

/// The result of a round.
struct Round {
    /// Milliseconds, ascending.
    latencies: Vec<f64>,
    served: [u64; ENDPOINTS],
}

fn run(arguments: Arguments) -> Result<()> {
    if !(0.05..=0.95).contains(&arguments.load) {
        return Err(Error::Wrong("--load is a share from 0.05 to 0.95: above, there is no steady state".into()));
    }
    let program = child::find_evenkeel(arguments.evenkeel.as_deref())?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().or_say(|| "no event loop".into())?;
    let capacity = CAPACITY * f64::from(arguments.at_once) * (ENDPOINTS as f64 - 1.0 + 1.0 / SLOWED);
    let rate = capacity * arguments.load;
    println!("{:?}", Machine::this());
    println!("{rate:.0} requests/s of {capacity:.0}, {} rounds of {} s each way", arguments.rounds, arguments.seconds);
    let served: Rc<[Cell<u64>; ENDPOINTS]> = Rc::default();
    let local = LocalSet::new();
    let applications = runtime.block_on(local.run_until(applications(&served, arguments.at_once)))?;
    let sidecars = applications.iter().map(|addr| evenkeel::start(&program, &beside(*addr), None));
    let sidecars = sidecars.collect::<Result<Vec<Running>>>()?;
    let mut rounds: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
    for round in 0..u64::from(arguments.rounds) {
        let planned = plan(arguments.seed ^ round << 32, rate, arguments.seconds as f64);
        // The order turns, so that neither is always first.
        for shared in if round % 2 == 0 { [false, true] } else { [true, false] } {
            child::go_on()?;
            let start = |_| evenkeel::start(&program, &in_front(&sidecars, &arguments.balance, shared), None);
            let balancers = (0..BALANCERS).map(start).collect::<Result<Vec<_>>>()?;
            let ports: Vec<u16> = balancers.iter().map(|balancer| balancer.port).collect();
            served.iter().for_each(|n| n.set(0));
            let latencies = runtime.block_on(local.run_until(drive(&planned, &ports)))?;
            let served = std::array::from_fn(|i| served[i].get());
            rounds[usize::from(shared)].push(Round { latencies, served });
        }
    }
    print!("{}", told(&rounds));
    Ok(())
}

/// When requests are sent, to which balancer, and how much work they are.
fn plan(seed: u64, rate: f64, seconds: f64) -> Vec<Planned> {
    let mut rng = Rng::new(seed);
    let (mut planned, mut at) = (Vec::new(), 0.0);
    loop {
        at -= (1.0 - rng.unit()).ln() / rate;
        if at >= seconds {
            return planned;
        }
        let work_us = 8_000 + rng.below(4_001) as u32;
        planned.push(Planned { at, balancer: rng.below(BALANCERS), work_us });
    }
}

fn beside(application: SocketAddr) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"127.0.0.1:$PORT\"]\nreport_load = true\n\
         [pool.app]\nendpoints = [\"{application}\"]\n"
    )
}

fn in_front(sidecars: &[Running], balance: &str, shared: bool) -> String {
    let endpoints: Vec<String> = sidecars.iter().map(|sidecar| format!("\"127.0.0.1:{}\"", sidecar.port)).collect();
    let reports = if shared { "load_reports = { probe = \"udp\" }\n" } else { "" };
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"127.0.0.1:$PORT\"]\n\
         [pool.app]\nbalance = {balance}\n{reports}endpoints = [{}]\n",
        endpoints.join(", ")
    )
}

/// Starts the applications and returns their addresses.
async fn applications(served: &Rc<[Cell<u64>; ENDPOINTS]>, at_once: u8) -> Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for index in 0..ENDPOINTS {
        let (listener, address) = origin::listen_anywhere(Ipv4Addr::LOCALHOST)?;
        let doing = || "an application cannot listen".to_owned();
        listener.set_nonblocking(true).or_say(doing)?;
        let listener = TcpListener::from_std(listener).or_say(doing)?;
        let slowed = if index == 0 { SLOWED } else { 1.0 };
        let free_at = RefCell::new(vec![Instant::now(); usize::from(at_once)]);
        let application = Rc::new(Application { slowed, free_at, served: served.clone(), index });
        spawn_local(async move {
            loop {
                // A connection that was gone before it was accepted does not count.
                let Ok((stream, _)) = listener.accept().await else { continue };
                let application = application.clone();
                spawn_local(async move { drop(application.serve(stream).await) });
            }
        });
        addresses.push(address);
    }
    Ok(addresses)
}

impl Application {
    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut wire = Wire::new(stream)?;
        while let Some(head) = wire.head().await? {
            let work_us = head.words().nth(1).and_then(|path| path[1..].parse::<u64>().ok()).unwrap_or(0);
            sleep_until(self.take_turn(Duration::from_micros(work_us).mul_f64(self.slowed))).await;
            self.served[self.index].update(|n| n + 1);
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
        }
        Ok(())
    }
}

impl Application {
    /// When work that comes now is done: in the order in which it came, at the first place that is free.
    fn take_turn(&self, work: Duration) -> Instant {
        let mut free_at = self.free_at.borrow_mut();
        let first = free_at.iter_mut().min().expect("there is a place");
        *first = Instant::now().max(*first) + work;
        *first
    }
}

/// Sends the requests. Returns the latencies of those after the warm-up, ascending.
async fn drive(planned: &[Planned], ports: &[u16]) -> Result<Vec<f64>> {
    let began = Instant::now();
    let idle: Rc<Vec<RefCell<VecDeque<Wire>>>> = Rc::new(ports.iter().map(|_| RefCell::default()).collect());
    let mut asked = Vec::new();
    for &Planned { at, balancer, work_us } in planned {
        let meant = began + Duration::from_secs_f64(at);
        sleep_until(meant).await;
        let (idle, port) = (idle.clone(), ports[balancer]);
        asked.push(spawn_local(async move {
            // The connection used last, or a new one.
            let kept = idle[balancer].borrow_mut().pop_back();
            let answered = ask(kept, port, work_us).await;
            answered.map(|wire| {
                idle[balancer].borrow_mut().push_back(wire);
                (meant.duration_since(began) >= WARM_UP).then(|| meant.elapsed().as_secs_f64() * 1e3)
            })
        }));
    }
    let mut latencies = Vec::new();
    for answered in asked {
        let answered = answered.await.map_err(|error| Error::Wrong(format!("a client failed: {error}")))?;
        latencies.extend(answered.map_err(|error| Error::Refused(format!("a request failed: {error}")))?);
        child::go_on()?;
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

async fn ask(kept: Option<Wire>, port: u16, work_us: u32) -> std::io::Result<Wire> {
    let mut wire = match kept {
        Some(wire) => wire,
        None => Wire::new(TcpStream::connect(http::local(port)).await?)?,
    };
    match client::exchange(&mut wire, &client::get(&format!("/{work_us}"), false), &mut false).await? {
        Answer::Whole { status: 200, reusable: true, .. } => Ok(wire),
        other => Err(std::io::Error::other(format!("{other:?}"))),
    }
}

fn told(rounds: &[Vec<Round>; 2]) -> String {
    const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
    let of = |rounds: &[Round], share: f64| -> Vec<f64> {
        rounds.iter().filter_map(|round| quantile(&round.latencies, share)).collect()
    };
    let figure = |spread: Option<Spread>, digits: usize| {
        spread.map_or_else(String::new, |s| format!("{:.digits$} ({:.digits$}..{:.digits$})", s.median, s.min, s.max))
    };
    let [alone, shared] = rounds;
    let rows = SHARES.map(|(name, share)| {
        let (without, with) = (of(alone, share), of(shared, share));
        let ratio = figure(Spread::of_ratios(&with, &without), 2);
        vec![name.to_owned(), figure(Spread::of(&without), 1), figure(Spread::of(&with), 1), ratio]
    });
    let mut text = table::draw(&["latency", "alone, ms", "shared load, ms", "ratio"], &rows);
    let sent = |rounds: &[Round], i: usize| rounds.iter().map(|round| round.served[i]).sum::<u64>();
    let share = |rounds: &[Round], i: usize| {
        let all: u64 = (0..ENDPOINTS).map(|i| sent(rounds, i)).sum();
        format!("{:.1}", 100.0 * sent(rounds, i) as f64 / all.max(1) as f64)
    };
    let rows = (0..ENDPOINTS).map(|i| {
        let name = if i == 0 { format!("{i}, {SLOWED} times slower") } else { i.to_string() };
        vec![name, share(alone, i), share(shared, i)]
    });
    text += &format!(
        "\n{}",
        table::draw(&["endpoint", "share alone, %", "share with shared load, %"], &rows.collect::<Vec<_>>())
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_as_dense_as_its_rate_and_the_same_for_the_same_seed() {
        let planned = plan(1, 300.0, 100.0);
        // 30,000 expected; six standard deviations are 1,040.
        assert!((28_960..=31_040).contains(&planned.len()), "{}", planned.len());
        assert!(planned.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(planned.iter().all(|p| (8_000..=12_000).contains(&p.work_us) && p.balancer < BALANCERS));
        let key = |p: &Planned| (p.at.to_bits(), p.balancer, p.work_us);
        assert!(plan(1, 300.0, 100.0).iter().map(key).eq(planned.iter().map(key)));
    }
}
