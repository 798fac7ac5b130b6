//! Connections over HTTP/2, whose requests run side by side. See [`Streams`].

use crate::fault::{Fault, reason};
use crate::server::Server;
use crate::socket::open;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::AbortHandle;

/// Time for the answer to a PING, after which the connection counts as dead.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection over HTTP/2, without negotiation where it is plain. It ends with the last clone.
#[derive(Debug)]
pub struct Streams<B> {
    sender: SendRequest<B>,
    task: Arc<Task>,
}

#[derive(Debug)]
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<B> Clone for Streams<B> {
    fn clone(&self) -> Self {
        Streams { sender: self.sender.clone(), task: self.task.clone() }
    }
}

impl<B> Streams<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Connects to a server, which is asked for a sign of life when it has sent nothing for `ping_after`. All requests fail
    /// if none comes within ten seconds.
    ///
    /// # Errors
    /// The server cannot be reached, or its certificate is not trusted.
    pub async fn connect(server: &Server, ping_after: Duration) -> Result<Streams<B>, Fault> {
        let socket = open(server, &[b"h2"]).await?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(ping_after).keep_alive_timeout(PING_TIMEOUT);
        let handshake = builder.keep_alive_while_idle(true).handshake(TokioIo::new(socket));
        let (sender, connection) = handshake.await.map_err(|error| reason(&error))?;
        let task = tokio::spawn(async move { _ = connection.await }).abort_handle();
        Ok(Streams { sender, task: Arc::new(Task(task)) })
    }

    /// True if the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Ready when a request can be sent.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.sender.poll_ready(cx).map_err(|error| reason(&error).into())
    }

    /// Sends a request with a complete URI, see [`Server::origin`].
    ///
    /// # Errors
    /// The connection has ended, or the server has reset the stream.
    pub fn send(
        &mut self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Incoming>, Fault>> + Send + use<B> {
        let response = self.sender.send_request(request);
        let task = self.task.clone();
        async move {
            let _connection = task;
            response.await.map_err(|error| reason(&error).into())
        }
    }
}

impl Server {
    /// URI of its root, for requests over HTTP/2.
    ///
    /// # Errors
    /// None, for a server of [`Server::at`].
    pub fn origin(&self) -> Result<Uri, Fault> {
        let scheme = if matches!(self.place, crate::server::Place::Tls { .. }) { "https" } else { "http" };
        Ok(Uri::builder()
            .scheme(scheme)
            .authority(&*self.authority)
            .path_and_query(format!("{}/", self.base))
            .build()?)
    }
}
