//! An HTTP/2 endpoint based on the crate `h2`: a task of the test answers each request.

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

/// Handler of a request, run as a task.
pub type Answer = Arc<dyn Fn(Exchange) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A server on a thread of its own, stopped on drop.
pub struct H2Server {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    accepted: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
    /// Makes all connections send GOAWAY.
    go_away: Notify,
}

/// Head of a request, as the endpoint got it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub uri: String,
    pub headers: HeaderMap,
}

impl Seen {
    /// First value of a field; `None` if it is not ASCII.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A request, and the means to answer it.
pub struct Exchange {
    pub request: Request<()>,
    pub body: RecvStream,
    pub respond: SendResponse<Bytes>,
}

impl Exchange {
    /// Path of the request, without its query.
    pub fn path(&self) -> &str {
        self.request.uri().path()
    }

    /// Reads the whole body, and the trailers after it.
    pub async fn read(&mut self) -> (Vec<u8>, Option<HeaderMap>) {
        let mut all = Vec::new();
        while let Some(Ok(part)) = self.body.data().await {
            let _ = self.body.flow_control().release_capacity(part.len());
            all.extend_from_slice(&part);
        }
        (all, self.body.trailers().await.ok().flatten())
    }

    /// Sends a head, a body as fast as the windows allow, and trailers if there are any.
    pub async fn reply(&mut self, status: u16, fields: &[(&str, &str)], body: &[u8], trailers: &[(&str, &str)]) {
        let mut head = Response::builder().status(status);
        for (name, value) in fields {
            head = head.header(*name, *value);
        }
        let ends = body.is_empty() && trailers.is_empty();
        let Ok(mut send) = self.respond.send_response(head.body(()).expect("a good head"), ends) else { return };
        let mut left = Bytes::copy_from_slice(body);
        while !left.is_empty() {
            send.reserve_capacity(left.len());
            let Some(Ok(room)) = poll_fn(|cx| send.poll_capacity(cx)).await else { return };
            let part = left.split_to(room.min(left.len()));
            if send.send_data(part, left.is_empty() && trailers.is_empty()).is_err() {
                return;
            }
        }
        if !trailers.is_empty() {
            let mut map = HeaderMap::new();
            for (name, value) in trailers {
                map.insert(
                    http::HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                    value.parse().expect("a value"),
                );
            }
            let _ = send.send_trailers(map);
        }
    }

    /// Resets the stream with this reason.
    pub fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }
}

impl H2Server {
    /// Starts a server that answers each request with `answer`.
    pub fn start<F>(answer: impl Fn(Exchange) -> F + Send + Sync + 'static) -> H2Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        H2Server::with(|_| {}, answer)
    }

    /// Like [`start`](Self::start), with other SETTINGS.
    pub fn with<F>(
        settings: impl Fn(&mut h2::server::Builder) + Send + 'static,
        answer: impl Fn(Exchange) -> F + Send + Sync + 'static,
    ) -> H2Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let answer: Answer = Arc::new(move |exchange| Box::pin(answer(exchange)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("sockets can be polled");
        let addr = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let all = shared.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a runtime is here");
                let accepting = async {
                    while let Ok((tcp, _)) = listener.accept().await {
                        all.accepted.fetch_add(1, SeqCst);
                        let mut builder = h2::server::Builder::new();
                        settings(&mut builder);
                        tokio::spawn(serve(tcp, builder, answer.clone(), all.clone()));
                    }
                };
                tokio::select! {
                    () = accepting => {}
                    _ = stopped => {}
                }
            });
        });
        H2Server { addr, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Starts a server that answers each request with a 200 and this body.
    pub fn saying(body: &'static str) -> H2Server {
        H2Server::start(move |mut exchange| async move {
            exchange.read().await;
            exchange.reply(200, &[], body.as_bytes(), &[]).await;
        })
    }

    /// Number of connections accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(SeqCst)
    }

    /// Heads of all requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("nothing panics with it").clone()
    }

    /// Sends GOAWAY on all open connections, which end with the requests that they have.
    pub fn go_away(&self) {
        self.shared.go_away.notify_waiters();
    }
}

async fn serve(tcp: TcpStream, builder: h2::server::Builder, answer: Answer, shared: Arc<Shared>) {
    let _ = tcp.set_nodelay(true);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(tcp).await else { return };
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            () = shared.go_away.notified() => {
                connection.graceful_shutdown();
                continue;
            }
        };
        let Some(Ok((request, respond))) = accepted else { return };
        let (parts, body) = request.into_parts();
        let seen =
            Seen { method: parts.method.to_string(), uri: parts.uri.to_string(), headers: parts.headers.clone() };
        shared.seen.lock().expect("nothing panics with it").push(seen);
        tokio::spawn(answer(Exchange { request: Request::from_parts(parts, ()), body, respond }));
    }
}

impl Drop for H2Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
