//! Claim to a name: two processes that forward under the same name in a network namespace would each remove the rules
//! that the other needs. See [`Claim`].

use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::ListenFd;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;

/// Claim of this process, and of those that take over from it: an abstract Unix socket, which the kernel keeps apart by
/// network namespace, and which ends with its last process.
#[derive(Clone, Debug)]
pub struct Claim {
    socket: ListenFd,
    name: String,
}

impl Claim {
    /// Claims a name, or takes the claim over from a predecessor.
    ///
    /// # Errors
    /// `AddrInUse` if another process has it; the process has no descriptor left.
    pub fn take(name: &str, inherited: &mut Inherited) -> io::Result<Claim> {
        let name = socket_name(name);
        if let Some(socket) = inherited.unix(&path(&name)) {
            return Ok(Claim { socket: Arc::new(socket), name });
        }
        let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Ok(Claim { socket: Arc::new(socket.into()), name })
    }

    /// Returns the socket with its name, for a successor.
    pub fn socket(&self) -> (String, ListenFd) {
        (self.name.clone(), self.socket.clone())
    }
}

/// True if a process claims the name in this network namespace.
pub fn is_claimed(name: &str) -> bool {
    let addr = SocketAddr::from_abstract_name(socket_name(name));
    let tried = addr.and_then(|addr| UnixListener::bind_addr(&addr));
    tried.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

fn socket_name(name: &str) -> String {
    format!("evenkeel-kernel-{name}")
}

/// Abstract name as processes hand it over.
fn path(name: &str) -> PathBuf {
    format!("@{name}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_process() {
        let name = format!("claim-test-{}", std::process::id());
        assert!(!is_claimed(&name));
        let claim = Claim::take(&name, &mut Inherited::default()).expect("it is free");
        assert!(is_claimed(&name) && !is_claimed("claim-test-other"));
        let error = Claim::take(&name, &mut Inherited::default()).expect_err("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(claim);
        assert!(!is_claimed(&name));
    }
}
