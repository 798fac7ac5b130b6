//! How is a proxy found, run and checked? What is known of each is in its row of [`KINDS`].

use super::cases::{Back, Front, METHOD, Setup};
use super::grpc;
use super::rivals::{KINDS, Kind, Site};
use crate::balancers::sink::Sink;
use crate::certificates::Files;
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::http::local;
use crate::machine;
use crate::origin;
use crate::procfs;
use crate::scratch::Scratch;
use crate::study::Options;
use crate::study::grid::OURS;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A proxy of this machine.
pub struct Proxy {
    /// Its name in the table.
    pub name: String,
    /// Its version, as it prints it.
    pub version: String,
    kind: &'static Kind,
    command: Vec<String>,
}

impl Proxy {
    /// evenkeel and those that are wanted, and `HAPROXY_BIN` beside Debian's HAProxy. One that is not installed is left out, and
    /// named on standard error.
    ///
    /// # Errors
    /// One is unknown, or evenkeel is missing.
    pub fn wanted(options: &Options) -> Result<Vec<Proxy>> {
        let mut proxies = Proxy::find(&[OURS.to_owned()], options.evenkeel.as_deref())?;
        for name in options.against.iter().filter(|name| !name.is_empty() && *name != OURS) {
            match Proxy::find(std::slice::from_ref(name), None) {
                Ok(found) => proxies.extend(found),
                Err(Error::Missing(program)) => eprintln!("left out: {}", Error::Missing(program)),
                Err(error) => return Err(error),
            }
        }
        Ok(proxies)
    }

    /// The proxies with these names, and `HAPROXY_BIN` beside Debian's HAProxy.
    ///
    /// # Errors
    /// If one is unknown or missing.
    pub fn find(names: &[String], evenkeel: Option<&Path>) -> Result<Vec<Proxy>> {
        let mut proxies = Vec::new();
        for name in names {
            let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
                let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
                Error::Wrong(format!("unknown proxy `{name}`; there are {}", known.join(", ")))
            })?;
            let command = match kind.program {
                OURS => child::find_evenkeel(evenkeel)?,
                "evenkeel-lab" => child::this()?,
                program => child::find(program)?,
            };
            proxies.push(Proxy::new(kind.name, kind, vec![command])?);
            if let (true, Ok(other)) = (kind.name == "haproxy", env::var("HAPROXY_BIN")) {
                let words: Vec<String> = other.split_ascii_whitespace().map(str::to_owned).collect();
                if !words.is_empty() {
                    proxies.push(Proxy::new("haproxy-other", kind, words)?);
                }
            }
        }
        Ok(proxies)
    }

    fn new(name: &str, kind: &'static Kind, command: Vec<String>) -> Result<Proxy> {
        let version = machine::version(&command, kind.version_flag)?;
        Ok(Proxy { name: name.to_owned(), version, kind, command })
    }

    /// Starts it on its core and checks that it passes answers on byte for byte, in the protocol of the clients.
    ///
    /// # Errors
    /// If it cannot do this, does not come up, or changes an answer.
    pub fn start(
        &self,
        endpoints: [u16; 2],
        front: Front,
        back: Back,
        certificate: Option<&Files>,
        core: usize,
    ) -> Result<Running> {
        if let Some(reason) = (self.kind.cannot)(front, back) {
            return Err(Error::Wrong(reason.into()));
        }
        let (name, folder) = (&self.name, Scratch::new()?);
        let logs = front.setup() == Setup::Logged && self.kind.logs_to_socket;
        let sink = logs.then(Sink::open).transpose()?;
        let log_port = sink.as_ref().map_or(0, |sink| sink.port);
        let port = origin::free_ports()?[0];
        let site = Site { folder: folder.path(), port, endpoints, front, back, certificate, log_port };
        let log = site.log();
        let config = folder.write(self.kind.config_name, (self.kind.config)(&site))?;
        let said = folder.path().join("said");
        let command = (self.kind.arguments)(&self.command, folder.path(), &config);
        let process = Child::spawn(name, &command, Some(core), &said)?;
        origin::await_listening(name, &process, local(port), &said)?;
        let last_words = || child::last_words(&said);
        verify(port, front, back, folder.path())
            .map_err(|error| Error::Refused(format!("{name}: {error}\n{}", last_words())))?;
        let pids = if self.kind.forks { procfs::children_of(process.pid()) } else { vec![process.pid()] };
        if pids.is_empty() {
            return Err(Error::Wrong(format!("{name} has no worker:\n{}", last_words())));
        }
        Ok(Running { port, pids, process, log, sink, folder })
    }
}

/// A proxy that listens, until dropped.
pub struct Running {
    /// Where.
    pub port: u16,
    /// The processes that carry requests.
    pub pids: Vec<u32>,
    process: Child,
    log: PathBuf,
    sink: Option<Sink>,
    folder: Scratch,
}

impl Running {
    /// Where it may write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file with the message of gRPC.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn message(&self) -> Result<PathBuf> {
        self.folder.write("message", grpc::message())
    }

    /// Ends it, so that buffered lines are written, and returns the number of lines in its access log.
    pub fn stop_and_count_log(self) -> u64 {
        drop(self.process);
        match self.sink {
            Some(sink) => sink.close(),
            None => std::fs::read(&self.log).map_or(0, |log| log.iter().filter(|&&byte| byte == b'\n').count() as u64),
        }
    }
}

/// The URL of a path.
pub fn url(front: Front, port: u16, path: &str) -> String {
    let scheme = if front.certificate().is_some() { "https" } else { "http" };
    format!("{scheme}://127.0.0.1:{port}{path}")
}

/// Asks for each file, or calls the method, in the protocol of the clients.
fn verify(port: u16, front: Front, back: Back, folder: &Path) -> Result<()> {
    if back == Back::Grpc {
        let sent = grpc::message();
        let head = ask(port, front, METHOD, Some(&sent), folder, &sent)?;
        let good = head.lines().any(|line| line.eq_ignore_ascii_case("grpc-status: 0"));
        return if good { Ok(()) } else { Err(Error::Refused(format!("the trailers are lost:\n{head}"))) };
    }
    if matches!(front, Front::Http1(_) | Front::Tcp) {
        return origin::verify(port);
    }
    for (path, size) in origin::FILES {
        ask(port, front, path, None, folder, &origin::content(size))?;
    }
    Ok(())
}

/// One request by curl. Returns the fields of the head and of the trailers.
fn ask(port: u16, front: Front, path: &str, message: Option<&[u8]>, folder: &Path, wanted: &[u8]) -> Result<String> {
    let (head, body, sent) = (folder.join("head"), folder.join("body"), folder.join("sent"));
    let (protocol, version) = match front {
        Front::H2c => ("--http2-prior-knowledge", "HTTP/2 200"),
        Front::H2(_) => ("--http2", "HTTP/2 200"),
        Front::Http1(_) | Front::Tcp | Front::Https(_) => ("--http1.1", "HTTP/1.1 200"),
    };
    let mut command = vec![child::find("curl")?];
    command.extend(["-s", "-S", "-k", "--max-time", "10", protocol, "-D"].map(str::to_owned));
    command.extend([head.display().to_string(), "-o".into(), body.display().to_string()]);
    if let Some(message) = message {
        std::fs::write(&sent, message).or_say(|| format!("cannot write {}", sent.display()))?;
        command
            .extend(["-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary"].map(String::from));
        command.push(format!("@{}", sent.display()));
    }
    let url = url(front, port, path);
    command.push(url.clone());
    let output = child::output(&command, Duration::from_secs(20))?;
    if !output.success {
        return Err(Error::Refused(format!("{url}: {}", output.text.trim())));
    }
    let read = |path: &Path| std::fs::read(path).or_say(|| format!("cannot read {}", path.display()));
    let head = String::from_utf8_lossy(&read(&head)?).into_owned();
    if !head.starts_with(version) {
        return Err(Error::Refused(format!("{url}: not a 200 in the protocol meant:\n{head}")));
    }
    if read(&body)? != wanted {
        return Err(Error::Refused(format!("{url} is answered with other bytes")));
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_was_named_must_be_there_and_known() {
        let nowhere = Some(Path::new("/no/such/evenkeel"));
        assert!(Proxy::find(&[OURS.into()], nowhere).is_err());
        assert!(Proxy::find(&["heaproxy".into()], nowhere).err().expect("it is unknown").to_string().contains("envoy"));
        assert!(Proxy::find(&[], nowhere).expect("none is named").is_empty());
    }
}
