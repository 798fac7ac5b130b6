//! Sockets to servers, with TLS where their URL wants it.

use crate::fault::{Fault, reason};
use crate::server::{Place, Server};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time for a connection and its handshake. Servers that answer late still accept connections at once.
const CONNECT: Duration = Duration::from_secs(5);

/// Server to which no connection could be made.
#[derive(Debug)]
pub struct Unreachable {
    place: Place,
    cause: Fault,
}

impl Unreachable {
    /// Error of the system, unless TLS or a file of it failed.
    pub fn io(&self) -> Option<&io::Error> {
        self.cause.downcast_ref()
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot connect to {}: {}", self.place, reason(&*self.cause))
    }
}

impl Error for Unreachable {}

/// Socket over TCP, TLS or a path.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// Connects to a server. `protocols` are offered by ALPN, over TLS.
///
/// # Errors
/// [`Unreachable`]: the system refuses the connection, or the certificate is not trusted. Or it takes too long.
pub(crate) async fn open(server: &Server, protocols: &[&[u8]]) -> Result<Box<dyn Socket>, Fault> {
    let place = &server.place;
    match timeout(CONNECT, connect(server, protocols)).await {
        Ok(connected) => connected.map_err(|cause| Unreachable { place: place.clone(), cause }.into()),
        Err(_) => Err(format!("cannot connect to {place} within {CONNECT:?}").into()),
    }
}

async fn connect(server: &Server, protocols: &[&[u8]]) -> Result<Box<dyn Socket>, Fault> {
    Ok(match &server.place {
        Place::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Place::Tcp { host, port } => Box::new(tcp(host, *port).await?),
        Place::Tls { host, port } => {
            let identity = server.identity.as_ref().map(|(cert, key)| (&**cert, &**key));
            let mut config =
                evenkeel_tls::endpoints::speaking(server.ca.as_deref(), identity).map_err(|error| error.what)?;
            if !protocols.is_empty() {
                Arc::make_mut(&mut config).alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            }
            let socket = tcp(host, *port).await?;
            Box::new(TlsConnector::from(config).connect(ServerName::try_from(host.clone())?, socket).await?)
        }
    })
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, Fault> {
    let socket = TcpStream::connect((host, port)).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}
