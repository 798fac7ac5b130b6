//! The admin's address and its Unix socket: all requests that reach them are answered on a single thread, with an event
//! loop and a bounded number of connections.

use crate::admission::{Admission, Limits, Place};
use crate::api;
use crate::api::access::{LocalUser, Rules};
use crate::dashboard;
use crate::host::{self, Hosts};
use crate::numbers::Numbers;
use crate::pages::Pages;
use crate::stalled::Stalled;
use axum::body::Body;
use axum::http::Response;
use axum::{Router, middleware};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot, watch};

/// Paths that are answered at once.
const HEALTH: [&str; 2] = ["/livez", "/readyz"];

/// Tasks that run before sockets are looked at again: few, since a page of metrics may take milliseconds and health
/// checks should not wait for many.
const EVENT_INTERVAL: u32 = 4;

/// Time that a client has to send a request, and for which an idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause when a connection cannot be accepted, as when the process has run out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Least time between two log lines about it.
const QUIET: Duration = Duration::from_secs(60);

/// Time that answers under way have when the process ends.
const LAST_ANSWERS: Duration = Duration::from_millis(250);

/// A running admin listener. Ends when dropped.
#[derive(Debug)]
pub struct Admin {
    /// Dropped to end the thread.
    stage: Option<watch::Sender<Stage>>,
    /// Signals that no more connections are accepted.
    left: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Stage of the listener's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Every client gets its answers.
    Open,
    /// Open connections get their answers; new connections are left to another process.
    Leaving,
}

impl Admin {
    /// Answers from `pages`, and by the API of `process`, at each of these sockets. `remote` has the rules and limits
    /// for clients of the first; clients of the second may do everything.
    ///
    /// # Errors
    /// No thread or event loop can be made.
    pub fn start(
        tcp: Option<std::net::TcpListener>,
        unix: Option<std::os::unix::net::UnixListener>,
        pages: Pages,
        process: api::Process,
        (remote, limits): (Rules, Limits),
        numbers: &Numbers,
    ) -> io::Result<Admin> {
        tcp.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        unix.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().event_interval(EVENT_INTERVAL).build()?;
        let admission = Admission::new(limits, numbers.http.clone());
        let local_admission = Admission::new(Limits::LOCAL, numbers.unix.clone());
        let (stage, mut leaves) = watch::channel(Stage::Open);
        let (has_left, left) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let (tcp, unix) = (tcp.map(TcpListener::from_std), unix.map(UnixListener::from_std));
                let (tcp, unix) = match (tcp.transpose(), unix.transpose()) {
                    (Ok(tcp), Ok(unix)) => (tcp, unix),
                    (Err(error), _) | (_, Err(error)) => {
                        return tracing::error!(%error, "admin: cannot poll the socket");
                    }
                };
                let pages = Arc::new(pages);
                let for_tcp = paths(&pages, &process, remote, &admission);
                let for_unix = paths(&pages, &process, Rules::Local, &local_admission);
                // Each connection has a receiver.
                let (open, connection) = watch::channel(());
                let mut stage = leaves.clone();
                let by_tcp = async {
                    let Some(tcp) = tcp else { return std::future::pending().await };
                    let next = async || {
                        let (stream, from) = tcp.accept().await?;
                        Ok((stream, Client::Remote(from.ip())))
                    };
                    accept(next, &for_tcp, &admission, &leaves, &connection).await;
                };
                let by_unix = async {
                    let Some(unix) = unix else { return std::future::pending().await };
                    let next = async || local(unix.accept().await?.0);
                    accept(next, &for_unix, &local_admission, &leaves, &connection).await;
                };
                tokio::select! {
                    () = by_tcp => {}
                    () = by_unix => {}
                    // An error means that the other side is gone, which asks for more.
                    _ = stage.wait_for(|stage| *stage == Stage::Leaving) => {}
                }
                let _ = has_left.send(());
                // Until the other side is gone.
                while leaves.changed().await.is_ok() {}
                drop(connection);
                let _ = tokio::time::timeout(LAST_ANSWERS, open.closed()).await;
            });
        };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(serve)?;
        Ok(Admin { stage: Some(stage), left: Some(left), thread: Some(thread) })
    }

    /// Leaves new clients to another process with the same sockets; open connections still get their answers.
    pub async fn leave(&mut self) {
        if let (Some(stage), Some(left)) = (&self.stage, self.left.take()) {
            let _ = stage.send(Stage::Leaving);
            // An error means that it has ended.
            let _ = left.await;
        }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stage.take());
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

/// The other side of a connection.
#[derive(Clone, Copy)]
enum Client {
    Remote(IpAddr),
    /// `None` if the kernel does not know.
    Local(Option<LocalUser>),
}

/// The client of the Unix socket, and its user.
fn local(stream: UnixStream) -> io::Result<(UnixStream, Client)> {
    let user = stream.peer_cred().ok().map(|peer| LocalUser(peer.uid()));
    Ok((stream, Client::Local(user)))
}

/// Router of all paths: metrics and health for everyone, the API for clients that may use it.
fn paths(pages: &Arc<Pages>, process: &api::Process, rules: Rules, admission: &Admission) -> Router {
    let pages_of_all = pages.clone();
    let hosts = match &rules {
        Rules::Local => None,
        Rules::Remote { hosts, .. } => Some(Hosts { names: hosts.clone(), numbers: admission.numbers().clone() }),
    };
    let paths = Router::new()
        .fallback(move |request: axum::extract::Request| async move {
            let (parts, _body) = request.into_parts();
            pages_of_all.answer(&parts.method, &parts.uri, &parts.headers).await
        })
        .merge(api::router(process.clone(), rules, dashboard::router(process.clone())));
    match hosts {
        Some(hosts) => paths.layer(middleware::from_fn_with_state(hosts, host::check)),
        None => paths,
    }
}

async fn accept<S>(
    next: impl AsyncFn() -> io::Result<(S, Client)>,
    paths: &Router,
    admission: &Admission,
    leaves: &watch::Receiver<Stage>,
    open: &watch::Receiver<()>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut quiet_until = Instant::now();
    let turns = Arc::new(Semaphore::new(1));
    let mut batch = 0;
    loop {
        let (stream, client) = match next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if Instant::now() >= quiet_until {
                    tracing::warn!(%error, "admin: cannot accept a connection; pausing");
                    quiet_until = Instant::now() + QUIET;
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let address = match client {
            Client::Remote(ip) => Some(ip),
            Client::Local(_) => None,
        };
        let Some(place) = admission.admit(address) else { continue };
        let stream = Stalled::new(stream, admission.numbers().clone());
        let answers = Answers { paths: paths.clone(), turns: turns.clone(), client, place: Arc::new(place) };
        let (leaves, open) = (leaves.clone(), open.clone());
        let (begins, begun) = oneshot::channel();
        tokio::spawn(async move {
            let _ = begins.send(());
            serve(stream, answers, leaves).await;
            drop(open);
        });
        batch += 1;
        if batch >= admission.batch() {
            // Requests that have arrived are read before newer connections may need the places.
            let _ = begun.await;
            batch = 0;
        }
    }
}

/// State from which the requests of a connection are answered.
#[derive(Clone)]
struct Answers {
    paths: Router,
    /// Turns for requests that may cost milliseconds: a single request at a time, first come first served.
    turns: Arc<Semaphore>,
    client: Client,
    place: Arc<Place>,
}

impl Answers {
    async fn answer(self, mut request: hyper::Request<Incoming>) -> Result<Response<Body>, Infallible> {
        self.place.queues();
        let is_health = HEALTH.contains(&request.uri().path());
        request.extensions_mut().insert(self.place.clone());
        if let Client::Local(Some(user)) = self.client {
            request.extensions_mut().insert(user);
        }
        let mut answer = pin!(TowerToHyperService::new(self.paths).call(request));
        // Other connections, and health checks, come in between. The semaphore is never closed.
        let turn = if is_health { None } else { self.turns.acquire().await.ok() };
        self.place.works();
        let first = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await;
        if turn.is_some() {
            // Sockets are looked at before the next turn.
            tokio::task::yield_now().await;
        }
        drop(turn);
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        };
        self.place.answered();
        answer
    }
}

/// Answers requests of a connection, until it ends or a newer connection needs its place.
async fn serve<S>(stream: S, answers: Answers, mut leaves: watch::Receiver<Stage>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let place = answers.place.clone();
    let answer = service_fn(move |request| answers.clone().answer(request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    let leaving = async { drop(leaves.wait_for(|stage| *stage == Stage::Leaving).await) };
    // The end of a scraper's connection is not worth a log line.
    tokio::select! {
        _ = &mut connection => {}
        () = place.replaced() => {}
        () = leaving => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = connection => {}
                () = place.replaced() => {}
            }
        }
    }
}
