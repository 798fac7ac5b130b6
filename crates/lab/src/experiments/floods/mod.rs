//! What do attackers cost the others, and do they get what they are after? Floods of frames of HTTP/2, and handshakes of TLS
//! that come to nothing, beside one client that only asks.

mod attacker;
mod attacks;

use super::slow_clients::{percentile_us, silent_endpoint};
use crate::child;
use crate::error::{Error, Result, While};
use crate::evenkeel;
use crate::experiment::Experiment;
use crate::http;
use crate::machine::{self, Cores, Machine};
use crate::origin::{self, Origin};
use crate::procfs;
use crate::report::table;
use crate::scratch::Scratch;
use crate::stats::Spread;
use attacker::Attackers;
use attacks::Attack;
use clap::{Args, FromArgMatches};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "floods",
    summary: "What attackers over HTTP/2 and TLS cost another client, and the memory of an attacking connection",
    docs: "Starts evenkeel with one worker on a core of its own. A client asks for 1 kB over HTTP/1.1, over and over, in turns \
alone and beside attackers, who use what the client leaves of the core of the load: rapid resets, floods of each kind of frame, heads without an end, heads \
that unpack to many megabytes, windows that stay closed, responses that are not read, handshakes that stay half. An attacker \
whose connection is ended opens the next one at once. Told are the client's 99th percentile beside that of its quiet turns, the \
growth of evenkeel's resident memory for each attacking connection, how many connections were ended, and by how much the counter \
moved that is to show the attack.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Only the attacks whose name has one of these words in it.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    only: Vec<String>,
    /// Attacking connections at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// Rounds of each attack: a quiet turn, then one beside it.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Seconds of a turn.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Also writes the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The evenkeel to measure; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Option<PathBuf>,
}

/// What an attack did, round by round.
#[derive(Default)]
struct Done {
    quiet_us: Vec<f64>,
    beside_us: Vec<f64>,
    kib: Vec<f64>,
    opened: u64,
    cut: u64,
    counted: f64,
}

fn run(arguments: Arguments) -> Result<()> {
    let program = child::find_evenkeel(arguments.evenkeel.as_deref())?;
    let cores = Cores::divide()?;
    machine::allow_files(4 * arguments.connections + 1000);
    let chosen: Vec<&'static Attack> = attacks::ALL
        .iter()
        .filter(|attack| arguments.only.is_empty() || arguments.only.iter().any(|word| attack.name.contains(&**word)))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = attacks::ALL.iter().map(|attack| attack.name).collect();
        return Err(Error::Wrong(format!("--only leaves no attack; there are: {}", names.join(", "))));
    }
    println!("{} attacking connections at a time, on {:?}", arguments.connections, Machine::this());
    let (origin, silent, folder) = (Origin::start()?, silent_endpoint()?, Scratch::new()?);
    if !prefer_the_client() {
        println!(
            "chrt cannot give the client its core first: what follows includes how long it waits for the attackers"
        );
    }
    let certificate = chosen.iter().any(|attack| attack.tls).then(|| make_certificate(&folder)).transpose()?;
    let mut all = Vec::new();
    for attack in chosen {
        let [tls_port, admin] = origin::free_ports()?;
        let tls = certificate.as_deref().filter(|_| attack.tls);
        let config = config(&origin, silent, admin, tls.map(|tables| (tables, tls_port)));
        let evenkeel = evenkeel::start(&program, &config, Some(cores.proxy))?;
        let mut done = Done::default();
        for _ in 0..arguments.rounds {
            let port = if attack.tls { tls_port } else { evenkeel.port };
            round(attack, &evenkeel, port, admin, &arguments, &mut done)
                .map_err(|error| Error::Refused(format!("{}: {error}", attack.name)))?;
        }
        all.push((attack, done));
    }
    print!("\n{}", text(&all));
    if let Some(path) = &arguments.json {
        let report = json!({ "attacks": all.iter().map(|(attack, done)| one_json(attack, done)).collect::<Vec<_>>() });
        std::fs::write(path, format!("{report:#}\n")).or_say(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Has the kernel run this thread, which is the client, and the endpoint before all attackers, who share their core. Threads that
/// are started later run as usual.
fn prefer_the_client() -> bool {
    let Ok(chrt) = child::find("chrt") else { return false };
    let nginx = procfs::children_of(std::process::id());
    let workers = nginx.iter().flat_map(|&pid| procfs::children_of(pid));
    let preferred: Vec<u32> = nginx.iter().copied().chain(workers).chain([std::process::id()]).collect();
    let first = |pid: u32| {
        let command = ["--reset-on-fork", "--fifo", "--pid", "10"].map(str::to_owned);
        let command = [vec![chrt.clone()], command.to_vec(), vec![pid.to_string()]].concat();
        child::output(&command, Duration::from_secs(10)).is_ok_and(|output| output.success)
    };
    preferred.into_iter().all(first)
}

fn round(
    attack: &'static Attack,
    evenkeel: &evenkeel::Running,
    port: u16,
    admin: u16,
    arguments: &Arguments,
    done: &mut Done,
) -> Result<()> {
    let mut asking = http::connect(evenkeel.port)?;
    let time = Duration::from_secs(arguments.seconds);
    percentile_us(&mut asking, time / 4)?;
    done.quiet_us.push(percentile_us(&mut asking, time)?);
    let (memory, counted) = (procfs::resident_bytes(evenkeel.pid)?, counter(admin, attack)?);
    let attackers = Attackers::start(attack, port, arguments.connections);
    let beside = percentile_us(&mut asking, time);
    let (grown, moved) =
        (procfs::resident_bytes(evenkeel.pid)?.saturating_sub(memory), counter(admin, attack)? - counted);
    let met = attackers.met();
    attackers.stop();
    done.beside_us.push(beside?);
    done.kib.push(grown as f64 / 1024.0 / arguments.connections as f64);
    done.opened += met.opened;
    done.cut += met.cut;
    done.counted += moved;
    // A new client is served as before.
    http::get(&mut http::connect(evenkeel.port)?, "/1k", "1.1").map(drop)
}

/// The sum of the series that count an attack.
fn counter(admin: u16, attack: &Attack) -> Result<f64> {
    let metrics = http::get(&mut http::connect(admin)?, "/metrics", "1.1")?;
    Ok(sum(&String::from_utf8_lossy(&metrics), attack.counted))
}

fn sum(metrics: &str, (name, labels): (&str, &[&str])) -> f64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| rest.starts_with(['{', ' ']));
    let lines = lines.filter(|rest| labels.iter().all(|label| rest.contains(label)));
    lines.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

fn config(origin: &Origin, silent: u16, admin: u16, tls: Option<(&str, u16)>) -> String {
    let [first, second] = origin.ports;
    let tls = tls.map_or(String::new(), |(tables, port)| {
        format!("[listener.tls]\nbind = [\"127.0.0.1:{port}\"]\n[listener.tls.tls]\n{tables}\n")
    });
    format!(
        "[runtime]\nworkers = 1\n[admin]\nhttp = {{ bind = \"127.0.0.1:{admin}\" }}\n\
         [listener.web]\nbind = [\"127.0.0.1:$PORT\"]\nh2c = true\n{tls}\
         [[route]]\npool = \"app\"\n[[route]]\nmatch = {{ path = \"/silent/{{*rest}}\" }}\npool = \"silent\"\n\
         [pool.app]\nendpoints = [\"127.0.0.1:{first}\", \"127.0.0.1:{second}\"]\n\
         [pool.silent]\nendpoints = [\"127.0.0.1:{silent}\"]\n"
    )
}

/// Makes a certificate; the keys of a listener that name it.
fn make_certificate(folder: &Scratch) -> Result<String> {
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let fixed = "req -x509 -nodes -days 30 -subj /CN=lab.test -newkey ec -pkeyopt ec_paramgen_curve:P-256";
    let mut command = vec![child::find("openssl")?];
    command.extend(fixed.split(' ').map(str::to_owned));
    command.extend(["-keyout".into(), key.clone(), "-out".into(), cert.clone()]);
    let output = child::output(&command, Duration::from_secs(60))?;
    if !output.success {
        return Err(Error::Wrong(format!("`{}` failed:\n{}", command.join(" "), output.text.trim())));
    }
    Ok(format!("certificates = [{{ cert = \"{cert}\", key = \"{key}\" }}]"))
}

fn figure(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(String::new, |s| format!("{:.digits$} ({:.digits$}..{:.digits$})", s.median, s.min, s.max))
}

fn text(all: &[(&Attack, Done)]) -> String {
    let row = |(attack, done): &(&Attack, Done)| {
        vec![
            attack.name.to_owned(),
            figure(Spread::of(&done.quiet_us), 0),
            figure(Spread::of(&done.beside_us), 0),
            figure(Spread::of_ratios(&done.beside_us, &done.quiet_us), 2),
            figure(Spread::of(&done.kib), 1),
            done.opened.to_string(),
            done.cut.to_string(),
            format!("{:.0}", done.counted),
        ]
    };
    let header =
        ["attack", "p99 quiet, us", "p99 beside it, us", "ratio", "KiB/connection", "opened", "ended", "counted"];
    table::draw(&header, &all.iter().map(row).collect::<Vec<_>>())
}

fn one_json(attack: &Attack, done: &Done) -> Value {
    json!({
        "name": attack.name,
        "floods": attack.again.is_some(),
        "p99_quiet_us": done.quiet_us,
        "p99_beside_us": done.beside_us,
        "kib_per_connection": done.kib,
        "connections": { "opened": done.opened, "ended": done.cut },
        "counted": done.counted,
    })
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn series_of_an_attack_are_added() {
        let metrics = "x_total{kind=\"a\",l=\"1\"} 3\nx_total{kind=\"b\",l=\"1\"} 4\nx_total_more{kind=\"a\"} 9\nx_total{kind=\"a\"} 1\ny 5\n";
        assert_eq!(sum(metrics, ("x_total", &["\"a\""])), 4.0);
        assert_eq!(sum(metrics, ("x_total", &[])), 8.0);
        assert_eq!(sum(metrics, ("y", &[])), 5.0);
    }
}
