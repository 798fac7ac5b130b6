//! HTTP/2 client: requests, gRPC calls and gRPC streams. Uses an implementation other than evenkeel's, so that they do
//! not share bugs.

use crate::endpoint::http2::{STREAM, message};
use crate::endpoint::{Ask, Id};
use ::http::{HeaderMap, Request, Response, StatusCode};
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};

type Outcome<T> = Result<T, String>;

/// Size of a message on streams, in bytes.
const MESSAGE: usize = 100;

/// Connection, shared by its clones.
#[derive(Clone)]
pub struct Connection(SendRequest<Bytes>);

pub struct Whole {
    pub status: u16,
    /// Value of `grpc-status`, from the head or the trailers.
    pub grpc: Option<String>,
    pub body: Bytes,
}

/// Reason why there is no complete answer.
#[derive(Debug)]
pub enum Failed {
    /// The peer had sent GOAWAY without an error: the request was not sent.
    Announced,
    /// No response head arrived.
    NoAnswer(h2::Error),
    Cut(h2::Error),
}

impl Failed {
    /// True if the connection ends with the request.
    pub fn ends_connection(&self) -> bool {
        match self {
            Failed::Announced => true,
            Failed::NoAnswer(error) | Failed::Cut(error) => !error.is_reset(),
        }
    }
}

impl Connection {
    /// Opens a connection over a connected stream.
    ///
    /// # Errors
    /// The other side does not support HTTP/2; the failure as the client saw it.
    pub async fn open(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Outcome<Connection> {
        let (client, connection) = h2::client::handshake(stream).await.map_err(|error| saw("connect", &error))?;
        // The task runs until the last clone and the last stream are dropped.
        tokio::spawn(connection);
        Ok(Connection(client))
    }

    /// Returns true if it accepts further requests, false after a GOAWAY without an error.
    ///
    /// # Errors
    /// If it ended without such a GOAWAY.
    pub async fn takes_more(&self) -> Outcome<bool> {
        match self.0.clone().ready().await {
            Ok(_) => Ok(true),
            Err(error) if announces_end(&error) => Ok(false),
            Err(error) => Err(saw("a kept connection", &error)),
        }
    }

    /// Sends the request of this id and reads the response. Sets `begun` once the head has arrived, for callers that do
    /// not wait for the end.
    ///
    /// # Errors
    /// If there is no complete response.
    pub async fn exchange(self, id: Id, ask: Ask, begun: &mut bool) -> Result<Whole, Failed> {
        // The lab's endpoints need the length of a body.
        let (request, content) = match ask {
            Ask::Get => (Request::get(uri(&id.path())), None),
            Ask::Post => {
                let content = id.posted();
                (Request::post(uri(&id.path())).header("content-length", content.len()), Some(content))
            }
            Ask::Call => (call(&id.call_path()), Some(message(&id.posted()))),
        };
        let request = request.body(()).expect("its parts are right");
        let failed = |error: h2::Error| match announces_end(&error) {
            true => Failed::Announced,
            false => Failed::NoAnswer(error),
        };
        let mut client = self.0.ready().await.map_err(failed)?;
        let (response, mut send) = client.send_request(request, content.is_none()).map_err(failed)?;
        if let Some(content) = content {
            send.send_data(content.into(), true).map_err(Failed::NoAnswer)?;
        }
        let (head, mut body) = response.await.map_err(Failed::NoAnswer)?.into_parts();
        *begun = true;
        let mut whole = BytesMut::new();
        while let Some(part) = part(&mut body).await.map_err(Failed::Cut)? {
            whole.extend_from_slice(&part);
        }
        let trailers = body.trailers().await.map_err(Failed::Cut)?;
        let grpc = trailers.as_ref().and_then(grpc_status).or_else(|| grpc_status(&head.headers));
        Ok(Whole { status: head.status.as_u16(), grpc, body: whole.freeze() })
    }

    /// Opens a gRPC stream.
    ///
    /// # Errors
    /// If the stream is refused.
    pub async fn call(self) -> Outcome<Call> {
        let request = call(STREAM).body(()).expect("its parts are right");
        let failed = |error: h2::Error| saw("refused", &error);
        let mut client = self.0.ready().await.map_err(failed)?;
        let (response, send) = client.send_request(request, false).map_err(failed)?;
        let body = right(response.await.map_err(failed)?)?;
        Ok(Call { send, body, _connection: Connection(client) })
    }
}

fn announces_end(error: &h2::Error) -> bool {
    error.is_go_away() && error.reason() == Some(Reason::NO_ERROR)
}

/// gRPC stream on which each message is echoed.
pub struct Call {
    send: SendStream<Bytes>,
    body: RecvStream,
    _connection: Connection,
}

impl Call {
    /// Sends a message and waits for its echo.
    ///
    /// # Errors
    /// If the stream ends, or another message comes back.
    pub async fn echo(&mut self) -> Outcome<()> {
        let message = message(&crate::origin::content(MESSAGE));
        self.send.send_data(message.clone().into(), false).map_err(|error| saw("dropped", &error))?;
        let mut back = BytesMut::new();
        while back.len() < message.len() {
            let part = part(&mut self.body).await.map_err(|error| saw("cut", &error))?;
            back.extend_from_slice(&part.ok_or("dropped: ended")?);
        }
        if back == message { Ok(()) } else { Err("another message came back".into()) }
    }

    /// Ends the stream, and waits for its status.
    ///
    /// # Errors
    /// If the status is not 0.
    pub async fn end(mut self) -> Outcome<()> {
        self.send.send_data(Bytes::new(), true).map_err(|error| saw("dropped", &error))?;
        while part(&mut self.body).await.map_err(|error| saw("cut", &error))?.is_some() {}
        let trailers = self.body.trailers().await.map_err(|error| saw("dropped", &error))?;
        match trailers.as_ref().and_then(grpc_status).as_deref() {
            Some("0") => Ok(()),
            _ => Err("no status at the end".into()),
        }
    }
}

fn uri(path: &str) -> String {
    format!("http://lab.test{path}")
}

fn call(path: &str) -> ::http::request::Builder {
    Request::post(uri(path)).header("content-type", "application/grpc").header("te", "trailers")
}

fn grpc_status(fields: &HeaderMap) -> Option<String> {
    fields.get("grpc-status")?.to_str().ok().map(str::to_owned)
}

fn right(response: Response<RecvStream>) -> Outcome<RecvStream> {
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        status => Err(status.as_str().to_owned()),
    }
}

async fn part(body: &mut RecvStream) -> Result<Option<Bytes>, h2::Error> {
    let Some(part) = body.data().await else { return Ok(None) };
    let part = part?;
    body.flow_control().release_capacity(part.len())?;
    Ok(Some(part))
}

/// Describes an error for reports.
pub fn saw(what: &str, error: &h2::Error) -> String {
    format!("{what}: {error}")
}
