//! What does a datagram cost? CPU time of evenkeel and of NGINX's stream module for each datagram that they pass on, in
//! rounds that take turns.

use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::experiment::Experiment;
use crate::machine::{Cores, Machine};
use crate::origin;
use crate::procfs::{self, Cpu};
use crate::report::table;
use crate::scratch::Scratch;
use crate::stats::Spread;
use clap::{Args, FromArgMatches};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The row of the registry.
pub static EXPERIMENT: Experiment = Experiment {
    name: "udp-cost",
    summary: "CPU time per datagram of 200 bytes through evenkeel and through NGINX's stream module",
    docs: "Each proxy has one worker on a core of its own before two endpoints that send back what they get. Up to 64 clients send \
at once and wait for their answers: one datagram each, or a burst. The figure is the CPU time of the proxy's processes over \
the datagrams that it passed on, those of both directions. Datagrams that do not come back in time are counted and are in no \
figure. Over loopback nothing is joined on the way in unless its sender joined it, which these clients do not.",
    args: Arguments::augment_args,
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(run),
};

#[derive(Args, Debug)]
struct Arguments {
    /// Rounds of each cell.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Seconds of load in each.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Only these loads: how many clients there are.
    #[arg(long, value_delimiter = ',', value_name = "CLIENTS")]
    only: Vec<usize>,
    /// The evenkeel to measure, or several, which take turns; without it, the one beside this program.
    #[arg(long, value_name = "PATH")]
    evenkeel: Vec<PathBuf>,
}

/// What clients do: how many there are, and what each sends before it waits.
struct Load {
    name: &'static str,
    clients: usize,
    burst: usize,
}

static LOADS: &[Load] = &[
    Load { name: "64 clients, 1 datagram each", clients: 64, burst: 1 },
    // No more at a time than the socket buffers of all parties take.
    Load { name: "16 clients, bursts of 8", clients: 16, burst: 8 },
    Load { name: "1 client, bursts of 32", clients: 1, burst: 32 },
];

const LEN: usize = 200;

/// An answer that comes later than this is lost.
const WAIT: Duration = Duration::from_millis(200);

/// Where Debian keeps it; NGINX itself has none built in.
const STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

fn run(arguments: Arguments) -> Result<()> {
    let given = arguments.evenkeel.iter().map(|path| child::find_evenkeel(Some(path)));
    let mut evenkeels = given.collect::<Result<Vec<_>>>()?;
    if evenkeels.is_empty() {
        evenkeels.push(child::find_evenkeel(None)?);
    }
    let nginx = child::find("nginx")?;
    if !Path::new(STREAM).exists() {
        return Err(Error::Missing("NGINX's stream module (libnginx-mod-stream)".into()));
    }
    let cores = Cores::divide()?;
    println!("datagrams of {LEN} bytes, on {:?}", Machine::this());
    let endpoints = [endpoint()?, endpoint()?];
    let mut proxies = vec![("nginx".to_owned(), Running::nginx(&nginx, endpoints, cores.proxy)?)];
    for (i, evenkeel) in evenkeels.iter().enumerate() {
        let name = if i == 0 { "evenkeel".to_owned() } else { format!("evenkeel {}", i + 1) };
        proxies.push((name, Running::evenkeel(evenkeel, endpoints, cores.proxy)?));
    }
    let mut rows = Vec::new();
    for load in chosen(&arguments.only)? {
        let mut cells = vec![(Vec::new(), 0); proxies.len()];
        for _ in 0..arguments.rounds {
            for ((_, proxy), (runs, lost)) in proxies.iter().zip(&mut cells) {
                let (us, missing) = round(load, proxy, Duration::from_secs(arguments.seconds))?;
                runs.push(us);
                *lost += missing;
            }
        }
        let base = cells[0].0.clone();
        for ((name, _), (runs, lost)) in proxies.iter().zip(cells) {
            let (Some(spread), Some(ratio)) = (Spread::of(&runs), Spread::of_ratios(&runs, &base)) else { continue };
            let each: Vec<String> = runs.iter().map(|us| format!("{us:.2}")).collect();
            rows.push(vec![
                load.name.to_owned(),
                name.clone(),
                format!("{:.2}", spread.median),
                format!("{:.2} ({:.2}..{:.2})", ratio.median, ratio.min, ratio.max),
                lost.to_string(),
                format!("[{}]", each.join(" ")),
            ]);
        }
    }
    print!("\n{}", table::draw(&["load", "proxy", "us/datagram", "of nginx", "lost", "every run"], &rows));
    Ok(())
}

fn chosen(only: &[usize]) -> Result<Vec<&'static Load>> {
    if let Some(unknown) = only.iter().find(|clients| LOADS.iter().all(|load| load.clients != **clients)) {
        let known: Vec<String> = LOADS.iter().map(|load| load.clients.to_string()).collect();
        return Err(Error::Wrong(format!("no load has {unknown} clients; there are {}", known.join(", "))));
    }
    Ok(LOADS.iter().filter(|load| only.is_empty() || only.contains(&load.clients)).collect())
}

/// A proxy that passes datagrams on, until dropped.
struct Running {
    port: u16,
    pids: Vec<u32>,
    _process: Child,
    _folder: Scratch,
}

impl Running {
    fn evenkeel(program: &str, endpoints: [u16; 2], core: usize) -> Result<Running> {
        let [first, second] = endpoints;
        let config = |_: &Path, port: u16| {
            format!(
                "[runtime]\nworkers = 1\n[listener.app]\nbind = [\"127.0.0.1:{port}\"]\nmode = \"udp\"\npool = \"app\"\n\
                 [pool.app]\nendpoints = [\"127.0.0.1:{first}\", \"127.0.0.1:{second}\"]\n"
            )
        };
        let command =
            |_: &Path, config: &Path| [program, "run", "-c", &config.display().to_string()].map(str::to_owned).into();
        Running::start("evenkeel.toml", config, command, core)
    }

    fn nginx(program: &str, endpoints: [u16; 2], core: usize) -> Result<Running> {
        let [first, second] = endpoints;
        let config = |folder: &Path, port: u16| {
            let preamble = origin::nginx_preamble(folder);
            format!(
                "load_module {STREAM};\n{preamble}  access_log off;\n}}\nstream {{\n  access_log off;\n  \
                 upstream app {{ random two least_conn; server 127.0.0.1:{first}; server 127.0.0.1:{second}; }}\n  \
                 server {{ listen 127.0.0.1:{port} udp; proxy_pass app; proxy_timeout 30s; }}\n}}\n"
            )
        };
        let command = |folder: &Path, config: &Path| origin::nginx_command(program.to_owned(), folder, config);
        let mut running = Running::start("nginx.conf", config, command, core)?;
        running.pids = procfs::children_of(running.pids[0]);
        Ok(running)
    }

    fn start(
        name: &str,
        config: impl Fn(&Path, u16) -> String,
        command: impl Fn(&Path, &Path) -> Vec<String>,
        core: usize,
    ) -> Result<Running> {
        let (folder, port) = (Scratch::new()?, open()?.1);
        let config = folder.write(name, config(folder.path(), port))?;
        let said = folder.path().join("said");
        let process = Child::spawn(name, &command(folder.path(), &config), Some(core), &said)?;
        let (client, deadline) = (client(port)?, Instant::now() + Duration::from_secs(10));
        // Only an answer shows that a port is open.
        while client.send(&[0; LEN]).is_err() || client.recv(&mut [0; LEN]).is_err() {
            if process.has_ended() || Instant::now() > deadline {
                return Err(Error::Wrong(format!("{name} passes nothing on:\n{}", child::last_words(&said))));
            }
            child::pause(Duration::from_millis(20))?;
        }
        Ok(Running { port, pids: vec![process.pid()], _process: process, _folder: folder })
    }
}

/// CPU time of each datagram passed on, in microseconds, and how many were lost.
fn round(load: &Load, proxy: &Running, time: Duration) -> Result<(f64, u64)> {
    let clients = (0..load.clients).map(|_| client(proxy.port)).collect::<Result<Vec<_>>>()?;
    // Flows begin outside the measured time.
    exchange(&clients, 1);
    let (before, began) = (Cpu::of(&proxy.pids)?, Instant::now());
    let (mut answered, mut lost) = (0, 0);
    while began.elapsed() < time {
        child::go_on()?;
        let back = exchange(&clients, load.burst);
        answered += back;
        lost += (load.clients * load.burst) as u64 - back;
    }
    let used = Cpu::of(&proxy.pids)?.since(&before);
    if answered < 1000 {
        return Err(Error::Refused(format!("only {answered} datagrams came back")));
    }
    // There and back.
    Ok((used.time.as_secs_f64() * 1e6 / (2 * answered) as f64, lost))
}

/// Each client sends a burst and waits for it: how many came back.
fn exchange(clients: &[UdpSocket], burst: usize) -> u64 {
    let mut back = 0;
    for client in clients {
        // One that is not taken is one that does not come back.
        (0..burst).for_each(|_| _ = client.send(&[7; LEN]));
    }
    for client in clients {
        back += (0..burst).map_while(|_| client.recv(&mut [0; LEN]).ok()).filter(|len| *len == LEN).count() as u64;
    }
    back
}

/// A socket, and its port, which was free for datagrams; of a port that is free for TCP one knows nothing.
fn open() -> Result<(UdpSocket, u16)> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_say(|| "cannot bind a socket".into())?;
    let port = socket.local_addr().or_say(|| "cannot read a port".into())?.port();
    Ok((socket, port))
}

fn client(port: u16) -> Result<UdpSocket> {
    let (socket, _) = open()?;
    socket.connect(("127.0.0.1", port)).or_say(|| format!("cannot connect to port {port}"))?;
    socket.set_read_timeout(Some(WAIT)).or_say(|| "cannot set a timeout".into())?;
    Ok(socket)
}

/// Sends back what it gets, as long as this process runs: its port.
fn endpoint() -> Result<u16> {
    let (socket, port) = open()?;
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        loop {
            // A proxy that went away says so here; the next datagram is of another one.
            if let Ok((len, from)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..len], from);
            }
        }
    });
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back_and_what_is_lost_is_seen() {
        let clients = [client(endpoint().expect("a port")).expect("a client")];
        assert_eq!(exchange(&clients, 5), 5);
        let silent = UdpSocket::bind("127.0.0.1:0").and_then(|s| Ok((s.local_addr()?.port(), s))).expect("a port");
        assert_eq!(exchange(&[client(silent.0).expect("a client")], 1), 0);
    }
}
