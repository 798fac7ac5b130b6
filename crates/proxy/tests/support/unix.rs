//! Unix sockets in front of endpoints that listen on TCP: bytes are passed on unchanged in both directions.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A Unix socket that leads to an endpoint. Its path is removed on drop.
pub struct Socket {
    /// Address as in a configuration.
    pub addr: String,
    path: Option<PathBuf>,
    accepted: Arc<AtomicUsize>,
}

/// A path for a socket that nothing listens at.
pub fn free_path() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    std::env::temp_dir().join(format!("evenkeel-{}-{}.sock", std::process::id(), NUMBER.fetch_add(1, SeqCst)))
}

impl Socket {
    /// Listens at a path of its own.
    pub fn to(endpoint: SocketAddr) -> Socket {
        Socket::at(free_path(), endpoint)
    }

    /// Listens at this path, which must be free.
    pub fn at(path: PathBuf, endpoint: SocketAddr) -> Socket {
        let listener = UnixListener::bind(&path).expect("a free path");
        let addr = format!("unix:{}", path.display());
        Socket { addr, path: Some(path), accepted: serve(listener, endpoint) }
    }

    /// Listens at an abstract name of its own.
    pub fn abstract_to(endpoint: SocketAddr) -> Socket {
        let path = free_path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name of ours");
        let bound = net::SocketAddr::from_abstract_name(name).expect("a short name");
        let listener = UnixListener::bind_addr(&bound).expect("a free name");
        Socket { addr: format!("unix:@{name}"), path: None, accepted: serve(listener, endpoint) }
    }

    /// Number of connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.path.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Passes on every connection, until the process ends.
fn serve(listener: UnixListener, endpoint: SocketAddr) -> Arc<AtomicUsize> {
    let accepted = Arc::<AtomicUsize>::default();
    let counted = accepted.clone();
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            counted.fetch_add(1, SeqCst);
            if let Ok(server) = TcpStream::connect(endpoint) {
                pass(client, server);
            }
        }
    });
    accepted
}

fn pass(client: UnixStream, server: TcpStream) {
    let (mut from, mut to) = (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let (mut from, mut to) = (server, client);
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}
