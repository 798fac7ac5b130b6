//! gRPC calls, in parallel over a single connection of `fetch`. See [`Calls`].

use evenkeel_fetch::{Fault, Server, Streams, is_close};
use hyper::body::Incoming;
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use prost::Message;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

/// Largest message of a server, in bytes.
const MESSAGE_MAX: usize = 64 << 20;

/// Characters of an error of the server that are logged.
const REASON_MAX: usize = 200;

/// Connection to a server of gRPC.
#[derive(Clone, Debug)]
pub struct Calls {
    streams: Streams<Body>,
    origin: Uri,
}

impl Calls {
    /// Connects to a server, which is asked for a sign of life when it has sent nothing for `ping_after`.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn connect(server: &Server, ping_after: Duration) -> Result<Calls, Fault> {
        Ok(Calls { streams: Streams::connect(server, ping_after).await?, origin: server.origin()? })
    }

    /// True if the connection has ended.
    #[cfg(feature = "etcd")]
    pub fn is_closed(&self) -> bool {
        self.streams.is_closed()
    }

    /// Calls a method with a single response.
    ///
    /// # Errors
    /// The status of the server, or `Unavailable` without a connection.
    #[cfg(feature = "etcd")]
    pub async fn unary<M, R>(&self, path: &'static str, request: tonic::Request<M>) -> Result<R, Status>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let mut calls = self.ready().await?;
        let answered = calls.unary(request, PathAndQuery::from_static(path), ProstCodec::<M, R>::default()).await?;
        Ok(answered.into_inner())
    }

    /// Calls a method with a stream of requests and a stream of responses.
    ///
    /// # Errors
    /// The status of the server, or `Unavailable` without a connection.
    pub async fn streaming<M, R>(
        &self,
        path: &'static str,
        requests: tonic::Request<impl Stream<Item = M> + Send + 'static>,
    ) -> Result<Streaming<R>, Status>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let mut calls = self.ready().await?;
        let answers = calls.streaming(requests, PathAndQuery::from_static(path), ProstCodec::<M, R>::default()).await?;
        Ok(answers.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Calls>, Status> {
        let mut calls = Grpc::with_origin(self.clone(), self.origin.clone()).max_decoding_message_size(MESSAGE_MAX);
        calls.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(calls)
    }
}

impl Service<Request<Body>> for Calls {
    type Response = Response<Incoming>;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Fault>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.streams.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.streams.send(request))
    }
}

/// Reason of a failed call, on a single line.
pub fn reason(status: &Status) -> String {
    if let Some(cause) = status.source().filter(|cause| is_close(*cause)) {
        return evenkeel_fetch::reason(cause);
    }
    let mut texts = vec![status.message().to_owned()];
    let mut cause = status.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.retain(|text| !text.is_empty());
    texts.dedup();
    let text = if texts.is_empty() { status.code().description().to_owned() } else { texts.join(": ") };
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON_MAX).collect();
    match status.code() {
        // The text explains these codes.
        Code::Unknown | Code::Unavailable | Code::Internal | Code::Cancelled => line,
        code => format!("{code:?}: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_short_line() {
        assert_eq!(reason(&Status::permission_denied("no\nrole")), "PermissionDenied: no role");
        assert_eq!(reason(&Status::unavailable("down")), "down");
        assert!(!reason(&Status::unavailable("")).is_empty());
        assert_eq!(reason(&Status::unknown("x".repeat(5000))).len(), REASON_MAX);
    }
}
