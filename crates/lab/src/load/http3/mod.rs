//! Load over HTTP/3 by clients of the lab's own: connections with a number of concurrent streams each, or a connection for
//! each request. One thread on the state machine of quinn; each client has its own socket, as clients have.

// Order: fleet, client, response
mod client;
mod fleet;
mod response;

use super::{Answered, answered};
use crate::client::tls;
use crate::error::{Error, Result};
use crate::origin;
use client::Asks;
pub use fleet::Fleet;
use quinn_proto::ClientConfig;
use quinn_proto::crypto::rustls::QuicClientConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers of connections and of streams on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3 {
    pub clients: u32,
    /// Concurrent requests on each connection.
    pub streams: u32,
    /// True for a new connection after the responses to the requests of a connection.
    pub reconnects: bool,
}

/// Time for the handshakes of a load.
const HANDSHAKES: Duration = Duration::from_secs(10);

impl Http3 {
    /// Requests `path` on a port of this machine for some seconds; every response must be a whole 200.
    ///
    /// # Errors
    /// If a connection or a request fails.
    pub fn run(self, port: u16, path: &str, seconds: u64) -> Result<Answered> {
        let asks = asks(path, self.streams, self.reconnects)?;
        let began = Instant::now();
        let mut fleet = Fleet::open(port, config()?, asks, self.clients)?;
        // The handshakes may take longer than the load on a busy machine.
        fleet.drive(began + HANDSHAKES, self.reconnects, |fleet| fleet.answered() >= u64::from(self.clients))?;
        fleet.drive(Instant::now() + Duration::from_secs(seconds), self.reconnects, |_| false)?;
        let took = began.elapsed().as_secs_f64();
        answered(Some(fleet.answered()), Some(took)).map_err(Error::Refused)
    }
}

/// Events of a client whose connection is kept.
pub trait Observer {
    /// True once no more requests are to be sent.
    fn is_ending(&self) -> bool;
    /// So many requests were answered.
    fn done(&self, count: u64);
    /// So many requests were lost, as the client saw it.
    fn failed(&self, count: usize, why: String);
}

/// Requests `path`, whose body has `len` bytes, on a kept connection until `observer` ends it. A connection that ends is
/// replaced, as clients do; requests that the proxy has left to another connection are not lost.
///
/// # Errors
/// If the settings of a client cannot be made.
pub fn keep(port: u16, path: &str, len: u64, streams: u32, observer: &impl Observer) -> Result<()> {
    /// Time between two looks at the client.
    const SLICE: Duration = Duration::from_millis(50);
    /// Longest time without a datagram for requests that wait.
    const SILENCE: Duration = Duration::from_secs(10);
    let config = config()?;
    while !observer.is_ending() {
        let asks = Asks { request: response::get(path).into(), streams, len, is_single: false, keeps_body: false };
        let mut fleet = Fleet::open(port, config.clone(), asks, 1)?;
        let mut counted = 0;
        loop {
            if observer.is_ending() {
                fleet.clients[0].stop();
            }
            let driven = fleet.drive(Instant::now() + SLICE, false, |_| false);
            let answered = fleet.answered();
            observer.done(answered - counted);
            counted = answered;
            let client = &fleet.clients[0];
            let (waiting, is_silent) = (client.waiting(), client.heard.elapsed() > SILENCE);
            let lost = waiting.max(usize::from(!client.goes_away()));
            match driven {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    if lost > 0 {
                        let why = if let Error::Refused(why) = error { why } else { error.to_string() };
                        observer.failed(lost, why);
                    }
                    break;
                }
                Ok(()) if is_silent => {
                    observer.failed(lost.max(1), "late".into());
                    break;
                }
                Ok(()) if waiting == 0 && (client.goes_away() || observer.is_ending()) => break,
                Ok(()) => {}
            }
        }
    }
    Ok(())
}

/// Opens idle clients: each has sent a request, and is silent since it has the response.
///
/// # Errors
/// If a connection fails, or a response is not a 200.
pub fn idle(port: u16, path: &str, clients: u32) -> Result<Fleet> {
    /// Time without datagrams after which a proxy has sent everything that it sends to a new client.
    const QUIET: Duration = Duration::from_millis(60);
    let mut fleet = Fleet::open(port, config()?, asks(path, 1, true)?, clients)?;
    fleet.drive(Instant::now() + HANDSHAKES, false, |fleet| {
        fleet.clients.iter().all(|client| client.answered > 0 && client.heard.elapsed() > QUIET)
    })?;
    let is_done = fleet.clients.iter().all(|client| client.answered > 0);
    if is_done { Ok(fleet) } else { Err(Error::Refused("some connections of HTTP/3 were not answered".into())) }
}

/// Requests `path`, and returns the body of a 200.
///
/// # Errors
/// If there is none.
pub fn get(port: u16, path: &str) -> Result<Vec<u8>> {
    let asks = Asks { keeps_body: true, ..asks(path, 1, true)? };
    let mut fleet = Fleet::open(port, config()?, asks, 1)?;
    fleet.drive(Instant::now() + HANDSHAKES, false, |fleet| fleet.answered() > 0)?;
    let body = fleet.clients.first_mut().and_then(|client| client.body.take());
    body.ok_or_else(|| Error::Refused(format!("{path} is not answered over HTTP/3")))
}

fn asks(path: &str, streams: u32, is_single: bool) -> Result<Asks> {
    let file = origin::FILES.iter().find(|(name, _)| *name == path);
    let (_, len) = file.ok_or_else(|| Error::Wrong(format!("there is no file {path}")))?;
    let request = response::get(path).into();
    Ok(Asks { request, streams, len: *len as u64, is_single, keeps_body: false })
}

/// Settings of clients: any certificate, TLS sessions that are not resumed.
fn config() -> Result<ClientConfig> {
    let tls = QuicClientConfig::try_from(tls::http3()?);
    let tls = tls.map_err(|error| Error::Wrong(format!("no clients of HTTP/3: {error}")))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(client::transport()));
    Ok(config)
}
