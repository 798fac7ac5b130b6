//! Which requests are answered? All that reach the admin's address or its Unix socket: on one thread, with one event
//! loop and a bounded number of connections.

use crate::api;
use crate::api::access::{LocalUser, Rules};
use crate::dashboard;
use crate::pages::Pages;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot, watch};

/// Connections open at once at each socket; more wait to be accepted. Some scrapers, some probes and a person need
/// fewer.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send a request, and how long an idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause when a connection cannot be accepted, as when the process has run out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Least time between two log lines about it.
const QUIET: Duration = Duration::from_secs(60);

/// How long answers that are under way may take when the process ends.
const LAST_ANSWERS: Duration = Duration::from_millis(250);

/// A running admin listener. Ends when dropped.
#[derive(Debug)]
pub struct Admin {
    /// Gone when it is to end.
    stage: Option<watch::Sender<Stage>>,
    /// Hears that it accepts no more.
    left: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What clients get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All are answered.
    Open,
    /// Those that are here get their answers; others are for another process.
    Leaving,
}

impl Admin {
    /// Answers from `pages`, and by the API of `process`, at each of these sockets. `remote`: what the first demands of
    /// its clients; those of the second may do everything.
    ///
    /// # Errors
    /// No thread or event loop can be made.
    pub fn start(
        tcp: Option<std::net::TcpListener>,
        unix: Option<std::os::unix::net::UnixListener>,
        pages: Pages,
        process: api::Process,
        remote: Rules,
    ) -> io::Result<Admin> {
        tcp.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        unix.iter().try_for_each(|listener| listener.set_nonblocking(true))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stage, mut leaves) = watch::channel(Stage::Open);
        let (has_left, left) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let (tcp, unix) = (tcp.map(TcpListener::from_std), unix.map(UnixListener::from_std));
                let (tcp, unix) = match (tcp.transpose(), unix.transpose()) {
                    (Ok(tcp), Ok(unix)) => (tcp, unix),
                    (Err(error), _) | (_, Err(error)) => {
                        return tracing::error!(%error, "admin: cannot watch its socket");
                    }
                };
                let pages = Arc::new(pages);
                let (for_tcp, for_unix) = (paths(&pages, &process, remote), paths(&pages, &process, Rules::Local));
                let [room, local_room] = [(); 2].map(|()| Arc::new(Semaphore::new(CONNECTIONS_MAX)));
                let mut stage = leaves.clone();
                let by_tcp = async {
                    match tcp {
                        Some(tcp) => accept(async || Ok((tcp.accept().await?.0, None)), &for_tcp, &room, &leaves).await,
                        None => std::future::pending().await,
                    }
                };
                let by_unix = async {
                    match unix {
                        Some(unix) => {
                            accept(async || local(unix.accept().await?.0), &for_unix, &local_room, &leaves).await
                        }
                        None => std::future::pending().await,
                    }
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
                let all = CONNECTIONS_MAX as u32;
                let none_left = async { tokio::join!(room.acquire_many(all), local_room.acquire_many(all)) };
                let _ = tokio::time::timeout(LAST_ANSWERS, none_left).await;
            });
        };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(serve)?;
        Ok(Admin { stage: Some(stage), left: Some(left), thread: Some(thread) })
    }

    /// Leaves new clients to another process with the same sockets; those that are here get their answers.
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

/// The client of the Unix socket, and who it is.
fn local(stream: UnixStream) -> io::Result<(UnixStream, Option<LocalUser>)> {
    let user = stream.peer_cred().ok().map(|peer| LocalUser(peer.uid()));
    Ok((stream, user))
}

/// Everything that is answered: metrics and health to all, and the API to those that may use it.
fn paths(pages: &Arc<Pages>, process: &api::Process, rules: Rules) -> Router {
    let pages_of_all = pages.clone();
    Router::new()
        .fallback(move |request: axum::extract::Request| async move {
            pages_of_all.answer(request.method(), request.uri().path(), request.headers())
        })
        .merge(api::router(process.clone(), rules, dashboard::router(process.clone())))
}

async fn accept<S>(
    next: impl AsyncFn() -> io::Result<(S, Option<LocalUser>)>,
    paths: &Router,
    room: &Arc<Semaphore>,
    leaves: &watch::Receiver<Stage>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut quiet_until = Instant::now();
    loop {
        // The semaphore is never closed.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let (stream, user) = match next().await {
            Ok(stream) => stream,
            Err(error) => {
                if Instant::now() >= quiet_until {
                    tracing::warn!(%error, "admin: cannot accept a connection; pausing");
                    quiet_until = Instant::now() + QUIET;
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let paths = match user {
            Some(user) => paths.clone().layer(Extension(user)),
            None => paths.clone(),
        };
        let mut leaves = leaves.clone();
        tokio::spawn(async move {
            let answer = TowerToHyperService::new(paths);
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
            // The end of a scraper's connection is not worth a log line.
            let told = async { drop(leaves.wait_for(|stage| *stage == Stage::Leaving).await) };
            tokio::select! {
                _ = &mut connection => {}
                () = told => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(place);
        });
    }
}
