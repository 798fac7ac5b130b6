//! Sockets to servers, with TLS where their URL wants it.

use crate::fault::{Fault, reason};
use crate::server::{Place, Server};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time for a connection and its handshake. Servers that answer late still accept connections at once.
const CONNECT: Duration = Duration::from_secs(5);

/// Socket over TCP, TLS or a path.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// Connects to a server. `protocols` are offered by ALPN, over TLS.
///
/// # Errors
/// The server cannot be reached, or its certificate is not trusted. The text names the address.
pub(crate) async fn open(server: &Server, protocols: &[&[u8]]) -> Result<Box<dyn Socket>, Fault> {
    let place = &server.place;
    match timeout(CONNECT, connect(server, protocols)).await {
        Ok(connected) => connected.map_err(|error| format!("cannot connect to {place}: {}", reason(&*error)).into()),
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
