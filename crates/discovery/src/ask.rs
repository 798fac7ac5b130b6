//! Queries to name servers: over UDP, over TCP if the answer is truncated, and without EDNS if the server rejects EDNS.
//! Servers are tried in turn until a server answers.

use crate::message::{Question, Reply, name};
use crate::system::Conf;
use domain::base::Rtype;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Receive buffer for a datagram, in bytes. Above the size offered to servers, so that answers beyond it are
/// read too.
const DATAGRAM: usize = 4096;

/// Queries records of a name. Never returns [`Reply::Truncated`], [`Reply::NoEdns`] or [`Reply::Refused`].
///
/// # Errors
/// No server could answer. The reason is the failure of the last server queried.
pub async fn ask(conf: &Conf, host: &str, kind: Rtype) -> Result<Reply, String> {
    let Some(name) = name(host) else { return Err(format!("{host} is too long for a DNS name")) };
    let mut why = String::new();
    for _ in 0..conf.attempts {
        for &server in &conf.nameservers {
            // A new id for each try: an answer to an earlier query may still arrive.
            let question = |edns| Question { id: random_id(), name: name.clone(), kind, edns };
            let mut reply = once(server, &question(true), conf.timeout).await;
            if let Ok(Reply::NoEdns) = reply {
                reply = once(server, &question(false), conf.timeout).await;
            }
            why = match reply {
                Ok(Reply::Refused(code)) => format!("{server} answers {code}"),
                Ok(Reply::Truncated) => format!("{server} sent a truncated response, even over TCP"),
                Ok(reply) => return Ok(reply),
                Err(error) => format!("{server}: {error}"),
            };
        }
    }
    Err(format!("{host}: {why}"))
}

/// Random id of a query, by a keyed hash with a fresh key: an attacker who can guess it could forge an answer. The
/// port is random too, chosen by the kernel.
fn random_id() -> u16 {
    RandomState::new().build_hasher().finish() as u16
}

async fn once(server: SocketAddr, question: &Question, limit: Duration) -> io::Result<Reply> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}"));
    match tokio::time::timeout(limit, by_udp(server, question)).await.map_err(|_| late())?? {
        Reply::Truncated => tokio::time::timeout(limit, by_tcp(server, question)).await.map_err(|_| late())?,
        reply => Ok(reply),
    }
}

async fn by_udp(server: SocketAddr, question: &Question) -> io::Result<Reply> {
    let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
    // Filters datagrams by sender, and reports a closed port.
    socket.connect(server).await?;
    socket.send(&question.message()).await?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(reply) = question.read(&buffer[..length]) {
            return Ok(reply);
        }
    }
}

async fn by_tcp(server: SocketAddr, question: &Question) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(server).await?;
    let message = question.message();
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), &message[..]].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    question.read(&answer).ok_or_else(|| io::Error::other("the response over TCP does not match the query"))
}
