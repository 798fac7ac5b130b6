//! Attackers: a fixed number of concurrent connections, each replaced when it ends.

use super::attacks::Attack;
use crate::http;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which a blocked write checks whether to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// Running attackers, until stopped.
pub struct Attackers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    opened: AtomicU64,
    cut: AtomicU64,
}

/// Counts of the attacking connections.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// Number of connections opened.
    pub opened: u64,
    /// Number of connections that evenkeel closed.
    pub cut: u64,
}

impl Attackers {
    /// Starts attackers, each with a single connection at a time.
    pub fn start(attack: &'static Attack, port: u16, connections: u64) -> Attackers {
        let shared = Arc::<Shared>::default();
        let thread = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                while !shared.stop.load(Relaxed) {
                    let Ok(stream) = http::connect(port) else { continue };
                    shared.opened.fetch_add(1, Relaxed);
                    if one(attack, &stream, &shared) {
                        shared.cut.fetch_add(1, Relaxed);
                    }
                    let _ = stream.shutdown(Shutdown::Both);
                }
            })
        };
        let threads = (0..connections).map(thread).collect();
        Attackers { shared, threads }
    }

    pub fn met(&self) -> Met {
        Met { opened: self.shared.opened.load(Relaxed), cut: self.shared.cut.load(Relaxed) }
    }

    pub fn stop(self) {
        self.shared.stop.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// Attacks on a connection. Returns true if evenkeel closed it.
fn one(attack: &Attack, stream: &TcpStream, shared: &Shared) -> bool {
    let _ = stream.set_write_timeout(Some(GLANCE));
    let _ = stream.set_read_timeout(Some(GLANCE));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if attack.reads {
            scope.spawn(|| {
                let (mut bytes, mut stream) = (vec![0; 64 << 10], stream);
                while !shared.stop.load(Relaxed) && !ended.load(Relaxed) {
                    let read = stream.read(&mut bytes);
                    if read.as_ref().map_or_else(|error| !is_late(error), |&read| read == 0) {
                        ended.store(true, Relaxed);
                    }
                }
            });
        }
        let mut alive = send(stream, &(attack.begin)(), shared, &ended);
        for n in 0.. {
            if !alive || shared.stop.load(Relaxed) {
                break;
            }
            match attack.again {
                Some(again) => alive = send(stream, &again(n), shared, &ended),
                None => {
                    std::thread::sleep(GLANCE);
                    alive = !ended.load(Relaxed);
                }
            }
        }
        ended.store(true, Relaxed);
        !alive && !shared.stop.load(Relaxed)
    })
}

/// Sends all bytes, however long that takes. Returns true if the connection is still open.
fn send(mut stream: &TcpStream, mut bytes: &[u8], shared: &Shared, ended: &AtomicBool) -> bool {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if is_late(&error) && !shared.stop.load(Relaxed) && !ended.load(Relaxed) => {}
            Err(_) => return shared.stop.load(Relaxed),
        }
    }
    !ended.load(Relaxed)
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
