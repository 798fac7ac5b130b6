//! How does a command ask a running evenkeel? By the API of its admin: over its Unix socket, or over TCP with a token.

use crate::arguments::Where;
use crate::commands::check::read;
use crate::failure::{Failure, color, reason};
use bytes::Bytes;
use evenkeel_admin::api::problem::{Problem, WRONG_CONFIG};
use evenkeel_config::{Outcome, render_text};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH};
use hyper::http::request::Builder;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;

/// What is said of an answer that makes no sense.
const OTHER: &str = "the answer is not one of an evenkeel of this version";

/// Where the evenkeel is that is asked.
pub struct Client {
    at: At,
    token: Option<String>,
    runtime: Runtime,
}

enum At {
    Socket(PathBuf),
    Address(String),
}

impl Client {
    /// As the arguments say.
    ///
    /// # Errors
    /// They name a file that cannot be used.
    pub fn new(place: &Where) -> Result<Client, Failure> {
        let at = match (&place.admin, &place.config) {
            (Some(address), _) => At::Address(address.clone()),
            (None, Some(file)) => At::Socket(socket_of(file)?),
            (None, None) => At::Socket(place.socket.clone()),
        };
        let token = |file: &PathBuf| {
            let text = std::fs::read_to_string(file).map(|text| text.trim().to_owned());
            text.map_err(|error| Failure::running(format!("cannot read {}: {}", file.display(), reason(&error))))
        };
        let token = place.token_file.as_ref().map(token).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::running(format!("cannot make an event loop: {error}")))?;
        Ok(Client { at, token, runtime })
    }

    /// Reads what is at this path.
    ///
    /// # Errors
    /// There is no answer, or it is a problem.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(&Method::GET, path, None)
    }

    /// Asks for a change. `body`: JSON.
    ///
    /// # Errors
    /// There is no answer, or it is a problem.
    pub fn ask<T: DeserializeOwned>(&self, method: &Method, path: &str, body: Option<String>) -> Result<T, Failure> {
        let text = self.text(method, path, body)?;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    /// The same, with the answer as it came.
    ///
    /// # Errors
    /// There is no answer, or it is a problem.
    pub fn text(&self, method: &Method, path: &str, body: Option<String>) -> Result<String, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        self.answer(request, body.unwrap_or_default())
    }

    /// Asks for something with the text of a configuration, if this generation runs.
    ///
    /// # Errors
    /// There is no answer, or it is a problem.
    pub fn propose<T: DeserializeOwned>(&self, path: &str, generation: u64, text: String) -> Result<T, Failure> {
        let request = Request::builder().method(Method::POST).uri(path).header(IF_MATCH, format!("\"{generation}\""));
        let text = self.answer(request.header(CONTENT_TYPE, "application/toml"), text)?;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    /// Asks for a change, unless another has made one since this version.
    ///
    /// # Errors
    /// There is no answer, or it is a problem.
    pub fn ask_if<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<String>,
        version: &str,
    ) -> Result<T, Failure> {
        let mut request = Request::builder().method(method).uri(path).header(IF_MATCH, version);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let text = self.answer(request, body.unwrap_or_default())?;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    fn answer(&self, request: Builder, body: String) -> Result<String, Failure> {
        self.runtime.block_on(async {
            let response = self.send(request, body).await?;
            let status = response.status();
            let body =
                response.into_body().collect().await.map_err(|error| self.failed(&error.to_string()))?.to_bytes();
            let text = String::from_utf8_lossy(&body).into_owned();
            if status.is_success() { Ok(text) } else { Err(self.problem(&text)) }
        })
    }

    /// Follows what is at this path: gives each event's data to `take`, until the other side ends, or `take` wants no more.
    ///
    /// # Errors
    /// There is no answer, or it is a problem.
    pub fn follow(&self, path: &str, mut take: impl FnMut(&str) -> bool) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let request = Request::builder().uri(path).header(ACCEPT, "text/event-stream");
            let response = self.send(request, String::new()).await?;
            let status = response.status();
            let mut body = response.into_body();
            let mut held = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.map_err(|error| self.failed(&error.to_string()))?.into_data() else { continue };
                held.extend_from_slice(&data);
                while let Some(end) = held.iter().position(|&byte| byte == b'\n').filter(|_| status.is_success()) {
                    let line: Vec<u8> = held.drain(..=end).collect();
                    if let Some(data) = line.strip_prefix(b"data:")
                        && !take(String::from_utf8_lossy(data).trim())
                    {
                        return Ok(());
                    }
                }
            }
            if status.is_success() { Ok(()) } else { Err(self.problem(&String::from_utf8_lossy(&held))) }
        })
    }

    async fn send(&self, mut request: Builder, body: String) -> Result<Response<Incoming>, Failure> {
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let host = match &self.at {
            At::Socket(_) => "localhost",
            At::Address(address) => address,
        };
        let request = request.header(HOST, host).body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| self.failed(&error.to_string()))?;
        let cannot = |error: std::io::Error| self.failed(&reason(&error));
        match &self.at {
            At::Socket(path) => self.exchange(UnixStream::connect(path).await.map_err(cannot)?, request).await,
            At::Address(address) => self.exchange(TcpStream::connect(address).await.map_err(cannot)?, request).await,
        }
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let failed = |error: hyper::Error| self.failed(&error.to_string());
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // It ends with the connection, which says no more then than the response does.
        drop(tokio::spawn(connection));
        sender.send_request(request).await.map_err(failed)
    }

    fn failed(&self, why: &str) -> Failure {
        let at = match &self.at {
            At::Socket(path) => path.display().to_string(),
            At::Address(address) => address.clone(),
        };
        Failure::running(format!("cannot ask at {at}: {why}"))
    }

    fn problem(&self, text: &str) -> Failure {
        match serde_json::from_str::<Problem>(text) {
            Ok(problem) if problem.code == WRONG_CONFIG => {
                eprint!("{}", problem.detail);
                Failure::config()
            }
            Ok(problem) => Failure::running(problem.detail.trim_end()),
            Err(_) => self.failed(text.trim()),
        }
    }
}

/// Where the evenkeel that runs this file listens for such questions.
///
/// # Errors
/// The file is wrong, or names no socket.
pub fn socket_of(file: &Path) -> Result<PathBuf, Failure> {
    let Outcome { plan, diagnostics } = read(file);
    let Some(plan) = plan else {
        eprint!("{}", render_text(&diagnostics, color()));
        return Err(Failure::config());
    };
    plan.admin.and_then(|admin| admin.socket).ok_or_else(|| {
        Failure::running(format!(
            "{} has no socket to ask at: add [admin] with bind = \"unix:/run/evenkeel/admin.sock\"; until then, \
             SIGHUP does the same as a reload",
            file.display()
        ))
    })
}
