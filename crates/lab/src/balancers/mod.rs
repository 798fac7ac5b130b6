//! Balancers that the lab compares: a row of [`KINDS`] and a file each, which writes a [`Setup`] as the program's
//! configuration, and runs, reloads and queries it. Experiments describe the task of a balancer, never the
//! configuration of a program.

// Order: bare, envoy, evenkeel, haproxy, nginx, sink, varnish, kind, maps, setup
mod bare;
mod envoy;
mod evenkeel;
mod haproxy;
mod kind;
pub mod maps;
mod nginx;
mod setup;
mod sink;
mod varnish;

use crate::child::{self, Child, PATIENCE};
use crate::error::{Error, Result, While};
use crate::hosts::listens;
use crate::http;
use crate::machine;
use crate::procfs;
use crate::scratch::Scratch;
use crate::study::{Options, Versions};
use kind::{Kind, Site};
use rustix::process::Signal;
use sink::Sink;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub use kind::Reload;
pub use nginx::STREAM_MODULE;
pub use setup::{
    Algorithm, Back, Care, Front, Kernel, Keys, Lasts, Listener, Pool, Reuse, Route, Setup, Timeouts, Zone,
};

/// All kinds, in the order of tables.
pub static KINDS: &[Kind] = &[
    evenkeel::KIND,
    haproxy::KIND,
    haproxy::SPLICING,
    nginx::KIND,
    nginx::OFFLOADING,
    envoy::KIND,
    varnish::KIND,
    bare::KIND,
];

/// Name of the balancer that the others are compared with.
pub const OURS: &str = evenkeel::KIND.name;

/// Usual balancers to compare it with.
pub const RIVALS: [&str; 3] = ["haproxy", "nginx", "envoy"];

/// Name of another HAProxy, whose command is in the environment variable `HAPROXY_BIN`.
pub const OTHER: &str = "haproxy-other";

/// Balancer program on this machine.
pub struct Balancer {
    pub name: &'static str,
    /// Row of its kind; two programs may share a kind.
    pub kind: &'static Kind,
    version: String,
    command: Vec<String>,
}

/// Finds the balancers of an experiment: evenkeel, and the `known` balancers that the options ask for. A balancer that
/// is not installed is left out, with a message on standard error.
///
/// # Errors
/// If any is unknown, or evenkeel is missing.
pub fn find(options: &Options, known: &[&str]) -> Result<(Vec<Balancer>, Versions)> {
    options.beside(&known.iter().copied().filter(|name| *name != OTHER).collect::<Vec<_>>())?;
    let wanted = |name: &str| known.contains(&name) && options.against.iter().any(|wanted| wanted == name);
    let mut found = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.name == OURS || wanted(kind.name)) {
        match kind.find(options.evenkeel.as_deref()) {
            Ok(program) => found.push(Balancer::new(kind.name, kind, vec![program])?),
            Err(error @ Error::Missing(_)) => eprintln!("left out: {error}"),
            Err(error) => return Err(error),
        }
        if kind.name == haproxy::KIND.name && known.contains(&OTHER) {
            let words = std::env::var("HAPROXY_BIN").unwrap_or_default();
            let words: Vec<String> = words.split_ascii_whitespace().map(str::to_owned).collect();
            match &words[..] {
                [] => {}
                [one] if !Path::new(one).is_file() => {
                    return Err(Error::Wrong(format!("HAPROXY_BIN is `{one}`, which is no file")));
                }
                _ => found.push(Balancer::new(OTHER, kind, words)?),
            }
        }
    }
    let versions = found.iter().map(Balancer::named_version).collect();
    Ok((found, versions))
}

/// Finds evenkeel: the given program, or the program next to this.
///
/// # Errors
/// If it is missing.
pub fn find_evenkeel(given: Option<&Path>) -> Result<Balancer> {
    Balancer::new(OURS, &KINDS[0], vec![KINDS[0].find(given)?])
}

impl Kind {
    fn find(&self, evenkeel: Option<&Path>) -> Result<String> {
        match self.program {
            OURS => child::find_evenkeel(evenkeel),
            "evenkeel-lab" => child::this(),
            program => child::find(program),
        }
    }

    /// Writes its files, each atomically, and returns the path of the file for the command line.
    fn write(&self, site: &Site) -> Result<String> {
        let files = (self.files)(site)?;
        for (name, text) in &files {
            let (path, new) = (site.file(name), site.file(&format!("{name}.new")));
            fs::write(&new, text).or_say(|| format!("cannot write {}", new.display()))?;
            fs::rename(&new, &path).or_say(|| format!("cannot write {}", path.display()))?;
        }
        Ok(site.file(files[0].0).display().to_string())
    }
}

/// Concatenated files of a kind.
#[cfg(test)]
pub fn written(kind: &str, setup: &Setup) -> std::result::Result<String, kind::Cannot> {
    let kind = KINDS.iter().find(|known| known.name == kind).expect("a row of KINDS");
    let files = (kind.files)(&Site { folder: Path::new("folder"), setup, log_port: 4 })?;
    Ok(files.into_iter().map(|(_, text)| text).collect())
}

impl Balancer {
    fn new(name: &'static str, kind: &'static Kind, command: Vec<String>) -> Result<Balancer> {
        let version = machine::version(&command, kind.version_flag)?;
        Ok(Balancer { name, kind, version, command })
    }

    /// Name and version of the balancer.
    pub fn named_version(&self) -> (String, String) {
        (self.name.to_owned(), self.version.clone())
    }

    /// Path of the program that runs.
    pub fn program(&self) -> &str {
        self.command.last().map_or("", String::as_str)
    }

    /// Starts it and waits until it listens. `at`: command prefix, for a core or a namespace.
    ///
    /// # Errors
    /// If it cannot run this setup, or does not listen.
    pub fn start(&self, at: Vec<String>, setup: Setup) -> Result<Running> {
        let running = self.spawn(at, setup)?;
        running.await_listening(PATIENCE)?;
        Ok(running)
    }

    /// Starts it without waiting.
    ///
    /// # Errors
    /// If it cannot run this setup, or cannot be started.
    pub fn spawn(&self, mut at: Vec<String>, setup: Setup) -> Result<Running> {
        let folder = Scratch::new()?;
        let sink = (setup.logs && self.kind.logs_to_socket).then(Sink::open).transpose()?;
        let log_port = sink.as_ref().map_or(0, |sink| sink.port);
        let site = Site { folder: folder.path(), setup: &setup, log_port };
        let config = self.kind.write(&site)?;
        at.extend(self.command.iter().cloned().chain((self.kind.arguments)(&site, &config)));
        let process = Child::spawn(self.name, &at, None, &folder.path().join("said"))?;
        Ok(Running { name: self.name, kind: self.kind, setup, process, sink, folder })
    }
}

/// Running balancer, stopped when dropped.
pub struct Running {
    pub name: &'static str,
    pub kind: &'static Kind,
    setup: Setup,
    process: Child,
    sink: Option<Sink>,
    folder: Scratch,
}

impl Running {
    fn site(&self) -> Site<'_> {
        let log_port = self.sink.as_ref().map_or(0, |sink| sink.port);
        Site { folder: self.folder.path(), setup: &self.setup, log_port }
    }

    /// Setup as it was written last.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Port of its first listener.
    pub fn port(&self) -> u16 {
        self.setup.listeners[0].bind.port()
    }

    /// Process id of the process that was started.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Process ids of the processes that carry requests.
    pub fn pids(&self) -> Vec<u32> {
        if self.kind.forks { procfs::children_of(self.pid()) } else { vec![self.pid()] }
    }

    /// Folder for its files, and for files of its clients.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// End of its output, for an error message.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// Waits until all listeners listen and it has a worker.
    ///
    /// # Errors
    /// With the end of its output if it does not in time.
    pub fn await_listening(&self, patience: Duration) -> Result<()> {
        self.process.await_ready(patience, |pid| {
            // In the kernel nothing listens.
            let listeners = self.setup.listeners.iter().filter(|of| !matches!(of.front, Front::Kernel(_)));
            for Listener { bind, front, .. } in listeners {
                let protocol = if matches!(front, Front::Udp | Front::H3) { "udp" } else { "tcp" };
                listens(pid, protocol, bind.port())?;
            }
            if self.pids().is_empty() { Err(Error::Wrong("it has no worker".into())) } else { Ok(()) }
        })
    }

    /// Waits until a request is answered, which may have to wait for health checks.
    ///
    /// # Errors
    /// With the end of its output if none is in time.
    pub fn await_answer(&self) -> Result<()> {
        self.process.await_ready(PATIENCE, |_| http::get(&mut http::connect(self.port())?, "/health", "1.1").map(drop))
    }

    /// Number of retries so far.
    ///
    /// # Errors
    /// If its statistics cannot be read.
    pub fn retries(&self) -> Result<u64> {
        (self.kind.retries)(&self.site())
    }

    /// Number that changes when a new configuration is in use.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn generation(&self) -> Result<u64> {
        (self.kind.generation)(&self.site(), self.pid())
    }

    /// Rewrites its configuration, with a change.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn rewrite(&mut self, change: impl FnOnce(&mut Setup)) -> Result<()> {
        change(&mut self.setup);
        self.kind.write(&self.site()).map(drop)
    }

    /// Makes it load the written configuration.
    pub fn reload(&self) {
        match self.kind.reload {
            Reload::Signal(signal) => self.signal(signal),
            Reload::Files => (),
        }
    }

    /// Sends a signal to the process that was started.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Stops it, so that buffered lines are written, and returns the number of lines in its access log.
    pub fn stop_and_count_log(self) -> u64 {
        let log = self.site().log();
        drop(self.process);
        match self.sink {
            Some(sink) => sink.close(),
            None => fs::read(log).map_or(0, |log| log.iter().filter(|&&byte| byte == b'\n').count() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};
    use std::net::SocketAddr;

    fn setup(front: Front, algorithm: Algorithm) -> Setup {
        let endpoints = [([198, 18, 2, 2], 8080), ([198, 18, 3, 2], 8081)].map(SocketAddr::from);
        let mut setup = Setup::of_algorithm(algorithm, &endpoints, http::local(1234));
        setup.listeners[0].front = front;
        setup
    }

    #[test]
    fn only_evenkeel_has_planes_in_the_kernel() {
        let kernel = |plane, attach| {
            let setup = setup(Front::Kernel(Kernel { plane, attach }), Algorithm::OneDraw);
            move |kind| written(kind, &setup)
        };
        let text = kernel("ebpf", Some("forward"))("evenkeel").expect("it has");
        assert!(
            text.contains("plane = \"ebpf\"") && text.contains("[kernel]") && text.contains("attach = \"forward\"")
        );
        let nftables = kernel("nftables", None);
        let text = nftables("evenkeel").expect("it has");
        assert!(text.contains("plane = \"nftables\"") && !text.contains("attach"), "{text}");
        assert!(["haproxy", "nginx", "envoy", "varnish", "bare"].iter().all(|kind| nftables(kind).is_err()));
    }

    #[test]
    fn each_configuration_names_every_endpoint_and_differs_by_algorithm() {
        for kind in ["evenkeel", "haproxy", "nginx", "envoy"] {
            let texts = Algorithm::ALL.map(|of| written(kind, &setup(Front::Http1, of)).expect("all have it"));
            for text in &texts {
                assert!(["198.18.2.2", "8080", "198.18.3.2", "8081", "1234"].iter().all(|part| text.contains(part)));
            }
            assert!(texts[0] != texts[1] && texts[1] != texts[2] && texts[0] != texts[2], "{kind}");
        }
    }

    #[test]
    fn a_balancer_says_what_it_cannot_do() {
        for (kind, front, algorithm) in [
            ("haproxy", Front::Udp, Algorithm::Random),
            ("nginx", Front::Http1, Algorithm::PeakEwma),
            ("envoy", Front::Http1, Algorithm::Prequal),
            ("haproxy-splice", Front::H2c, Algorithm::Random),
            ("bare", Front::Http1, Algorithm::Random),
        ] {
            let cannot = written(kind, &setup(front, algorithm)).expect_err("it cannot");
            assert!(!cannot.to_string().is_empty());
        }
        assert!(written("evenkeel", &setup(Front::Http1, Algorithm::Prequal)).is_ok());
    }

    #[test]
    fn a_balancer_that_was_named_must_be_there_and_known() {
        assert!(find_evenkeel(Some(Path::new("/no/such/evenkeel"))).is_err());
        let options = |words: [&str; 2]| {
            let matches = Options::augment_args(Command::new("lab")).get_matches_from(["lab"].iter().chain(&words));
            Options::from_arg_matches(&matches).expect("they are known")
        };
        let unknown = find(&options(["--against", "heaproxy"]), &RIVALS).err().expect("it is unknown");
        assert!(unknown.to_string().contains("envoy"));
        assert!(find(&options(["--evenkeel", "/no/such/evenkeel"]), &[]).is_err());
    }
}
