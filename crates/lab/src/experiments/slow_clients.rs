//! What do slow clients cost the others, and how much memory do they take? Thousands of them in each state that a
//! connection can be in, and one more client that is not slow.

use crate::child;
use crate::error::{Error, Result, While};
use crate::evenkeel::{self, Running};
use crate::experiment::Experiment;
use crate::http;
use crate::machine::{self, Cores, Machine};
use crate::origin::Origin;
use crate::procfs::{self, Cpu};
use crate::report::table;
use crate::stats::Spread;
use clap::{Args, FromArgMatches};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "slow-clients",
    summary: "What thousands of slow clients cost one that is not, and the memory of a connection in each state",
    docs: "Starts evenkeel with one worker on a core of its own and opens connections that stay in one state: a head that \
never ends, a body that never comes, a response that is not read, an endpoint that thinks, or nothing at all. One more \
client asks for 1 kB over and over, before and during that. Memory is the growth of evenkeel's resident memory over the \
connections, each round in a fresh process; what the kernel holds in socket buffers and pipes is not in it. On a shared \
machine the 99th percentile moves by itself: the rounds show by how much.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Slow connections in each state.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    connections: u64,
    /// Rounds of each state.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Seconds of questions, before and during.
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The evenkeel to measure; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

/// A state that a client can keep its connection in.
struct State {
    name: &'static str,
    /// What it sends; `None`: it asks for 1 kB, reads it and stays.
    sends: Option<fn() -> String>,
}

const HOST: &str = "Host: lab.test\r\n";

static STATES: &[State] = &[
    State { name: "idle", sends: None },
    State { name: "head, 100 bytes of it", sends: Some(|| part_of_head(100)) },
    State { name: "head, 15 KiB of it", sends: Some(|| part_of_head(15 << 10)) },
    State { name: "body due, endpoint waits", sends: Some(part_of_body) },
    State { name: "endpoint thinks", sends: Some(|| format!("GET /silent/ HTTP/1.1\r\n{HOST}\r\n")) },
    State { name: "1 MiB not read", sends: Some(|| format!("GET /1m HTTP/1.1\r\n{HOST}\r\n")) },
];

fn part_of_head(len: usize) -> String {
    let begin = format!("GET / HTTP/1.1\r\n{HOST}A: ");
    format!("{begin}{}", "b".repeat(len.saturating_sub(begin.len())))
}

fn part_of_body() -> String {
    format!("POST /silent/ HTTP/1.1\r\n{HOST}Content-Length: 1000000\r\n\r\n{}", "x".repeat(1000))
}

/// One round of one state.
struct Round {
    quiet_us: f64,
    during_us: f64,
    kib: f64,
}

fn run(arguments: Arguments) -> Result<()> {
    let program = child::find_evenkeel(arguments.evenkeel.as_deref())?;
    let cores = Cores::divide()?;
    // A connection to the silent endpoint has two of its ends here, and another two at evenkeel, which inherits the
    // limit.
    let allowed = machine::allow_files(4 * arguments.connections + 1000);
    if allowed < 3 * arguments.connections {
        return Err(Error::Wrong(format!("only {allowed} files may be open; lower --connections")));
    }
    let machine = Machine::this();
    println!("{} connections in each state, on {machine:?}", arguments.connections);
    let origin = Origin::start()?;
    let silent = silent_endpoint()?;
    let mut rows = Vec::new();
    for state in STATES {
        let mut rounds = Vec::new();
        for _ in 0..arguments.rounds {
            let evenkeel = evenkeel::start(&program, &config(&origin, silent), Some(cores.proxy))?;
            rounds.push(round(state, &evenkeel, &arguments)?);
        }
        let figure = |of: fn(&Round) -> f64, digits: usize| {
            let spread = Spread::of(&rounds.iter().map(of).collect::<Vec<_>>());
            spread
                .map_or_else(String::new, |s| format!("{:.digits$} ({:.digits$}..{:.digits$})", s.median, s.min, s.max))
        };
        let ratio = figure(|r| r.during_us / r.quiet_us, 2);
        rows.push(vec![
            state.name.to_owned(),
            figure(|r| r.quiet_us, 0),
            figure(|r| r.during_us, 0),
            ratio,
            figure(|r| r.kib, 2),
        ]);
    }
    let header = ["state", "p99 quiet, us", "p99 during, us", "ratio", "KiB/connection"];
    print!("\n{}", table::draw(&header, &rows));
    Ok(())
}

/// A configuration with timeouts so long that every connection stays as it is.
fn config(origin: &Origin, silent: u16) -> String {
    let [first, second] = origin.ports;
    format!(
        "[runtime]\nworkers = 1\n[defaults.timeouts]\nclient_header = \"1h\"\nclient_body = \"1h\"\nresponse = \"1h\"\n\
         [listener.web]\nbind = [\"127.0.0.1:$PORT\"]\n[[route]]\npool = \"app\"\n\
         [[route]]\nmatch = {{ path = \"/silent/{{*rest}}\" }}\npool = \"silent\"\n\
         [pool.app]\nendpoints = [\"127.0.0.1:{first}\", \"127.0.0.1:{second}\"]\n\
         [pool.silent]\nendpoints = [\"127.0.0.1:{silent}\"]\n"
    )
}

fn round(state: &State, evenkeel: &Running, arguments: &Arguments) -> Result<Round> {
    let mut asking = http::connect(evenkeel.port)?;
    let time = Duration::from_secs(arguments.seconds);
    percentile_us(&mut asking, time / 4)?;
    let quiet_us = percentile_us(&mut asking, time)?;
    let before = procfs::resident_bytes(evenkeel.pid)?;
    let mut slow = Vec::new();
    for _ in 0..arguments.connections {
        child::go_on()?;
        let mut stream = http::connect(evenkeel.port)?;
        match state.sends {
            Some(sends) => stream.write_all(sends().as_bytes()).or_say(|| "cannot send".into())?,
            None => drop(http::get(&mut stream, "/1k", "1.1")?),
        }
        slow.push(stream);
    }
    settle(evenkeel.pid)?;
    let during_us = percentile_us(&mut asking, time)?;
    let grown = procfs::resident_bytes(evenkeel.pid)?.saturating_sub(before);
    Ok(Round { quiet_us, during_us, kib: grown as f64 / 1024.0 / slow.len() as f64 })
}

/// Waits until evenkeel has nothing more to do: filling the buffers of thousands of clients takes its time too.
fn settle(pid: u32) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let before = Cpu::of(&[pid])?;
        child::pause(Duration::from_millis(200))?;
        if Cpu::of(&[pid])?.scheduled - before.scheduled < Duration::from_millis(10) || Instant::now() > deadline {
            return Ok(());
        }
    }
}

/// The 99th percentile of a closed loop of one client, in microseconds.
pub(super) fn percentile_us(stream: &mut TcpStream, time: Duration) -> Result<f64> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let asked = Instant::now();
        http::get(stream, "/1k", "1.1")?;
        took.push(asked.elapsed());
    }
    took.sort_unstable();
    Ok(took.get(took.len() * 99 / 100).map_or(0.0, |t| t.as_secs_f64() * 1e6))
}

/// An endpoint that accepts and never answers, as long as this process runs.
pub(super) fn silent_endpoint() -> Result<u16> {
    let doing = || "cannot listen".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").or_say(doing)?;
    let port = listener.local_addr().or_say(doing)?.port();
    std::thread::spawn(move || {
        // Kept, so that they stay open.
        let _kept: Vec<TcpStream> = listener.incoming().flatten().collect();
    });
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_but_the_idle_one_is_one_that_waits() {
        for state in STATES {
            let Some(sends) = state.sends else { continue };
            let text = sends();
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            assert!(head.starts_with("GET /") || head.starts_with("POST /"), "{}", state.name);
            assert_eq!(body.is_empty(), !head.starts_with("POST"), "{}", state.name);
        }
        assert_eq!(part_of_head(100).len(), 100);
    }
}
