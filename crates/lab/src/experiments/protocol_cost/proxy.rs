//! How is a proxy found, run and checked? What is known of each is in its row of [`KINDS`].

use super::case::{Back, Front, METHOD};
use super::certificates::Files;
use super::grpc;
use super::rivals::{KINDS, Kind, OURS, Site};
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::http::local;
use crate::machine;
use crate::origin;
use crate::procfs;
use crate::scratch::Scratch;
use std::path::Path;
use std::time::Duration;

/// A proxy, and the program if this machine has it.
pub struct Proxy {
    /// Its row.
    pub kind: &'static Kind,
    /// Its version, as it prints it, or why it is not there.
    pub version: String,
    program: Option<String>,
}

impl Proxy {
    /// The proxies with these names, each of which must be installed; without names all, installed or not.
    ///
    /// # Errors
    /// If one that was named is unknown or missing.
    pub fn find(names: &[String], evenkeel: Option<&Path>) -> Result<Vec<Proxy>> {
        if let Some(unknown) = names.iter().find(|name| KINDS.iter().all(|kind| kind.name != **name)) {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            return Err(Error::Wrong(format!("unknown proxy `{unknown}`; there are {}", known.join(", "))));
        }
        let named = |kind: &&Kind| names.is_empty() || names.iter().any(|name| name == kind.name);
        KINDS.iter().filter(named).map(|kind| Proxy::of(kind, !names.is_empty(), evenkeel)).collect()
    }

    fn of(kind: &'static Kind, must_be_there: bool, evenkeel: Option<&Path>) -> Result<Proxy> {
        let program = if kind.name == OURS { child::find_evenkeel(evenkeel) } else { child::find(kind.name) };
        match program {
            Ok(program) => {
                let version = machine::version(std::slice::from_ref(&program), kind.version_flag)?;
                Ok(Proxy { kind, version, program: Some(program) })
            }
            Err(error) if must_be_there => Err(error),
            Err(_) => Ok(Proxy { kind, version: "not installed".into(), program: None }),
        }
    }

    /// Starts it on its core and checks that it passes answers on byte for byte, in the protocol of the clients.
    ///
    /// # Errors
    /// If it is not there, cannot do this, does not come up, or changes an answer.
    pub fn start(
        &self,
        endpoints: [u16; 2],
        front: Front,
        back: Back,
        certificate: Option<&Files>,
        core: usize,
    ) -> Result<Running> {
        if let Some(reason) = (self.kind.cannot)(back) {
            return Err(Error::Wrong(reason.into()));
        }
        let name = self.kind.name;
        let program = self.program.clone().ok_or_else(|| Error::Missing(name.into()))?;
        let folder = Scratch::new()?;
        let site = Site { folder: folder.path(), port: origin::free_ports()?[0], endpoints, front, back, certificate };
        let port = site.port;
        let config = folder.write(self.kind.config_name, (self.kind.config)(&site))?;
        let said = folder.path().join("said");
        let process = Child::spawn(name, &(self.kind.arguments)(program, folder.path(), &config), Some(core), &said)?;
        origin::await_listening(name, &process, local(port), &said)?;
        verify(port, front, back, folder.path())
            .map_err(|error| Error::Refused(format!("{error}\n{}", child::last_words(&said))))?;
        let pids = if self.kind.forks { procfs::children_of(process.pid()) } else { vec![process.pid()] };
        if pids.is_empty() {
            return Err(Error::Wrong(format!("{name} has no worker:\n{}", child::last_words(&said))));
        }
        Ok(Running { port, pids, _process: process, folder })
    }
}

/// A proxy that listens, until dropped.
pub struct Running {
    /// Where.
    pub port: u16,
    /// The processes that carry requests.
    pub pids: Vec<u32>,
    _process: Child,
    folder: Scratch,
}

impl Running {
    /// The file with the message of gRPC.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn message(&self) -> Result<std::path::PathBuf> {
        self.folder.write("message", grpc::message())
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
        Front::Https(_) => ("--http1.1", "HTTP/1.1 200"),
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
    fn a_proxy_that_was_named_must_be_there() {
        let nowhere = Some(Path::new("/no/such/evenkeel"));
        assert!(Proxy::find(&["evenkeel".into()], nowhere).is_err());
        assert!(Proxy::find(&["heaproxy".into()], nowhere).err().expect("it is unknown").to_string().contains("envoy"));
        let all = Proxy::find(&[], nowhere).expect("without names none must be there");
        assert_eq!((all.len(), all[0].version.as_str()), (KINDS.len(), "not installed"));
    }
}
