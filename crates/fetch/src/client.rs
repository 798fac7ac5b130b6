//! Requests over connections in sequence. See [`Client`].

use crate::fault::{Fault, reason};
use crate::server::Server;
use crate::socket::open;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

/// Client of a server. A connection is kept until the server closes it.
#[derive(Debug)]
pub struct Client {
    server: Server,
    kept: Option<Connection>,
}

/// Connection, which ends when this is dropped, so that no server holds a connection for longer.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    pub fn new(server: Server) -> Client {
        Client { server, kept: None }
    }

    /// Sends a request, and returns its response with a body of at most `max` bytes. Redirects are not followed. The
    /// path of the request begins below the path of the server. A request that is dropped before its response closes
    /// the connection: put a time limit around it.
    ///
    /// # Errors
    /// The server cannot be reached, breaks off, or sends more.
    pub async fn whole(&mut self, request: Request<Full<Bytes>>, max: usize) -> Result<Response<Bytes>, Fault> {
        let (connection, response) = self.respond(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max).collect().await.map_err(|error| -> Fault {
            if error.is::<LengthLimitError>() {
                return format!("the answer is larger than {} KiB", max / 1024).into();
            }
            reason(&*error).into()
        })?;
        self.kept = Some(connection);
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Sends a request, and returns its response with a body that is read while it comes. Its connection ends with it.
    ///
    /// # Errors
    /// The server cannot be reached, or breaks off.
    pub async fn streamed(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Streamed>, Fault> {
        let (connection, response) = self.respond(request).await?;
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(head, Streamed { body, _connection: connection }))
    }

    async fn respond(&mut self, mut request: Request<Full<Bytes>>) -> Result<(Connection, Response<Incoming>), Fault> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = Uri::try_from(format!("{}{path}", self.server.base))?;
        let fields = request.headers_mut();
        fields.insert(HOST, HeaderValue::try_from(&self.server.authority)?);
        fields.insert(USER_AGENT, HeaderValue::from_static(concat!("evenkeel/", env!("CARGO_PKG_VERSION"))));
        if let Some(mut connection) = self.kept.take()
            && connection.sender.ready().await.is_ok()
        {
            match connection.sender.send_request(request.clone()).await {
                Ok(response) => return Ok((connection, response)),
                // A server may close an idle connection at any time.
                Err(error) if request.method() == Method::GET && !error.is_parse() => {}
                Err(error) => return Err(reason(&error).into()),
            }
        }
        let mut connection = begin(TokioIo::new(open(&self.server, &[]).await?)).await?;
        let response = connection.sender.send_request(request).await.map_err(|error| reason(&error))?;
        Ok((connection, response))
    }
}

/// Body of a response that is read while it comes.
#[derive(Debug)]
pub struct Streamed {
    pub(crate) body: Incoming,
    _connection: Connection,
}

async fn begin(stream: impl Read + Write + Unpin + Send + 'static) -> Result<Connection, Fault> {
    let (sender, connection) = handshake(stream).await.map_err(|error| reason(&error))?;
    let task = tokio::spawn(async move { _ = connection.await }).abort_handle();
    Ok(Connection { sender, task })
}
