//! Health checks of endpoints. Each check opens a new connection, as a client does, so that it meets the same
//! conditions as a request; or it sends a datagram and reads the reply. A check ends its session as the protocol
//! requires: many servers count a client that just closes as failed, and some lock it out.

// Order: dialogue, grpc, lines, mysql, postgres, stream, failure
mod dialogue;
mod failure;
mod grpc;
mod lines;
mod mysql;
mod postgres;
mod stream;

pub use failure::Failure;

use crate::pool::Checkup;
use evenkeel_config::plan::{Check, ProxyVersion};
use evenkeel_net::dial::Remote;
use evenkeel_net::tls::towards::Towards;
use evenkeel_wire::http1::chunked::Keep;
use evenkeel_wire::http1::response::RequestContext;
use evenkeel_wire::http1::{Body, FIELDS_MAX, INTERIM_MAX, Limits, Reject, Response, Room};
use evenkeel_wire::proxy_protocol;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use stream::{BODY_MAX, Carries, send};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket, UnixStream};
use tokio_rustls::TlsConnector;

/// Maximum time that a server gets to close its side after a check.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// Limits of a response head, the same as for relayed responses.
const LIMITS: Limits = Limits { head: evenkeel_net::buffer::CAPACITY, fields: FIELDS_MAX };

/// Checks an endpoint once, within the check's timeout.
///
/// # Errors
/// The reason why the check did not pass.
#[expect(clippy::disallowed_methods, reason = "no worker runs checks, so there is no wheel")]
pub async fn run(checkup: &Checkup) -> Result<(), Failure> {
    let Checkup { check, addr, host, announce, tls } = checkup;
    // A separate port for checks may expect neither the PROXY header nor the TLS of the traffic port.
    let apart = match addr {
        Remote::Ip(addr) => check.port.filter(|port| *port != addr.port()).map(|port| SocketAddr::new(addr.ip(), port)),
        Remote::Unix(_) => None,
    };
    let announce = announce.filter(|_| apart.is_none());
    let tls = tls.as_ref().filter(|_| apart.is_none());
    let addr = &apart.map_or_else(|| addr.clone(), Remote::Ip);
    let at = At { addr, host: host.as_deref() };
    tokio::time::timeout(check.timeout, once(&check.check, at, announce, tls)).await.unwrap_or(Err(Failure::Timeout))
}

/// Address of the endpoint to check, and the host to send there.
#[derive(Clone, Copy)]
struct At<'c> {
    addr: &'c Remote,
    /// Host that is configured for this endpoint alone.
    host: Option<&'c str>,
}

impl At<'_> {
    /// Returns the host to send: the host of the check, else of the endpoint, else its address.
    fn host(self, of_check: Option<&str>) -> String {
        of_check.or(self.host).map_or_else(|| self.addr.host().to_string(), str::to_owned)
    }
}

/// Connects to an endpoint over TCP, or to its Unix socket.
async fn connect(addr: &Remote) -> std::io::Result<Box<dyn Carries>> {
    Ok(match addr {
        Remote::Ip(addr) => Box::new(TcpStream::connect(addr).await?),
        Remote::Unix(path) => {
            // Connecting to a Unix socket does not block on a non-blocking socket.
            let stream = evenkeel_net::dial::unix_stream(path)?;
            Box::new(UnixStream::from_std(stream)?)
        }
    })
}

async fn once(
    check: &Check,
    at: At<'_>,
    announce: Option<ProxyVersion>,
    tls: Option<&(Towards, ServerName<'static>)>,
) -> Result<(), Failure> {
    if let Check::Udp { send, expect } = check {
        let no_address = || Failure::Connect(std::io::ErrorKind::Unsupported.into());
        return ask(at.addr.socket_addr().ok_or_else(no_address)?, send, expect.as_deref()).await;
    }
    let mut stream = connect(at.addr).await.map_err(Failure::Connect)?;
    if let Some(version) = announce {
        let mut header = Vec::new();
        proxy_protocol::write_local(version, &mut header);
        stream.write_all(&header).await.map_err(|_| Failure::Closed)?;
    }
    let stream: Box<dyn Carries> = match tls {
        None => stream,
        Some((towards, name)) => {
            let connecting = TlsConnector::from(offering(check, towards)).connect(name.clone(), stream);
            Box::new(connecting.await.map_err(Failure::Tls)?)
        }
    };
    let mut stream = stream;
    let verdict = over(&mut stream, check, at, tls.is_some()).await;
    tokio::spawn(part(stream));
    verdict
}

/// Checks over a connection.
async fn over(stream: &mut Box<dyn Carries>, check: &Check, at: At<'_>, is_tls: bool) -> Result<(), Failure> {
    match check {
        Check::Http { .. } => http(stream, check, at).await,
        Check::Grpc { service, host } => {
            let host = at.host(host.as_deref());
            grpc::ask(stream, service, &host, is_tls).await
        }
        Check::Tcp { send, expect, quit } => {
            dialogue::ask(stream, send.as_deref(), expect.as_deref(), quit.as_deref()).await
        }
        Check::Mysql { user } => mysql::ask(stream, user.as_deref()).await,
        Check::Postgres { user, database } => postgres::ask(stream, user.as_deref(), database).await,
        Check::Redis => lines::redis(stream).await,
        Check::Smtp => lines::smtp(stream).await,
        Check::Udp { .. } => Ok(()), // handled by `ask`
    }
}

/// Closes a connection gracefully: sends the end of TLS (`close_notify`) and reads the rest, as closing with unread
/// data would reset the connection. The result of the check does not wait for it.
#[expect(clippy::disallowed_methods, reason = "no worker runs checks, so there is no wheel")]
async fn part(mut stream: Box<dyn Carries>) {
    let parting = async {
        let _ = stream.shutdown().await;
        let mut rest = vec![0; 4096];
        while matches!(stream.read(&mut rest).await, Ok(1..)) {}
    };
    let _ = tokio::time::timeout(PARTING_MAX, parting).await;
}

/// Checks by an HTTP/1.1 request.
async fn http(stream: &mut Box<dyn Carries>, check: &Check, at: At<'_>) -> Result<(), Failure> {
    let Check::Http { method, path, host, expect, body } = check else { return Ok(()) };
    let host = at.host(host.as_deref());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: evenkeel-check\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    send(stream, request.as_bytes()).await?;
    let mut answer = Answer { stream, bytes: Vec::new() };
    let (status, framing) = answer.head(RequestContext { head: method == "HEAD", upgrade: false }).await?;
    if !is_expected(expect, status) {
        return Err(Failure::Status(status));
    }
    match body {
        Some(text) if !answer.body_has(framing, text.as_bytes()).await? => Err(Failure::Body),
        _ => Ok(()),
    }
}

/// TLS configuration of a check: offers the protocol of the check by ALPN, which may differ from that of requests.
fn offering(check: &Check, towards: &Towards) -> Arc<ClientConfig> {
    let protocol: &[u8] = if matches!(check, Check::Grpc { .. }) { b"h2" } else { b"http/1.1" };
    let mut config = towards.config();
    // Without ALPN, HTTP/1.1 is implied.
    let offers_none = config.alpn_protocols.is_empty() && protocol != b"h2";
    let is_named = matches!(check, Check::Http { .. } | Check::Grpc { .. });
    if !offers_none && is_named && config.alpn_protocols != [protocol] {
        Arc::make_mut(&mut config).alpn_protocols = vec![protocol.to_vec()];
    }
    config
}

/// Sends a datagram and judges the first answer. Fails at once if the port is unreachable.
async fn ask(addr: SocketAddr, send: &[u8], expect: Option<&[u8]>) -> Result<(), Failure> {
    let any: IpAddr = if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await.map_err(Failure::Connect)?;
    socket.connect(addr).await.map_err(Failure::Connect)?;
    socket.send(send).await.map_err(Failure::Connect)?;
    let mut answer = vec![0; BODY_MAX];
    let len = socket.recv(&mut answer).await.map_err(Failure::Connect)?;
    match expect {
        Some(bytes) if memchr::memmem::find(&answer[..len], bytes).is_none() => Err(Failure::Answer),
        _ => Ok(()),
    }
}

fn is_expected(expect: &[RangeInclusive<u16>], status: u16) -> bool {
    expect.iter().any(|range| range.contains(&status))
}

/// Response of an endpoint to an HTTP check.
struct Answer<'s> {
    stream: &'s mut Box<dyn Carries>,
    /// Bytes that were read and not yet consumed.
    bytes: Vec<u8>,
}

impl Answer<'_> {
    async fn read(&mut self) -> Result<usize, Failure> {
        self.stream.read_buf(&mut self.bytes).await.map_err(|_| Failure::Closed)
    }

    /// Status and framing of the final response.
    async fn head(&mut self, asked: RequestContext) -> Result<(u16, Body), Failure> {
        let mut interim = 0;
        loop {
            match self.next_head(asked)? {
                Some((true, ..)) if interim == INTERIM_MAX => return Err(Failure::Malformed(Reject::Malformed)),
                Some((true, ..)) => interim += 1,
                Some((false, status, body)) => return Ok((status, body)),
                None if self.read().await? == 0 => return Err(Failure::Closed),
                None => {}
            }
        }
    }

    /// Consumes a complete head. Returns true for an interim response, its status, and its framing.
    fn next_head(&mut self, asked: RequestContext) -> Result<Option<(bool, u16, Body)>, Failure> {
        let mut room = Room::new();
        let read = Response::read(&self.bytes, &mut room, asked, &LIMITS).map_err(Failure::Malformed)?;
        let Some(response) = read else { return Ok(None) };
        let head = (response.is_interim(), response.status, response.body.clone());
        let len = response.head_len();
        self.bytes.drain(..len);
        Ok(Some(head))
    }

    /// Returns true if `text` is within the first [`BODY_MAX`] bytes of the body.
    async fn body_has(&mut self, mut framing: Body, text: &[u8]) -> Result<bool, Failure> {
        let mut body = Vec::new();
        loop {
            let taken = framing.advance(&mut self.bytes, Keep::Content).map_err(Failure::Malformed)?;
            body.extend_from_slice(&self.bytes[..taken.kept]);
            self.bytes.clear();
            if memchr::memmem::find(&body, text).is_some() {
                return Ok(true);
            }
            if framing.is_done() || body.len() >= BODY_MAX {
                return Ok(false);
            }
            if self.read().await? == 0 {
                return if framing.may_end() { Ok(false) } else { Err(Failure::Closed) };
            }
        }
    }
}
