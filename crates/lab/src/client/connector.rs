//! Connections of clients to a balancer: over TCP or TLS, for HTTP/1.1 or HTTP/2.

use super::http2::Connection;
use super::tls::{self, Version};
use crate::error::Result as Outcome;
use crate::http;
use crate::wire::Wire;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io::Error;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// HTTP/1.1 without TLS.
    pub clear: u16,
    /// HTTP/2.
    pub h2c: u16,
    /// HTTP/1.1 and HTTP/2 over TLS.
    pub tls: u16,
    /// HTTP/3, if the balancer speaks it.
    pub h3: Option<u16>,
}

/// Connects to a balancer, perhaps over TLS.
#[derive(Clone)]
pub struct Connector {
    ports: Ports,
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Connector {
    /// Creates a connector to the balancer at these ports.
    ///
    /// # Errors
    /// If a TLS client cannot be configured.
    pub fn new(ports: Ports) -> Outcome<Connector> {
        let http1 = tls::config(Version::Tls13, true)?;
        let mut http2 = ClientConfig::clone(&*http1);
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Connector { ports, http1: TlsConnector::from(http1), http2: TlsConnector::from(Arc::new(http2)) })
    }

    /// Connects for HTTP/1.1.
    ///
    /// # Errors
    /// The failure as the client saw it.
    pub async fn http1(&self, tls: bool) -> Result<Wire, String> {
        match tls {
            false => Wire::new(tcp(self.ports.clear).await?).map_err(not_connected),
            true => Ok(Wire::over_tls(self.shake_hands(&self.http1).await?)),
        }
    }

    /// Connects for HTTP/2.
    ///
    /// # Errors
    /// The failure as the client saw it.
    pub async fn http2(&self, tls: bool) -> Result<Connection, String> {
        match tls {
            false => Connection::open(tcp(self.ports.h2c).await?).await,
            true => Connection::open(self.shake_hands(&self.http2).await?).await,
        }
    }

    async fn shake_hands(&self, connector: &TlsConnector) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from("lab.test").expect("it is a name");
        let stream = tcp(self.ports.tls).await?;
        connector.connect(name, stream).await.map_err(|error| format!("handshake: {}", error.kind()))
    }
}

async fn tcp(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(http::local(port)).await.map_err(not_connected)?;
    stream.set_nodelay(true).map_err(not_connected)?;
    Ok(stream)
}

fn not_connected(error: Error) -> String {
    format!("connect: {}", error.kind())
}
