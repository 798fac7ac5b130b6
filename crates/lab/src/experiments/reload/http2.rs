//! How does a client of HTTP/2 ask, and what does it see? Requests and streams of gRPC on connections of another
//! implementation than evenkeel's.

use super::super::protocol_cost::{STREAM, message};
use crate::endpoint::Id;
use ::http::{Request, Response, StatusCode};
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};

type Outcome<T> = Result<T, String>;

/// A connection, shared by its clones.
#[derive(Clone)]
pub struct Connection(SendRequest<Bytes>);

impl Connection {
    /// Over a connected stream.
    ///
    /// # Errors
    /// What the client saw, if the other side does not speak HTTP/2.
    pub async fn open(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Outcome<Connection> {
        let (client, connection) = h2::client::handshake(stream).await.map_err(|error| saw("connect", &error))?;
        // It runs until the last clone and the last stream are gone.
        tokio::spawn(connection);
        Ok(Connection(client))
    }

    /// Whether it takes further requests; not once the other side announced that it will end it.
    ///
    /// # Errors
    /// If it ended without that.
    pub async fn takes_more(&self) -> Outcome<bool> {
        match self.0.clone().ready().await {
            Ok(_) => Ok(true),
            Err(error) if announces_end(&error) => Ok(false),
            Err(error) => Err(saw("a kept connection", &error)),
        }
    }

    /// Asks for what the endpoints answer to this number. `false` if the other side announced before that it takes no more
    /// requests: then nothing was sent.
    ///
    /// # Errors
    /// If that is not what came.
    pub async fn ask(self, id: Id) -> Outcome<bool> {
        let posts = id.number.is_multiple_of(5);
        // Endpoints take no body whose length they are not told.
        let request = match posts {
            true => Request::post(uri(&id.path())).header("content-length", id.posted().len()),
            false => Request::get(uri(&id.path())),
        };
        let request = request.body(()).map_err(|error| error.to_string())?;
        let failed = |error: h2::Error| saw("no answer", &error);
        let sent = match self.0.ready().await {
            Ok(mut client) => client.send_request(request, !posts),
            Err(error) => Err(error),
        };
        let (response, mut body) = match sent {
            Ok(sent) => sent,
            Err(error) if announces_end(&error) => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        if posts {
            body.send_data(id.posted().into(), true).map_err(failed)?;
        }
        let mut body = right(response.await.map_err(failed)?)?;
        let mut whole = BytesMut::new();
        while let Some(part) = part(&mut body).await? {
            whole.extend_from_slice(&part);
        }
        if whole == id.answer() { Ok(true) } else { Err("wrong answer".into()) }
    }

    /// Opens a stream of gRPC.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn call(self) -> Outcome<Call> {
        let request = Request::post(uri(STREAM)).header("content-type", "application/grpc").header("te", "trailers");
        let request = request.body(()).map_err(|error| error.to_string())?;
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

/// A stream of gRPC on which each message comes back.
pub struct Call {
    send: SendStream<Bytes>,
    body: RecvStream,
    _connection: Connection,
}

impl Call {
    /// Sends a message and waits until it is back.
    ///
    /// # Errors
    /// If the stream is dropped.
    pub async fn echo(&mut self) -> Outcome<()> {
        let message = message();
        self.send.send_data(message.clone().into(), false).map_err(|error| saw("dropped", &error))?;
        let mut back = BytesMut::new();
        while back.len() < message.len() {
            back.extend_from_slice(&part(&mut self.body).await?.ok_or("dropped: ended")?);
        }
        if back == message { Ok(()) } else { Err("another message came back".into()) }
    }

    /// Ends the stream, and waits for its status.
    ///
    /// # Errors
    /// If that is not of success.
    pub async fn end(mut self) -> Outcome<()> {
        self.send.send_data(Bytes::new(), true).map_err(|error| saw("dropped", &error))?;
        while part(&mut self.body).await?.is_some() {}
        let trailers = self.body.trailers().await.map_err(|error| saw("dropped", &error))?;
        match trailers.as_ref().and_then(|trailers| trailers.get("grpc-status")) {
            Some(status) if status == "0" => Ok(()),
            _ => Err("no status at the end".into()),
        }
    }
}

fn uri(path: &str) -> String {
    format!("http://lab.test{path}")
}

fn right(response: Response<RecvStream>) -> Outcome<RecvStream> {
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        status => Err(status.as_str().to_owned()),
    }
}

async fn part(body: &mut RecvStream) -> Outcome<Option<Bytes>> {
    let Some(part) = body.data().await else { return Ok(None) };
    let part = part.map_err(|error| saw("cut", &error))?;
    body.flow_control().release_capacity(part.len()).map_err(|error| saw("cut", &error))?;
    Ok(Some(part))
}

fn saw(what: &str, error: &h2::Error) -> String {
    format!("{what}: {error}")
}
