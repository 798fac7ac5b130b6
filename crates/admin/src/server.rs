//! Who is answered? Whoever reaches the admin's address: one thread, one event loop, a bounded number of connections.

use crate::pages::Pages;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

/// Connections open at once; more wait to be accepted. Some scrapers, some probes and a person need fewer.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send a request, and how long an idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause when a connection cannot be accepted, as when the process has run out of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A running admin listener. Ends when dropped.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Listens on `bind` and answers from `pages`.
    ///
    /// # Errors
    /// The address cannot be listened on, or no thread or event loop can be made.
    pub fn start(bind: SocketAddr, pages: Pages) -> io::Result<Admin> {
        let listener = std::net::TcpListener::bind(bind)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let listener = match TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return tracing::error!(%error, "admin: cannot watch its socket"),
                };
                let accepting = tokio::spawn(accept(listener, Arc::new(pages)));
                // An error means that the other side is gone, which asks for the same.
                let _ = stopped.await;
                accepting.abort();
            });
        };
        let thread = std::thread::Builder::new().name("admin".into()).spawn(serve)?;
        Ok(Admin { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there was told by its own thread.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, pages: Arc<Pages>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "admin: cannot accept a connection; pausing");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let response = pages.answer(request.method(), request.uri().path());
                async { Ok::<Response<_>, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            // How a connection of one scraper ends is no news.
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}
