//! The machine that `evenkeel check` inspects: paths, addresses and TLS files that a start would need. No
//! listener address is bound.

use crate::plan::{Pem, Plan, Plane};
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Inspections that a check needs. Each is a function, so that the crates that know TLS, tokens and the kernel add theirs.
#[expect(clippy::type_complexity, reason = "the types are the signatures of the functions")]
pub struct Machine {
    /// Looks up the kind of a path, following links.
    pub look: Box<dyn Fn(&Path) -> io::Result<Found> + Send + Sync>,
    /// Reads a file. Errors come from the system.
    pub read: Box<dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync>,
    /// Fails if the current user may not append to an existing file.
    pub append: Box<dyn Fn(&Path) -> io::Result<()> + Send + Sync>,
    /// Fails if no socket can be bound to an address, on any port.
    pub has: Box<dyn Fn(IpAddr) -> io::Result<()> + Send + Sync>,
    /// True if packets to an address stay on this machine.
    pub is_own: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Inspects a certificate and its key.
    pub certificate: Box<dyn Fn(&Pem, &Pem) -> Certified + Send + Sync>,
    /// Reasons for which the OCSP response in a file cannot be stapled to a certificate. Empty if either cannot be read, which
    /// is reported elsewhere.
    pub ocsp: Box<dyn Fn(&Path, &Pem) -> Vec<CertificateFault> + Send + Sync>,
    /// Inspects another TLS file.
    pub tls_file: Box<dyn Fn(TlsFile, &Pem) -> Vec<CertificateFault> + Send + Sync>,
    /// Checks a JWK set. Fails with the reason for which it cannot be used.
    pub keys: Box<dyn Fn(&[u8]) -> Result<(), String> + Send + Sync>,
    /// Reasons for which the kernel does not forward for listeners of a plan.
    pub planes: Box<dyn Fn(&Plan) -> Vec<NoPlane> + Send + Sync>,
}

/// Plane that the machine does not provide, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlane {
    pub plane: Plane,
    /// False if the plane may work, or the user who checks may not know.
    pub is_error: bool,
    pub problem: String,
    pub help: String,
}

/// Kind of a TLS file that is neither a certificate nor its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// Authorities or pinned certificates trusted for servers.
    Authorities,
    /// Authorities or pinned certificates trusted for clients.
    ClientAuthorities,
    /// Certificate revocation lists.
    Revoked,
    /// OCSP response of a certificate.
    Ocsp,
    /// Key of session tickets, 80 bytes.
    TicketKey,
}

/// Result of inspecting a certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certified {
    /// Problems of the certificate or the key.
    pub faults: Vec<CertificateFault>,
    /// Names of the certificate, wildcards included; `None` if it cannot be read.
    pub names: Option<Vec<String>>,
    /// True if it is signed by its own key.
    pub self_signed: bool,
}

/// Problem of a TLS file, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// True if it concerns the key, false for the certificate.
    pub of_key: bool,
    /// True if the file cannot be used as it is.
    pub is_error: bool,
    pub what: String,
    pub help: String,
}

/// Kind of an existing path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Directory, links followed.
    Folder,
    /// Unix socket, links followed.
    Socket,
    /// Regular file, links followed.
    File,
    /// Anything else that is used as a file: a pipe, a device.
    Other,
}

impl Machine {
    /// Returns the machine that this process runs on. TLS files, tokens and planes are not inspected until others add that.
    pub fn this() -> Machine {
        Machine {
            look: Box::new(look),
            read: Box::new(|path| fs::read(path)),
            append: Box::new(|path| OpenOptions::new().append(true).open(path).map(drop)),
            // Port 0: a listener on the real port is not disturbed.
            has: Box::new(|ip| UdpSocket::bind((ip, 0)).map(drop)),
            is_own: Box::new(is_own),
            certificate: Box::new(|_, _| Certified::default()),
            ocsp: Box::new(|_, _| Vec::new()),
            tls_file: Box::new(|_, _| Vec::new()),
            keys: Box::new(|_| Ok(())),
            planes: Box::new(|_| Vec::new()),
        }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

fn look(path: &Path) -> io::Result<Found> {
    let kind = fs::metadata(path)?.file_type();
    Ok(match kind {
        _ if kind.is_dir() => Found::Folder,
        _ if kind.is_file() => Found::File,
        _ if kind.is_socket() => Found::Socket,
        _ => Found::Other,
    })
}

/// True if packets to an address stay on this machine.
pub fn is_own(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Connecting a UDP socket sends nothing, but selects a source address, which equals the target if
    // that is our own.
    let from = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || from().is_ok_and(|from| from.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_here_and_documentation_networks_are_not() {
        let [near, far] = [Ipv4Addr::new(127, 9, 9, 9), Ipv4Addr::new(192, 0, 2, 1)].map(IpAddr::from);
        assert!((Machine::this().has)(near).is_ok() && is_own(near));
        assert!(!is_own(far));
    }

    #[test]
    fn what_is_at_a_path_is_told_apart() {
        let folder = std::env::temp_dir();
        assert_eq!(look(&folder).ok(), Some(Found::Folder));
        let file = std::env::current_exe().expect("this test is a file");
        assert_eq!(look(&file).ok(), Some(Found::File));
        let missing = look(&folder.join("evenkeel-nothing-here")).map_err(|error| error.kind());
        assert_eq!(missing, Err(io::ErrorKind::NotFound));
    }
}
