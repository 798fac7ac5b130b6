//! What does a machine have of that which a configuration speaks of? `evenkeel check` asks, so that what can be known before a
//! start is said with all the rest. Nothing that listens is bound.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What a check needs to know of a machine.
pub trait Machine {
    /// What is at a path, links followed.
    ///
    /// # Errors
    /// There is nothing, or it cannot be looked at.
    fn look(&self, path: &Path) -> io::Result<Found>;

    /// The whole file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Whether the user that checks may write to a file that is there.
    ///
    /// # Errors
    /// The user may not.
    fn append(&self, path: &Path) -> io::Result<()>;

    /// Whether a socket can listen at an address, at some port.
    ///
    /// # Errors
    /// Why not.
    fn has(&self, ip: IpAddr) -> io::Result<()>;

    /// Whether what is sent to an address comes back to this machine.
    fn is_own(&self, ip: IpAddr) -> bool;

    /// What is to be said of a certificate and its key, and the names that it has. Nothing, unless the machine knows TLS.
    fn certificate(&self, cert: &Path, key: &Path) -> Certified {
        let _ = (cert, key);
        Certified::default()
    }

    /// Reasons why the OCSP response in a file is not stapled to this certificate. Empty if either cannot be read, which is reported
    /// elsewhere.
    fn ocsp(&self, file: &Path, cert: &Path) -> Vec<CertificateFault> {
        let _ = (file, cert);
        Vec::new()
    }

    /// What is to be said of another file of TLS.
    fn tls_file(&self, kind: TlsFile, file: &Path) -> Vec<CertificateFault> {
        let _ = (kind, file);
        Vec::new()
    }
}

/// What a file of TLS has, besides certificates and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// The certificates of authorities, or of servers that are believed.
    Authorities,
    /// The certificates of authorities, or of clients that are believed.
    ClientAuthorities,
    /// Lists of revoked certificates.
    Revoked,
    /// What an issuer says of a certificate's validity.
    Ocsp,
    /// A key of session tickets.
    TicketKey,
}

/// What is known of a certificate and its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certified {
    /// What is to be said.
    pub faults: Vec<CertificateFault>,
    /// Its names, `*.example.com` among them; `None` if it cannot be read.
    pub names: Option<Vec<String>>,
    /// Whether it was issued by its own key.
    pub self_signed: bool,
}

/// What is to be said of a file of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// Whether it is about the key.
    pub of_key: bool,
    /// Whether it cannot be used so.
    pub is_error: bool,
    /// What it is.
    pub what: String,
    /// How it can be mended.
    pub help: String,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A folder.
    Folder,
    /// A Unix socket.
    Socket,
    /// A file with something in it.
    File,
    /// What is used as a file: a pipe, a device.
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
        // At a port of the kernel's choice: what listens there now, and what will, is left alone.
        UdpSocket::bind((ip, 0)).map(drop)
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // Connecting sends nothing; the kernel only says from which address it would send. To an own one that is itself.
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
