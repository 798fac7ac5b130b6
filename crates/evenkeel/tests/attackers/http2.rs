//! A client of HTTP/2 frame by frame, and the numbers that evenkeel keeps of such clients.

use crate::scene::Scene;
use crate::support::{DEADLINE, get};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const CANCEL: [u8; 4] = [0, 0, 0, 8];

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A GET, from HPACK's static table and literals that are not kept.
pub fn request(stream: u32, path: &str) -> Vec<u8> {
    let block = [&[0x82, 0x86, 4, path.len() as u8], path.as_bytes(), &[1, 1, b'a']].concat();
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// First bytes of a client: preface and SETTINGS.
pub fn begin() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat()
}

/// Kind, flags, stream and payload of the next frame; `None` at the end.
pub fn next(stream: &mut impl Read) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut front = [0; 9];
    stream.read_exact(&mut front).ok()?;
    let [a, b, c, kind, flags, id @ ..] = front;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((kind, flags, u32::from_be_bytes(id), payload))
}

/// The value of a counter of evenkeel that has this label.
pub fn counted(scene: &Scene, name: &str, label: &str) -> u64 {
    let (status, metrics) = get(&scene.admin, "/metrics").expect("the admin listener answers");
    assert_eq!(status, 200, "{metrics}");
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// A connection that many threads have requests on, as one of a proxy in front.
pub struct Shared {
    stream: Mutex<TcpStream>,
    next: AtomicU32,
    waiting: Arc<Mutex<HashMap<u32, Sender<bool>>>>,
    /// No request can be begun any more.
    is_over: Arc<AtomicBool>,
}

impl Shared {
    pub fn connect(addr: &str) -> Shared {
        let mut stream = TcpStream::connect(addr).expect("it accepts");
        stream.write_all(&begin()).expect("it takes that");
        let mut reader = stream.try_clone().expect("descriptors can be had");
        let waiting = Arc::<Mutex<HashMap<u32, Sender<bool>>>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let (answers, over) = (waiting.clone(), is_over.clone());
        std::thread::spawn(move || {
            let mut good = HashMap::new();
            while let Some((kind, flags, id, payload)) = next(&mut reader) {
                match kind {
                    // :status 200.
                    HEADERS => drop(good.insert(id, payload.first() == Some(&0x88))),
                    GOAWAY => over.store(true, SeqCst),
                    _ => {}
                }
                let is_whole = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
                if (is_whole || kind == RST_STREAM)
                    && let Some(sender) = answers.lock().expect("no thread panics").remove(&id)
                {
                    let _ = sender.send(is_whole && good.remove(&id) == Some(true));
                }
            }
            over.store(true, SeqCst);
            // Requests that wait see their channels close.
            answers.lock().expect("no thread panics").clear();
        });
        Shared { stream: stream.into(), next: AtomicU32::new(1), waiting, is_over }
    }

    /// Begins a request: its stream, and what receives whether it succeeded.
    pub fn ask(&self, path: &str) -> (u32, Receiver<bool>) {
        let (sender, receiver) = channel();
        // Numbers rise in the order in which they are written.
        let mut stream = self.stream.lock().expect("no thread panics");
        let id = self.next.fetch_add(2, SeqCst);
        self.waiting.lock().expect("no thread panics").insert(id, sender);
        let _ = stream.write_all(&request(id, path));
        (id, receiver)
    }

    /// Cancels a request, whose answer is dropped.
    pub fn cancel(&self, id: u32) {
        self.waiting.lock().expect("no thread panics").remove(&id);
        let _ = self.stream.lock().expect("no thread panics").write_all(&frame(RST_STREAM, 0, id, &CANCEL));
    }

    /// A request that must succeed.
    pub fn get(&self, path: &str) -> Result<(), String> {
        let (id, receiver) = self.ask(path);
        match receiver.recv_timeout(DEADLINE) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("stream {id} was reset, or its response is not a 200")),
            Err(error) => Err(format!("stream {id}: {error}; over: {}", self.is_over.load(SeqCst))),
        }
    }
}
