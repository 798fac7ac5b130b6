//! Which load balancers are tested, and how does each run? One row of [`KINDS`] each: its configuration, set up to live
//! with broken endpoints as well as it can, its command line, and how it is made to reload. The files of the rows say
//! why they are set up so.

mod envoy;
mod evenkeel;
mod haproxy;
mod kind;
mod nginx;
pub mod sink;

use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::http;
use crate::machine;
use crate::origin;
use crate::scratch::Scratch;
use crate::study::{Options, Versions};
use kind::{Kind, Site};

pub use kind::{Mixed, Reload};
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Every kind, in the order of the tables.
pub static KINDS: &[Kind] = &[evenkeel::KIND, haproxy::KIND, nginx::KIND, envoy::KIND];

/// The name of the one that the others are beside.
pub const OURS: &str = evenkeel::KIND.name;

/// A balancer of this machine.
pub struct Balancer {
    /// Its row.
    pub kind: &'static Kind,
    /// Its version, as it prints it.
    pub version: String,
    program: String,
}

impl Balancer {
    /// evenkeel and those that are wanted, and their versions. One that is not installed is left out, and named on standard error.
    ///
    /// # Errors
    /// One is unknown, or evenkeel is missing.
    pub fn find(options: &Options) -> Result<(Vec<Balancer>, Versions)> {
        let rivals: Vec<&str> = KINDS.iter().map(|kind| kind.name).filter(|name| *name != OURS).collect();
        options.beside(&rivals)?;
        let wanted = |kind: &&'static Kind| kind.name == OURS || options.installed(kind.name);
        let find = |kind: &'static Kind| {
            let ours = kind.name == OURS;
            let program =
                if ours { child::find_evenkeel(options.evenkeel.as_deref())? } else { child::find(kind.name)? };
            let version = machine::version(std::slice::from_ref(&program), kind.version_flag)?;
            Ok(Balancer { kind, version, program })
        };
        let balancers = KINDS.iter().filter(wanted).map(find).collect::<Result<Vec<_>>>()?;
        let versions = balancers.iter().map(|b| (b.kind.name.to_owned(), b.version.clone())).collect();
        Ok((balancers, versions))
    }

    /// Starts it and waits until it answers. `mixed`: it also serves there.
    ///
    /// # Errors
    /// If it does not.
    pub fn start(&self, endpoints: &[SocketAddr], mixed: Option<Mixed>) -> Result<Running> {
        let folder = Scratch::new()?;
        let [port, admin_port] = origin::free_ports()?;
        let running = Site { folder: folder.path(), port, admin_port, endpoints, weight: 1, mixed: mixed.as_ref() };
        write(self.kind, &running)?;
        let config = folder.path().join(self.kind.config_name);
        let said = folder.path().join("said");
        let mut words = vec![self.program.clone()];
        words.extend((self.kind.arguments)(folder.path(), &config));
        let process = Child::spawn(self.kind.name, &words, None, &said)?;
        origin::await_listening(self.kind.name, &process, http::local(port), &said)?;
        let endpoints = endpoints.to_vec();
        let running = Running { kind: self.kind, port, admin_port, endpoints, mixed, config, process, folder };
        running.await_answer()?;
        Ok(running)
    }
}

/// Writes its configuration. Each file takes the place of the one before as a whole.
fn write(kind: &Kind, site: &Site) -> Result<()> {
    let mut files = (kind.more)(site);
    files.push((kind.config_name, (kind.config)(site)));
    for (name, text) in files {
        let (path, new) = (site.file(name), site.file(&format!("{name}.new")));
        fs::write(&new, text).or_say(|| format!("cannot write {}", new.display()))?;
        fs::rename(&new, &path).or_say(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A balancer that answers, until dropped.
pub struct Running {
    /// Its row.
    pub kind: &'static Kind,
    /// Where it listens.
    pub port: u16,
    admin_port: u16,
    endpoints: Vec<SocketAddr>,
    mixed: Option<Mixed>,
    config: PathBuf,
    process: Child,
    folder: Scratch,
}

impl Running {
    fn site(&self, weight: u32) -> Site<'_> {
        let (folder, port, admin_port) = (self.folder.path(), self.port, self.admin_port);
        Site { folder, port, admin_port, endpoints: &self.endpoints, weight, mixed: self.mixed.as_ref() }
    }

    /// The process that was started.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Retries so far.
    ///
    /// # Errors
    /// If its statistics cannot be read.
    pub fn retries(&self) -> Result<u64> {
        (self.kind.retries)(&self.site(1))
    }

    /// A number that changes when a new configuration is at work.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn generation(&self) -> Result<u64> {
        (self.kind.generation)(&self.site(1), self.pid())
    }

    /// Rewrites its configuration, with this weight in a pool that gets no requests.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn rewrite(&self, weight: u32) -> Result<()> {
        write(self.kind, &self.site(weight))
    }

    /// Makes it use what was written.
    pub fn reload(&self) {
        match self.kind.reload {
            Reload::Signal(signal) => self.signal(signal),
            Reload::Files => (),
        }
    }

    /// Sends the process that was started a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until a request is answered: checks of endpoints may have to come first.
    fn await_answer(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let answer = http::connect(self.port).and_then(|mut stream| http::get(&mut stream, "/health", "1.1"));
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    let said = child::last_words(&self.folder.path().join("said"));
                    let text =
                        format!("{} with {} does not answer: {error}\n{said}", self.kind.name, self.config.display());
                    return Err(Error::Wrong(text));
                }
                Err(_) => child::pause(Duration::from_millis(50))?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_changed_weight_changes_each_configuration_and_nothing_else_does() {
        let endpoints = [http::local(1001), http::local(1002)];
        let file = |name: &str| Path::new("folder").join(name);
        let (certificate, key, both) = (file("crt"), file("key"), file("pem"));
        let all = Mixed { h2c_port: 3, tls_port: 4, certificate, key, both };
        for (kind, mixed) in KINDS.iter().flat_map(|kind| [(kind, None), (kind, Some(&all))]) {
            let folder = Path::new("folder");
            let site = |weight| Site { folder, port: 1, admin_port: 2, endpoints: &endpoints, weight, mixed };
            let all = |weight| {
                let more = (kind.more)(&site(weight)).into_iter().map(|(_, text)| text);
                more.chain([(kind.config)(&site(weight))]).collect::<String>()
            };
            let (one, two) = (all(1), all(2));
            assert_eq!(one, all(1));
            let differing = one.lines().zip(two.lines()).filter(|(one, two)| one != two).count();
            assert_eq!(differing, 1, "{}", kind.name);
            assert!(one.contains("1001") && one.contains("1002"), "{}", kind.name);
        }
    }
}
