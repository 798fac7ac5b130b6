//! Idle connections, which are silent after a request: over HTTP/1.1 by blocking clients, over HTTP/2 by tasks of one
//! thread, over HTTP/3 by clients that are driven.

use crate::balancers::Front;
use crate::child;
use crate::client::tls::{self, Tls, Version};
use crate::error::{Error, Result, While};
use crate::http::{self, local};
use crate::load::http3::{self, Fleet};
use bytes::Bytes;
use h2::client::SendRequest;
use std::net::TcpStream;
use tokio::net::TcpStream as AsyncStream;
use tokio::runtime::Runtime;

/// Connections held open by the client.
pub enum Idle {
    /// HTTP/1.1 without TLS.
    Http1(Vec<TcpStream>),
    /// HTTP/1.1 over TLS.
    Https(Vec<Tls>),
    /// HTTP/2 without TLS; the runtime keeps their tasks.
    H2c(Runtime, Vec<SendRequest<Bytes>>),
    /// HTTP/3, in groups: those that are open already need not be driven while others connect.
    H3(Vec<Fleet>),
}

/// Most clients of HTTP/3 that connect at once.
const GROUP: u32 = 250;

impl Idle {
    /// Starts without any connections.
    ///
    /// # Errors
    /// If the event loop cannot be created, or idle connections of this kind are not supported.
    pub fn none(front: Front) -> Result<Idle> {
        match front {
            Front::Http1 | Front::Tcp => Ok(Idle::Http1(Vec::new())),
            Front::Https => Ok(Idle::Https(Vec::new())),
            Front::H2c => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                Ok(Idle::H2c(runtime.or_say(|| "cannot run clients of HTTP/2".into())?, Vec::new()))
            }
            Front::H3 => Ok(Idle::H3(Vec::new())),
            _ => Err(Error::Wrong("there are no idle clients of this kind".into())),
        }
    }

    /// Opens `count` more connections, and sends a request on each.
    ///
    /// # Errors
    /// If a connection fails or a response is not a 200.
    pub fn open(&mut self, count: u32, port: u16, path: &str) -> Result<()> {
        match self {
            Idle::Http1(held) => {
                for _ in 0..count {
                    child::go_on()?;
                    let mut stream = http::connect(port)?;
                    http::get(&mut stream, path, "1.1")?;
                    held.push(stream);
                }
            }
            Idle::Https(held) => {
                // No resumption: each client connects only once.
                let config = tls::config(Version::Tls13, false)?;
                for _ in 0..count {
                    child::go_on()?;
                    let mut stream = tls::connect(port, &config)?;
                    http::get(&mut stream, path, "1.1")?;
                    held.push(stream);
                }
            }
            Idle::H2c(runtime, held) => {
                for _ in 0..count {
                    child::go_on()?;
                    held.push(runtime.block_on(ask_first(port, path))?);
                }
            }
            Idle::H3(held) => {
                let mut left = count;
                while left > 0 {
                    let group = left.min(GROUP);
                    held.push(http3::idle(port, path, group)?);
                    left -= group;
                }
            }
        }
        Ok(())
    }

    /// Sends another request on every hundredth connection, to detect a proxy that has closed idle connections.
    ///
    /// # Errors
    /// If any of these is not answered.
    pub fn ask_again(&mut self, path: &str) -> Result<()> {
        match self {
            Idle::Http1(held) => {
                held.iter_mut().step_by(100).try_for_each(|stream| http::get(stream, path, "1.1").map(drop))
            }
            Idle::Https(held) => {
                held.iter_mut().step_by(100).try_for_each(|stream| http::get(stream, path, "1.1").map(drop))
            }
            Idle::H2c(runtime, held) => {
                held.iter_mut().step_by(100).try_for_each(|client| runtime.block_on(ask(client, path)))
            }
            Idle::H3(held) => held.iter_mut().try_for_each(|fleet| fleet.ask_again(100)),
        }
    }
}

async fn ask_first(port: u16, path: &str) -> Result<SendRequest<Bytes>> {
    let stream = AsyncStream::connect(local(port)).await.or_say(|| format!("cannot connect to port {port}"))?;
    stream.set_nodelay(true).or_say(|| "cannot set up a connection".into())?;
    let (mut client, connection) = h2::client::handshake(stream).await.map_err(|error| refused(path, &error))?;
    // The task runs until the client is dropped.
    tokio::spawn(connection);
    ask(&mut client, path).await?;
    Ok(client)
}

async fn ask(client: &mut SendRequest<Bytes>, path: &str) -> Result<()> {
    let failed = |error: h2::Error| refused(path, &error);
    let request = ::http::Request::get(format!("http://lab.test{path}")).body(());
    let request = request.map_err(|error| Error::Wrong(format!("cannot ask for {path}: {error}")))?;
    let (response, _) = client.send_request(request, true).map_err(failed)?;
    let response = response.await.map_err(failed)?;
    if response.status() != ::http::StatusCode::OK {
        return Err(Error::Refused(format!("the answer is {}, not a 200", response.status())));
    }
    let mut body = response.into_body();
    while let Some(part) = body.data().await {
        let part = part.map_err(failed)?;
        body.flow_control().release_capacity(part.len()).map_err(failed)?;
    }
    Ok(())
}

fn refused(path: &str, error: &h2::Error) -> Error {
    Error::Refused(format!("cannot get {path} over HTTP/2: {error}"))
}
