//! Site of the kernel's planes: network namespaces of a client, of the balancer and of four endpoints, all on this
//! machine. Each balancer starts there for a run.

use crate::balancers::{Algorithm, Balancer, Care, Front, Kernel, Listener, Pool, Running, Setup};
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::hosts::{self, Network, address, gateway};
use crate::http;
use crate::load::{Answered, Load};
use crate::machine;
use crate::origin;
use crate::procfs;
use crate::scratch::Scratch;
use rustix::process::Signal;
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

pub const ENDPOINTS: usize = 4;
/// Number of concurrent connections.
pub const CONNECTIONS: u32 = 50;
/// Host of the balancer, and of clients that connect() balances.
const HUB: usize = 0;
/// Host of the other clients.
const CLIENT: usize = 1;
/// Hosts of endpoints begin here.
const FIRST: usize = 2;
/// Ports of endpoints, a different port for each run. An endpoint remembers connections for a minute, and refuses a new
/// connection with the same ports unless its time stamps are later. Time stamps of another client or balancer need not
/// be later.
const PORTS: RangeInclusive<u16> = 9001..=9500;
/// Port of endpoints at which nothing listens.
const CLOSED: u16 = 9000;
/// Address of the planes in the kernel; no host has it.
const VIRTUAL: Ipv4Addr = Ipv4Addr::new(198, 18, 99, 99);
const FRONT: u16 = 8000;
const FILE: &str = "4k";
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time until a path is open: the kernel takes seconds to verify the programs of eBPF.
const OPENING: Duration = Duration::from_secs(60);
/// Maximum time for an answer before the load, which is asked for again.
const ANSWER: Duration = Duration::from_secs(1);

/// Way of a connection to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Direct,
    /// Through a balancer of this name.
    Through(&'static str, Front, Algorithm),
}

/// Way with its clients and endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    pub name: &'static str,
    pub way: Way,
    /// True if clients run on the balancer's host.
    pub is_local: bool,
    pub endpoints: usize,
}

impl Path {
    pub const fn direct(name: &'static str, is_local: bool) -> Path {
        Path { name, way: Way::Direct, is_local, endpoints: 1 }
    }

    pub const fn proxy(name: &'static str, program: &'static str, front: Front, algorithm: Algorithm) -> Path {
        Path { name, way: Way::Through(program, front, algorithm), is_local: false, endpoints: ENDPOINTS }
    }

    pub const fn nftables(name: &'static str) -> Path {
        let front = Front::Kernel(Kernel { plane: "nftables", attach: None });
        Path::proxy(name, "evenkeel", front, Algorithm::OneDraw)
    }

    /// Path by eBPF at connect().
    pub const fn connect(name: &'static str, algorithm: Algorithm) -> Path {
        Path { is_local: true, ..Path::ebpf(name, "connect", algorithm) }
    }

    /// Path by eBPF where packets arrive.
    pub const fn forward(name: &'static str, algorithm: Algorithm) -> Path {
        Path::ebpf(name, "forward", algorithm)
    }

    const fn ebpf(name: &'static str, attach: &'static str, algorithm: Algorithm) -> Path {
        let front = Front::Kernel(Kernel { plane: "ebpf", attach: Some(attach) });
        Path::proxy(name, "evenkeel", front, algorithm)
    }

    /// Name of the balancer; `None` if there is none.
    pub fn program(&self) -> Option<&'static str> {
        match self.way {
            Way::Direct => None,
            Way::Through(program, ..) => Some(program),
        }
    }

    fn host(&self) -> usize {
        if self.is_local { HUB } else { CLIENT }
    }
}

/// Running site, removed when dropped.
pub struct Site<'s> {
    // Processes end before their namespaces are removed.
    nginx: Vec<Child>,
    network: Network,
    balancers: &'s [Balancer],
    _folders: Vec<Scratch>,
    runs: Cell<u16>,
    _pins: Pins,
}

/// Guard that removes objects of a killed evenkeel from the BPF file system.
struct Pins;

impl Drop for Pins {
    fn drop(&mut self) {
        hosts::remove_pins();
    }
}

impl<'s> Site<'s> {
    /// Lays out the namespaces and starts the endpoints.
    ///
    /// # Errors
    /// This is not root, or a program is missing.
    pub fn start(balancers: &'s [Balancer]) -> Result<Site<'s>> {
        machine::needs_root("network namespaces")?;
        for program in ["ab", "nft", "nginx", "nsenter"] {
            child::find(program)?;
        }
        let network = Network::star(CLIENT + ENDPOINTS)?;
        let (mut nginx, mut folders) = (Vec::new(), Vec::new());
        for host in FIRST..FIRST + ENDPOINTS {
            let folder = Scratch::new()?;
            folder.write(FILE, origin::content(4 << 10))?;
            let lines = format!(
                "  sendfile on;\n  tcp_nopush on;\n  keepalive_timeout 3600s;\n  open_file_cache max=16 inactive=1h;\n  \
                 server {{\n    listen {ip}:{first}-{last} backlog=4096;\n    root {};\n    default_type text/plain;\n  }}\n",
                folder.path().display(),
                ip = address(host),
                first = PORTS.start(),
                last = PORTS.end(),
            );
            nginx.push(origin::start_nginx(network.enter(host)?, folder.path(), 1, &lines, *PORTS.end())?);
            folders.push(folder);
        }
        Ok(Site { nginx, network, balancers, _folders: folders, runs: Cell::new(0), _pins: Pins })
    }

    /// Limits the rate of the last endpoint, in bytes per second; `None` removes the limit.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn limit_last(&self, rate: Option<f64>) -> Result<()> {
        self.network.limit_from(CLIENT + ENDPOINTS, rate)
    }

    /// Process ids of the endpoints' workers.
    pub fn endpoints(&self) -> Vec<u32> {
        self.nginx.iter().flat_map(|nginx| procfs::children_of(nginx.pid())).collect()
    }

    /// Opens a path: starts its balancer, and waits until a request is answered. `refusing`: nothing listens at the
    /// last endpoint.
    ///
    /// # Errors
    /// The balancer does not start, or nothing is answered.
    pub fn open(&self, path: &Path, refusing: bool) -> Result<Open<'_, 's>> {
        let run = self.runs.replace(self.runs.get() + 1);
        let port = PORTS.start() + run % PORTS.len() as u16;
        let mut endpoints: Vec<SocketAddr> =
            (0..path.endpoints).map(|at| SocketAddr::from((address(FIRST + at), port))).collect();
        if let Some(last) = endpoints.last_mut().filter(|_| refusing) {
            last.set_port(CLOSED);
        }
        let (target, running) = match path.way {
            Way::Direct => (endpoints[0], None),
            Way::Through(program, front, algorithm) => {
                let balancer = self.balancers.iter().find(|of| of.name == program);
                let balancer = balancer.ok_or_else(|| Error::Missing(program.into()))?;
                let ip = match front {
                    Front::Kernel(_) => VIRTUAL,
                    _ => gateway(CLIENT).parse().map_err(|_| Error::Wrong("a gateway is not an address".into()))?,
                };
                let bind = SocketAddr::from((ip, FRONT));
                // A plane of the kernel knows no outcomes, so it has no care to switch off.
                let care = if matches!(front, Front::Kernel(_)) { Care::Usual } else { Care::None };
                let setup = Setup {
                    listeners: vec![Listener::to("app", "web", bind, front)],
                    pools: vec![Pool { name: "app", endpoints, algorithm, care, ..Pool::default() }],
                    tuned: true,
                    ..Setup::default()
                };
                (bind, Some(Guard(balancer.start(self.network.enter(HUB)?, setup)?)))
            }
        };
        let open = Open { site: self, host: path.host(), target, running };
        open.await_answer(refusing)?;
        Ok(open)
    }
}

/// Path that is open, until it is dropped.
pub struct Open<'o, 's> {
    site: &'o Site<'s>,
    host: usize,
    target: SocketAddr,
    running: Option<Guard>,
}

/// Balancer that ends without waiting for connections.
struct Guard(Running);

impl Drop for Guard {
    fn drop(&mut self) {
        // The second signal comes when it is dropped.
        self.0.signal(Signal::TERM);
    }
}

impl Open<'_, '_> {
    /// Process ids of the balancer.
    pub fn balancer(&self) -> Vec<u32> {
        self.running.as_ref().map(|running| running.0.pids()).unwrap_or_default()
    }

    /// Sends requests with ApacheBench, on kept connections or on a new connection each.
    ///
    /// # Errors
    /// A request fails.
    pub fn load(&self, requests: u64, connections: u32, kept: bool) -> Result<Answered> {
        let mut command = self.site.network.enter(self.host)?;
        let kept = if kept { " -k" } else { "" };
        let line = format!("-q -r -s 10{kept} -n {requests} -c {connections} http://{}/{FILE}", self.target);
        command.push(child::find("ab")?);
        command.extend(line.split(' ').map(str::to_owned));
        let output = child::output(&command, PATIENCE)?;
        match output.success {
            true => Load::Close(connections).answered(&output.text),
            false => Err(Error::Refused(format!("`{}` failed:\n{}", command.join(" "), output.text.trim()))),
        }
    }

    /// Opens connections in sequence, and keeps them. Returns how many were refused.
    ///
    /// # Errors
    /// A connection is neither accepted nor refused.
    pub fn refused(&self, connects: usize) -> Result<usize> {
        let target = self.target;
        self.site.network.within(self.host, || {
            let (mut held, mut refused) = (Vec::new(), 0);
            for _ in 0..connects {
                match TcpStream::connect_timeout(&target, child::PATIENCE) {
                    Ok(stream) => held.push(stream),
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => refused += 1,
                    Err(error) => return Err(Error::Refused(format!("a connect failed: {error}"))),
                }
            }
            Ok(refused)
        })
    }

    /// Waits for an answer. `refusing`: a connect is enough, so that no more is known of the endpoints.
    fn await_answer(&self, refusing: bool) -> Result<()> {
        let (deadline, target) = (Instant::now() + OPENING, self.target);
        loop {
            let answered = match refusing {
                true => self.refused(1).map(drop),
                false => self.site.network.within(self.host, move || ask(target)),
            };
            match answered {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    let said = self.running.as_ref().map(|running| running.0.last_words()).unwrap_or_default();
                    return Err(Error::Refused(format!("{error}\n{said}")));
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(_) => child::pause(Duration::from_millis(20))?,
            }
        }
    }
}

/// Requests the file once. Not with ab, which tries forever where there is no route yet.
fn ask(target: SocketAddr) -> Result<()> {
    let failed = || format!("cannot connect to {target}");
    let mut stream = TcpStream::connect_timeout(&target, ANSWER).or_say(failed)?;
    stream.set_read_timeout(Some(ANSWER)).or_say(failed)?;
    http::get(&mut stream, &format!("/{FILE}"), "1.0").map(drop)
}
