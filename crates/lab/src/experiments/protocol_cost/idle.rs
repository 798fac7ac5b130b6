//! Idle connections, which sent one request and then do nothing: over HTTP/1.1 by clients that block, over HTTP/2 by tasks of one
//! thread.

use crate::balancers::Front;
use crate::child;
use crate::client::tls::{self, Tls, Version};
use crate::error::{Error, Result, While};
use crate::http::{self, local};
use bytes::Bytes;
use h2::client::SendRequest;
use std::net::TcpStream;
use tokio::net::TcpStream as AsyncStream;
use tokio::runtime::Runtime;

/// Connections that one client holds.
pub enum Idle {
    /// HTTP/1.1 without TLS.
    Http1(Vec<TcpStream>),
    /// HTTP/1.1 over TLS.
    Https(Vec<Tls>),
    /// HTTP/2 without TLS; the runtime keeps their tasks.
    H2c(Runtime, Vec<SendRequest<Bytes>>),
}

impl Idle {
    /// None yet.
    ///
    /// # Errors
    /// If the system refuses what they need, or idle connections of this kind are not known.
    pub fn none(front: Front) -> Result<Idle> {
        match front {
            Front::Http1 | Front::Tcp => Ok(Idle::Http1(Vec::new())),
            Front::Https => Ok(Idle::Https(Vec::new())),
            Front::H2c => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                Ok(Idle::H2c(runtime.or_say(|| "cannot run clients of HTTP/2".into())?, Vec::new()))
            }
            _ => Err(Error::Wrong("there are no idle clients of this kind".into())),
        }
    }

    /// Opens so many more, each of which asks once.
    ///
    /// # Errors
    /// If one is not answered as it should be.
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
                // Tickets are for later connections, which there are not.
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
        }
        Ok(())
    }

    /// Asks once more on some of them: a proxy that had closed them would seem to need little memory.
    ///
    /// # Errors
    /// If one is not answered.
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
        }
    }
}

async fn ask_first(port: u16, path: &str) -> Result<SendRequest<Bytes>> {
    let stream = AsyncStream::connect(local(port)).await.or_say(|| format!("cannot connect to port {port}"))?;
    stream.set_nodelay(true).or_say(|| "cannot set up a connection".into())?;
    let (mut client, connection) = h2::client::handshake(stream).await.map_err(|error| refused(path, &error))?;
    // It runs until the client is dropped.
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
