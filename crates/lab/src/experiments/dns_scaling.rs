//! Does a second DNS worker answer as much as the first? On a machine where the workers have all cores, so that no
//! generator may run beside them.

use super::dns_cost::{self, Setting};
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::machine::Machine;
use crate::origin;
use crate::procfs;
use crate::report::table;
use crate::scratch::Scratch;
use crate::stats::Spread;
use clap::{Args, FromArgMatches};
use rustix::process::Signal;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "dns-scaling",
    summary: "answers a second of one DNS worker and of two, while nothing else runs",
    docs: "On two cores a generator takes from a second worker what that would add. Here it never runs beside them: queries \
are sent while evenkeel is stopped (SIGSTOP) and wait in its sockets; then it runs, while the generator sleeps, until all are \
answered. The rate is the number of answers over the CPU time of the worker that was busy longest: one worker has one core, \
two have two. This shows whether workers share the work evenly and whether they get in each other's way, in evenkeel and in \
the kernel; it does not show more than two, network cards, or the small batches of a server that waits for work.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Rounds; both numbers of workers in each.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=200))]
    rounds: u8,
    /// The evenkeel to measure; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

/// Clients, whose ports the kernel spreads over the workers' sockets by a hash: with so many, evenly enough.
const CLIENTS: usize = 256;

/// Queries of each that wait: for each worker less than its socket holds.
const EACH: usize = 32;

/// Time to answer them all in, with much to spare. Nothing else may run in it.
const QUIET: Duration = Duration::from_millis(200);

/// A server and its clients.
struct Asked {
    process: Child,
    clients: Vec<UdpSocket>,
    _folder: Scratch,
}

impl Asked {
    fn start(program: &str, workers: u8, cores: &[usize]) -> Result<Asked> {
        let folder = Scratch::new()?;
        let port = origin::free_ports()?[0];
        let own = dns_cost::evenkeel(&Setting { folder: &folder, port, evenkeel: program }, workers)?;
        let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
        let command = [vec![child::find("taskset")?, "-c".into(), cores.join(",")], own].concat();
        let said = folder.path().join("said");
        let process = Child::spawn("evenkeel", &command, None, &said)?;
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        origin::await_listening("evenkeel", &process, to, &said)?;
        let client = |_| {
            let socket = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.connect(to).map(|()| s));
            socket.and_then(|s| s.set_nonblocking(true).map(|()| s)).or_say(|| "cannot ask".into())
        };
        let clients = (0..CLIENTS).map(client).collect::<Result<_>>()?;
        Ok(Asked { process, clients, _folder: folder })
    }

    /// Answers for each second that the busiest worker was busy.
    fn rate(&self, query: &[u8]) -> Result<f64> {
        self.process.signal(Signal::STOP);
        // What was running has stopped.
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

    /// Takes the answers that have come, and returns how many.
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

fn run(arguments: Arguments) -> Result<()> {
    let program = child::find_evenkeel(arguments.evenkeel.as_deref())?;
    let allowed = rustix::thread::sched_getaffinity(None).or_say(|| "cannot ask for the allowed cores".into())?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let [.., one, two] = cores[..] else {
        return Err(Error::Wrong("two cores are needed, one for each worker".into()));
    };
    let query = query("www.gslb.example.com");
    println!("{} rounds, on {:?}", arguments.rounds, Machine::this());
    // All that run at once would run beside each other: one server is idle while the other is asked.
    let asked = [Asked::start(&program, 1, &[two])?, Asked::start(&program, 2, &[one, two])?];
    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..arguments.rounds {
        for ((asked, rates), name) in asked.iter().zip(&mut rates).zip(["1 worker", "2 workers"]) {
            let rate = asked.rate(&query)?;
            println!("round {round}: {name}: {rate:.0} answers a second");
            rates.push(rate);
        }
    }
    let rows = ["1", "2"].into_iter().zip(&rates).map(|(workers, rates)| {
        let rate = Spread::of(rates).map(|s| format!("{:.0} ({:.0}..{:.0})", s.median, s.min, s.max));
        vec![workers.to_owned(), rate.unwrap_or_default()]
    });
    print!("\n{}", table::draw(&["workers", "answers/s"], &rows.collect::<Vec<_>>()));
    let [one, two] = rates.map(|rates| Spread::of(&rates).map_or(f64::NAN, |s| s.median));
    println!("two workers / one: {:.2}", two / one);
    Ok(())
}

/// A query for the addresses of a name.
fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}
