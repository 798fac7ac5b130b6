//! A UDP relay that loses and reorders datagrams by a seed, for one client.
#![allow(dead_code, reason = "each program of tests uses a part")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// A relay. It ends on drop.
pub struct Lossy {
    /// Address that the client sends to, instead of the proxy's.
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    outer: Arc<std::sync::Mutex<Arc<UdpSocket>>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_closing: AtomicBool,
    /// True if datagrams of the server are dropped.
    is_mute: AtomicBool,
    lost: AtomicU64,
    reordered: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
    /// Datagrams of the client, if they are recorded.
    recorded: std::sync::Mutex<Option<Vec<Vec<u8>>>>,
}

/// Random numbers of a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }
}

fn socket(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(at).expect("a free port");
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("sockets have timeouts");
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
    socket
}

/// Socket towards the server.
fn outer(from: IpAddr, server: SocketAddr) -> UdpSocket {
    let socket = socket((from, 0).into());
    socket.connect(server).expect("an address");
    socket
}

impl Lossy {
    /// Relays to `server`. Of a thousand datagrams in each direction, loses `lost` and sends `late` behind the next one.
    pub fn start(server: SocketAddr, seed: u64, lost: u64, late: u64) -> Lossy {
        Lossy::start_from([127, 0, 0, 1], server, seed, lost, late)
    }

    /// Like [`start`](Self::start), with another address that the server sees.
    pub fn start_from(from: [u8; 4], server: SocketAddr, seed: u64, lost: u64, late: u64) -> Lossy {
        // At the address that a certificate of the server is for.
        let inner = socket((server.ip(), 0).into());
        let addr = inner.local_addr().expect("it is bound");
        let outer = Arc::new(std::sync::Mutex::new(Arc::new(outer(from.into(), server))));
        let (shared, client) = (Arc::<Shared>::default(), Arc::<std::sync::Mutex<Option<SocketAddr>>>::default());
        let threads = [true, false].map(|is_up| {
            let (inner, outer) = (inner.try_clone().expect("descriptors can be had"), outer.clone());
            let (shared, client) = (shared.clone(), client.clone());
            std::thread::spawn(move || {
                let mut random = Random(seed ^ u64::from(is_up));
                let mut bytes = vec![0; 65_536];
                let mut held: Option<Vec<u8>> = None;
                let send = |bytes: &[u8]| match is_up {
                    true => drop(outer.lock().expect("no panic").send(bytes)),
                    false => drop(client.lock().expect("no panic").map(|client| inner.send_to(bytes, client))),
                };
                while !shared.is_closing.load(SeqCst) {
                    let received = if is_up {
                        inner.recv_from(&mut bytes)
                    } else {
                        let outer = outer.lock().expect("no panic").clone();
                        outer.recv_from(&mut bytes)
                    };
                    let Ok((len, source)) = received else {
                        // A datagram that is late is not kept when none follows.
                        held.take().inspect(|held| send(held));
                        continue;
                    };
                    let passed = if is_up { &shared.to_server } else { &shared.to_client };
                    passed.fetch_add(1, SeqCst);
                    if is_up {
                        *client.lock().expect("no panic") = Some(source);
                        let mut recorded = shared.recorded.lock().expect("no panic");
                        if let Some(recorded) = recorded.as_mut() {
                            recorded.push(bytes[..len].to_vec());
                        }
                    } else if shared.is_mute.load(SeqCst) {
                        continue;
                    }
                    let dice = random.below(1000);
                    if dice < lost {
                        shared.lost.fetch_add(1, SeqCst);
                    } else if dice < lost + late && held.is_none() {
                        shared.reordered.fetch_add(1, SeqCst);
                        held = Some(bytes[..len].to_vec());
                    } else {
                        send(&bytes[..len]);
                        held.take().inspect(|held| send(held));
                    }
                }
            })
        });
        Lossy { addr, shared, outer, threads: threads.into() }
    }

    /// Number of datagrams that were lost, and of those that came late.
    pub fn counts(&self) -> [u64; 2] {
        [self.shared.lost.load(SeqCst), self.shared.reordered.load(SeqCst)]
    }

    /// Takes another port towards the server, as a NAT does that has forgotten its client.
    pub fn rebind(&self) {
        let mut socket = self.outer.lock().expect("no panic");
        let (from, server) = (socket.local_addr().expect("it is bound"), socket.peer_addr().expect("it is connected"));
        *socket = Arc::new(outer(from.ip(), server));
    }

    /// Records datagrams of the client from now on.
    pub fn record(&self) {
        *self.shared.recorded.lock().expect("no panic") = Some(Vec::new());
    }

    /// Datagrams that were recorded.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        self.shared.recorded.lock().expect("no panic").clone().unwrap_or_default()
    }

    /// Drops all datagrams of the server from now on.
    pub fn mute(&self) {
        self.shared.is_mute.store(true, SeqCst);
    }

    /// Passes datagrams of the server again.
    pub fn unmute(&self) {
        self.shared.is_mute.store(false, SeqCst);
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
