//! The machine that `evenkeel check` inspects: paths, addresses and TLS files that a start would need. No
//! listener address is bound.

use crate::plan::{Pem, Plan, Plane};
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Inspections that a check needs.
pub trait Machine {
    /// Looks up the kind of a path, following links.
    ///
    /// # Errors
    /// If there is nothing, or it cannot be inspected.
    fn look(&self, path: &Path) -> io::Result<Found>;

    /// Reads a whole file.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Tests whether the current user may append to an existing file.
    ///
    /// # Errors
    /// If the user may not.
    fn append(&self, path: &Path) -> io::Result<()>;

    /// Tests whether a socket can be bound to an address, on any port.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn has(&self, ip: IpAddr) -> io::Result<()>;

    /// True if packets to an address stay on this machine.
    fn is_own(&self, ip: IpAddr) -> bool;

    /// Inspects a certificate and its key. Empty unless the machine supports TLS.
    fn certificate(&self, cert: &Pem, key: &Pem) -> Certified {
        let _ = (cert, key);
        Certified::default()
    }

    /// Reasons for which the OCSP response in a file cannot be stapled to this certificate. Empty if either
    /// cannot be read, which is reported elsewhere.
    fn ocsp(&self, file: &Path, cert: &Pem) -> Vec<CertificateFault> {
        let _ = (file, cert);
        Vec::new()
    }

    /// Checks a JWK set. Every set is good unless the machine supports tokens.
    ///
    /// # Errors
    /// The reason for which it cannot be used.
    fn keys(&self, set: &[u8]) -> Result<(), String> {
        let _ = set;
        Ok(())
    }

    /// Reasons for which the kernel does not forward for listeners of a plan. Empty unless the machine supports planes.
    fn planes(&self, plan: &Plan) -> Vec<NoPlane> {
        let _ = plan;
        Vec::new()
    }

    /// Inspects another TLS file.
    fn tls_file(&self, kind: TlsFile, file: &Pem) -> Vec<CertificateFault> {
        let _ = (kind, file);
        Vec::new()
    }
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

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn look(&self, path: &Path) -> io::Result<Found> {
        let kind = fs::metadata(path)?.file_type();
        Ok(match kind {
            _ if kind.is_dir() => Found::Folder,
            _ if kind.is_file() => Found::File,
            _ if kind.is_socket() => Found::Socket,
            _ => Found::Other,
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn append(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().append(true).open(path).map(drop)
    }

    fn has(&self, ip: IpAddr) -> io::Result<()> {
        // Port 0: a listener on the real port is not disturbed.
        UdpSocket::bind((ip, 0)).map(drop)
    }

    fn is_own(&self, ip: IpAddr) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_here_and_documentation_networks_are_not() {
        let [near, far] = [Ipv4Addr::new(127, 9, 9, 9), Ipv4Addr::new(192, 0, 2, 1)].map(IpAddr::from);
        assert!(ThisMachine.has(near).is_ok() && ThisMachine.is_own(near));
        assert!(!ThisMachine.is_own(far));
    }

    #[test]
    fn what_is_at_a_path_is_told_apart() {
        let folder = std::env::temp_dir();
        assert_eq!(ThisMachine.look(&folder).ok(), Some(Found::Folder));
        let file = std::env::current_exe().expect("this test is a file");
        assert_eq!(ThisMachine.look(&file).ok(), Some(Found::File));
        let missing = ThisMachine.look(&folder.join("evenkeel-nothing-here")).map_err(|error| error.kind());
        assert_eq!(missing, Err(io::ErrorKind::NotFound));
    }
}
