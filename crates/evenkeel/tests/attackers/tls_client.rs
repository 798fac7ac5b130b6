//! Clients over TLS, which believe any certificate: the one of a scene is made at its start.

use crate::scene::Innocent;
use crate::support::DEADLINE;
use evenkeel_peers::Trusting;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Certificate, what leads from it to a root, and its key, as a client shows them.
pub type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A client that shows this, if anything.
pub fn client(shows: Option<Shown>) -> Arc<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("its own versions").dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(Trusting::new(schemes)));
    Arc::new(match shows {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).expect("a certificate and its key"),
    })
}

/// A connection over TLS, with its handshake still to come.
pub struct TlsConnection(pub StreamOwned<ClientConnection, TcpStream>);

impl TlsConnection {
    pub fn open(addr: &str, config: &Arc<ClientConfig>) -> Result<TlsConnection, String> {
        let stream = TcpStream::connect(addr).map_err(|error| format!("connect: {error}"))?;
        stream.set_read_timeout(Some(DEADLINE)).map_err(|error| error.to_string())?;
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(config.clone(), name).map_err(|error| error.to_string())?;
        Ok(TlsConnection(StreamOwned::new(connection, stream)))
    }

    /// Asks, and reads a response of one part that has this body.
    pub fn get(&mut self, path: &str, body: &str) -> Result<(), String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: innocent\r\n\r\n");
        self.0.write_all(request.as_bytes()).map_err(|error| format!("handshake or write: {error}"))?;
        let (mut came, mut buf) = (Vec::new(), [0; 4096]);
        while !came.ends_with(body.as_bytes()) {
            let read = self.0.read(&mut buf).map_err(|error| format!("read: {error}"))?;
            if read == 0 {
                return Err(format!("closed after {:?}", String::from_utf8_lossy(&came)));
            }
            came.extend_from_slice(&buf[..read]);
        }
        if came.starts_with(b"HTTP/1.1 200 ") { Ok(()) } else { Err(String::from_utf8_lossy(&came).into_owned()) }
    }
}

/// A client with a new handshake for each request, and one that keeps its connection.
pub fn innocents(addr: &str, shows: Option<Shown>, body: &'static str) -> Vec<Innocent> {
    let fresh = {
        let (addr, config) =
            (addr.to_owned(), client(shows.as_ref().map(|(chain, key)| (chain.clone(), key.clone_key()))));
        Innocent::new("fresh handshakes", move || TlsConnection::open(&addr, &config)?.get("/innocent", body))
    };
    let (addr, config, mut kept) = (addr.to_owned(), client(shows), None);
    let kept = Innocent::new("a kept connection over TLS", move || {
        let connection: &mut TlsConnection = match &mut kept {
            Some(connection) => connection,
            none => none.insert(TlsConnection::open(&addr, &config)?),
        };
        connection.get("/innocent", body)
    });
    vec![fresh, kept]
}

/// A connection from this address of the machine.
pub fn from(ip: [u8; 4], addr: &str) -> TcpStream {
    let to: SocketAddr = addr.parse().expect("an address");
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&fd, &SocketAddr::from((Ipv4Addr::from(ip), 0))).expect("an address of loopback");
    connect(&fd, &to).expect("it accepts");
    fd.into()
}

/// The ClientHello of a client.
pub fn hello() -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut connection = ClientConnection::new(client(None), name).expect("a client");
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).expect("a vector takes them");
    bytes
}
