//! A relay in front of a server, whose connections can be cut and counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub struct Relay {
    pub addr: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// True while connections live; false ends them and refuses others.
    open: watch::Sender<bool>,
    task: AbortHandle,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub async fn start(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("it is bound");
        let (open, connections) = (watch::Sender::new(true), Arc::<AtomicUsize>::default());
        let (state, counted) = (open.clone(), connections.clone());
        let accept = async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut state = state.subscribe();
                if !*state.borrow() {
                    continue;
                }
                counted.fetch_add(1, Relaxed);
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = state.wait_for(|open| !open) => {}
                    }
                });
            }
        };
        let task = tokio::spawn(accept).abort_handle();
        Relay { addr, connections, open, task }
    }

    /// Ends all connections, and those that come until [`join`](Self::join).
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    pub fn join(&self) {
        self.open.send_replace(true);
    }

    /// Number of connections that were accepted, those that ended included.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}
