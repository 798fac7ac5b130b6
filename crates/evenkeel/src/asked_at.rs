//! Listeners of the admin: those that the plan names, and those that came with the process. See [`AskedAt`].

use crate::failure::{Failure, reason};
use crate::offered::Offered;
use evenkeel_admin::api::access::{Rules, Token, Tokens};
use evenkeel_admin::socket::{self, Folder};
use evenkeel_admin::{Admin, Limits, Numbers, Pages, api};
use evenkeel_config::plan::{self, AdminSocket};
use evenkeel_net::inherit::Inherited;
use evenkeel_net::listen::{self, Claim};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Listeners of the admin, before it answers.
pub struct AskedAt {
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
    /// Path of the Unix socket, if there is one.
    pub path: Option<PathBuf>,
    /// Demands on clients over TCP, and their limits.
    rules: (Rules, Limits),
    /// Copies of both, for a successor.
    pub sockets: Vec<OwnedFd>,
}

impl AskedAt {
    /// Listens at the addresses of the plan.
    ///
    /// # Errors
    /// An address is in use, or a token cannot be used.
    pub fn new(
        plan: plan::Admin,
        claim: Claim,
        inherited: &mut Inherited,
        offered: Option<Offered>,
    ) -> Result<AskedAt, Failure> {
        let (listener, token) = offered.map(|offered| (offered.listener, offered.token)).unzip();
        let rules = rules(&plan, token)?;
        let tcp = plan.http.as_ref().map(|http| http.bind);
        let tcp = tcp.map(|addr| match listener.flatten().or_else(|| listening(inherited, addr)) {
            Some(socket) => Ok(socket),
            None => listen::admin(addr, claim).map_err(|e| Failure::listen("admin", addr, &e)),
        });
        let tcp = tcp.transpose()?;
        let (path, unix) = unix(plan.socket, inherited)?.unzip();
        let mut sockets = Vec::new();
        if let Some(tcp) = &tcp {
            sockets.push(tcp.try_clone().map_err(cannot_start)?.into());
        }
        if let Some(unix) = &unix {
            sockets.push(unix.try_clone().map_err(cannot_start)?.into());
        }
        let limits = plan.http.as_ref().map_or(Limits::LOCAL, |http| Limits {
            connections: http.connections,
            connections_per_address: http.connections_per_address,
            streams: http.streams,
        });
        Ok(AskedAt { tcp, unix, path, rules: (rules, limits), sockets })
    }

    /// Answers there, if there is a listener.
    ///
    /// # Errors
    /// The process has no descriptors or threads left.
    pub fn start(&mut self, pages: Pages, process: api::Process, numbers: &Numbers) -> Result<Option<Admin>, Failure> {
        let (tcp, unix) = (self.tcp.take(), self.unix.take());
        if tcp.is_none() && unix.is_none() {
            return Ok(None);
        }
        Admin::start(tcp, unix, pages, process, self.rules.clone(), numbers).map(Some).map_err(cannot_start)
    }
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::running(format!("admin: cannot start: {error}"))
}

/// Opens the Unix socket and returns it with its path. Without a socket that the plan names nothing starts. Without the
/// default socket the process runs, but commands need another address.
fn unix(socket: AdminSocket, inherited: &mut Inherited) -> Result<Option<(PathBuf, UnixListener)>, Failure> {
    let path = match socket {
        AdminSocket::Off => return Ok(None),
        AdminSocket::At(path) => path,
        AdminSocket::Found => {
            let folder = Folder::own();
            if let Some((path, socket)) = inherited.unix_where(|path| folder.has(path)) {
                return Ok(Some((path, socket.into())));
            }
            return Ok(folder.open().map(Some).unwrap_or_else(|error| {
                let (folder, error) = (folder.path().display(), reason(&error));
                tracing::warn!(
                    "cannot create the socket for commands in {folder}: {error}; set another path in [admin] bind, or \"off\""
                );
                None
            }));
        }
    };
    let listener = match inherited.unix(&path) {
        Some(socket) => UnixListener::from(socket),
        None => socket::listen(&path).map_err(|e| Failure::socket(&path, &e))?,
    };
    Ok(Some((path, listener)))
}

/// Takes the listener for an address that came with the process.
fn listening(inherited: &mut Inherited, addr: SocketAddr) -> Option<TcpListener> {
    inherited.tcp(addr).pop().map(TcpListener::from)
}

/// Returns the demands on clients over TCP. `offered`: the token for changes, unless the plan names one.
fn rules(plan: &plan::Admin, offered: Option<Token>) -> Result<Rules, Failure> {
    let token = |file: &Option<PathBuf>| -> Result<Option<Token>, Failure> {
        let Some(file) = file else { return Ok(None) };
        let cannot =
            |why: String| Failure::running(format!("admin: cannot use the token in {}: {why}", file.display()));
        let text = std::fs::read(file).map_err(|error| cannot(error.to_string()))?;
        let token = Token::new(&text).ok_or_else(|| cannot(format!("it has fewer than {} bytes", Token::MIN)))?;
        Ok(Some(token))
    };
    let Some(http) = &plan.http else { return Ok(Rules::Local) };
    let tokens = Tokens { read: token(&http.read_token)?, write: token(&http.write_token)?.or(offered) };
    Ok(Rules::Remote { tokens, hosts: http.hosts.clone().into() })
}
