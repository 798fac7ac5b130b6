//! An evenkeel with a pool of some sites in front of which is one plane.

use super::plane::{Answer, PATIENT, Plane};
use crate::support::{Folder, Running, address, eventually, get};
use rustix::process::Signal;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Names of endpoints, so that their places in keyed tables are the same in each run.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// Workers, and threads that answer DNS: each goes around by itself.
pub const WORKERS: usize = 2;

pub struct Setup {
    pub plane: &'static dyn Plane,
    pub addrs: [SocketAddr; 3],
    listen: SocketAddr,
    admin: String,
    running: Running,
    folder: Folder,
    asked: AtomicU32,
}

/// Three addresses that differ in more than the port, as DNS tells no ports.
pub fn addresses() -> [SocketAddr; 3] {
    let first: SocketAddr = address().parse().expect("an address");
    let IpAddr::V4(ip) = first.ip() else { unreachable!("it is of IPv4") };
    let [a, b, c, d] = ip.octets();
    [0, 1, 2].map(|n| (Ipv4Addr::new(a, b ^ (n << 4), c, d), first.port()).into())
}

/// A configuration with this pool; its endpoints are left to fill in.
fn config(plane: &dyn Plane, listen: SocketAddr, admin: &str, pool: &str) -> String {
    format!(
        "[runtime]\nworkers = {WORKERS}\n[admin]\nhttp = {{ bind = '{admin}' }}\n\
         [listener.web]\nbind = ['{listen}']\n{}\n[pool.web]\n{pool}\n",
        plane.listener()
    )
}

/// Endpoints of a pool: the key with those that are named, each with its own keys.
pub fn endpoints(addrs: &[SocketAddr; 3], of: &[(usize, &str)]) -> String {
    let one = |(i, more): &(usize, &str)| format!("{{ addr = '{}', name = '{}', {more} }}", addrs[*i], NAMES[*i]);
    format!("endpoints = [{}]", of.iter().map(one).collect::<Vec<_>>().join(", "))
}

impl Setup {
    pub fn start(plane: &'static dyn Plane, addrs: [SocketAddr; 3], pool: &str) -> Setup {
        let (listen, admin) = (address(), address());
        let folder = Folder::new(&format!("planes-{}", listen.replace(':', "-")));
        let listen = listen.parse().expect("an address");
        let file = folder.file("evenkeel.toml", &config(plane, listen, &admin, pool));
        let running = Running::start(&["run", "-c", &file]);
        Setup { plane, addrs, listen, admin, running, folder, asked: AtomicU32::new(0) }
    }

    /// Reloads with another pool, and waits until it is in use.
    pub fn reload(&self, pool: &str) {
        let before = self.sum("evenkeel_config_generation ");
        self.folder.file("evenkeel.toml", &config(self.plane, self.listen, &self.admin, pool));
        self.running.signal(Signal::HUP);
        eventually("a new plan", || (self.sum("evenkeel_config_generation ") > before).then_some(()));
    }

    /// The sum of all series whose lines begin so.
    pub fn sum(&self, begin: &str) -> f64 {
        let (_, metrics) = get(&self.admin, "/metrics").expect("the admin listener answers");
        let lines = metrics.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Value of a series of an endpoint.
    pub fn of(&self, family: &str, endpoint: usize, more: &str) -> f64 {
        self.sum(&format!("{family}{{pool=\"web\",endpoint=\"{}\",{more}", NAMES[endpoint]))
    }

    pub fn is_up(&self, endpoint: usize) -> bool {
        self.of("evenkeel_endpoint_state", endpoint, "state=\"up\"") == 1.0
    }

    /// Waits until an endpoint is up, or is not.
    #[track_caller]
    pub fn becomes(&self, endpoint: usize, up: bool) {
        let what = format!("{}: {} {}up", self.plane.name(), NAMES[endpoint], if up { "" } else { "not " });
        eventually(&what, || (self.is_up(endpoint) == up).then_some(()));
    }

    /// Effective weight of an endpoint.
    pub fn weight(&self, endpoint: usize) -> f64 {
        self.of("evenkeel_endpoint_weight", endpoint, "kind=\"effective\"")
    }

    /// A question of a client in a network of its own, so that whoever goes by clients sees as many as there are
    /// questions.
    pub fn ask_for(&self, patience: Duration) -> Answer {
        let [_, _, high, low] = self.asked.fetch_add(1, SeqCst).to_be_bytes();
        self.plane.ask(Ipv4Addr::new(127, 64 | high, low, 1), self.listen, patience)
    }

    /// Asks once, and returns the index of the endpoint that answers.
    #[track_caller]
    pub fn ask(&self) -> usize {
        let answer = self.ask_for(PATIENT);
        self.endpoint(answer).unwrap_or_else(|| panic!("{}: {answer:?}\n{}", self.plane.name(), self.running.said()))
    }

    pub fn endpoint(&self, answer: Answer) -> Option<usize> {
        self.addrs.iter().position(|addr| answer == Answer::Of(addr.ip()))
    }

    /// Asks `n` times, and returns the number of questions that each endpoint got.
    #[track_caller]
    pub fn counts(&self, n: usize) -> [usize; 3] {
        let mut counts = [0; 3];
        (0..n).for_each(|_| counts[self.ask()] += 1);
        counts
    }

    /// Waits until just these endpoints get questions.
    #[track_caller]
    pub fn serves(&self, of: &[usize]) {
        let counts = self.counts(30);
        let seen: Vec<usize> = (0..3).filter(|i| counts[*i] > 0).collect();
        assert_eq!(seen, of, "{}: {counts:?}", self.plane.name());
    }
}
