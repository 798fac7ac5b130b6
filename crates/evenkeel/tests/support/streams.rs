//! Requests that last: a tunnel, a download and an upload that go on until they are told to end, and every byte of which
//! is looked at.

use super::{DEADLINE, address, head};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of one piece: more than fits the buffers on the way would say nothing more.
pub const PIECE: usize = 2000;

/// Between two pieces: the streams are to last, not to fill the machine.
const PACE: Duration = Duration::from_millis(2);

/// Clients that keep asking, and streams that go on, all of them at one address.
pub struct Load {
    stop: Arc<AtomicBool>,
    /// Requests and pieces that came through.
    pub passed: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

/// An endpoint for all of it.
pub struct Streaming {
    pub addr: String,
}

/// Bytes of which no two pieces are alike.
pub fn piece(number: u64) -> Vec<u8> {
    let mut x = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(PIECE + 8);
    while bytes.len() < PIECE {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(PIECE);
    bytes
}

impl Streaming {
    pub fn start() -> Streaming {
        let addr = address();
        let listener = TcpListener::bind(&addr).expect("nobody else uses it");
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || serve(BufReader::new(stream)));
            }
        });
        Streaming { addr }
    }
}

fn serve(mut stream: BufReader<TcpStream>) -> Option<()> {
    let _ = stream.get_ref().set_nodelay(true);
    loop {
        let head = head(&mut stream)?;
        if head.starts_with("GET /tunnel") {
            let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
            stream.get_mut().write_all(switch.as_bytes()).ok()?;
            let mut echo = [0; 4096];
            loop {
                let n = stream.read(&mut echo).ok()?;
                stream.get_mut().write_all(&echo[..n]).ok().filter(|()| n > 0)?;
            }
        } else if head.starts_with("GET /download") {
            let number = |key: &str| -> Option<u64> { head.split(key).nth(1)?.split([' ', '&']).next()?.parse().ok() };
            let pieces = number("pieces=")?;
            let pace = number("pace_ms=").map_or(PACE, Duration::from_millis);
            let length = pieces * PIECE as u64;
            write!(stream.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").ok()?;
            for number in 0..pieces {
                stream.get_mut().write_all(&piece(number)).ok()?;
                std::thread::sleep(pace);
            }
        } else if head.starts_with("POST /upload") {
            let (mut pieces, mut kept) = (0, Vec::new());
            loop {
                let size = line(&mut stream)?;
                if size == "0" {
                    line(&mut stream)?;
                    break;
                }
                let mut bytes = vec![0; usize::from_str_radix(&size, 16).ok()?];
                stream.read_exact(&mut bytes).ok()?;
                line(&mut stream)?;
                // Pieces may be joined and split on the way.
                kept.extend_from_slice(&bytes);
                while let Some(next) = kept.get(..PIECE) {
                    if next != piece(pieces) {
                        return None;
                    }
                    kept.drain(..PIECE);
                    pieces += 1;
                }
            }
            if !kept.is_empty() {
                return None;
            }
            let text = pieces.to_string();
            write!(stream.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()).ok()?;
        } else {
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
        }
    }
}

fn line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.strip_suffix("\r\n").map(str::to_string)
}

impl Load {
    /// Asks at `addr`, behind which is a [`Streaming`]: on kept connections, on fresh ones, and with each kind of stream.
    pub fn start(addr: &str) -> Load {
        let (stop, passed) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let kinds = [("kept", kept as Client), ("kept", kept), ("fresh", fresh), ("tunnel", tunnel)];
        let kinds = kinds.into_iter().chain([("download", download as Client), ("upload", upload)]);
        let begun = Arc::<AtomicUsize>::default();
        let threads: Vec<_> = kinds
            .map(|(kind, client)| {
                let run =
                    Run { addr: addr.to_string(), stop: stop.clone(), passed: passed.clone(), begun: begun.clone() };
                std::thread::spawn(move || client(&run).map_err(|error| format!("{kind}: {error}")))
            })
            .collect();
        super::eventually("every client", || (begun.load(SeqCst) >= threads.len()).then_some(()));
        Load { stop, passed, threads }
    }

    /// Ends it; everything that went wrong.
    pub fn end(self) -> Vec<String> {
        self.stop.store(true, SeqCst);
        let results = self.threads.into_iter().map(|thread| thread.join().expect("no panic"));
        results.filter_map(Result::err).collect()
    }
}

struct Run {
    addr: String,
    stop: Arc<AtomicBool>,
    passed: Arc<AtomicU64>,
    begun: Arc<AtomicUsize>,
}

type Client = fn(&Run) -> Result<(), String>;

impl Run {
    fn connect(&self) -> Result<BufReader<TcpStream>, String> {
        let stream = TcpStream::connect(&self.addr).map_err(|e| format!("connect: {e}"))?;
        stream.set_read_timeout(Some(DEADLINE)).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(BufReader::new(stream))
    }

    /// Counts one that came through; true if another is to follow.
    fn goes_on(&self, number: u64) -> bool {
        if number == 0 {
            self.begun.fetch_add(1, SeqCst);
        }
        self.passed.fetch_add(1, SeqCst);
        std::thread::sleep(PACE);
        !self.stop.load(SeqCst)
    }
}

fn say(stream: &mut BufReader<TcpStream>, text: impl AsRef<[u8]>) -> Result<(), String> {
    stream.get_mut().write_all(text.as_ref()).map_err(|e| format!("write: {e}"))
}

/// The head of a response with this status.
fn hear(stream: &mut BufReader<TcpStream>, status: &str) -> Result<String, String> {
    let head = head(stream).ok_or("no response")?;
    if head.starts_with(&format!("HTTP/1.1 {status} ")) { Ok(head.to_ascii_lowercase()) } else { Err(head) }
}

fn hear_bytes(stream: &mut BufReader<TcpStream>, want: &[u8]) -> Result<(), String> {
    let mut bytes = vec![0; want.len()];
    stream.read_exact(&mut bytes).map_err(|e| format!("read: {e}"))?;
    if bytes == want { Ok(()) } else { Err("other bytes".into()) }
}

fn ok(stream: &mut BufReader<TcpStream>) -> Result<String, String> {
    say(stream, "GET / HTTP/1.1\r\nhost: test\r\n\r\n")?;
    let head = hear(stream, "200")?;
    hear_bytes(stream, b"ok").map(|()| head)
}

/// Asks on one connection; a new one only where the answer announced the close.
fn kept(run: &Run) -> Result<(), String> {
    let mut stream = run.connect()?;
    for number in 0.. {
        if ok(&mut stream)?.contains("connection: close") {
            stream = run.connect()?;
        }
        if !run.goes_on(number) {
            break;
        }
    }
    Ok(())
}

fn fresh(run: &Run) -> Result<(), String> {
    for number in 0.. {
        ok(&mut run.connect()?)?;
        if !run.goes_on(number) {
            break;
        }
    }
    Ok(())
}

fn tunnel(run: &Run) -> Result<(), String> {
    let mut stream = run.connect()?;
    say(&mut stream, "GET /tunnel HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n")?;
    hear(&mut stream, "101")?;
    for number in 0.. {
        say(&mut stream, piece(number))?;
        hear_bytes(&mut stream, &piece(number))?;
        if !run.goes_on(number) {
            break;
        }
    }
    Ok(())
}

/// Downloads of about a second each, one after the other.
fn download(run: &Run) -> Result<(), String> {
    let mut stream = run.connect()?;
    for number in 0.. {
        say(&mut stream, "GET /download?pieces=300 HTTP/1.1\r\nhost: test\r\n\r\n")?;
        let head = hear(&mut stream, "200")?;
        (0..300).try_for_each(|number| hear_bytes(&mut stream, &piece(number)))?;
        if head.contains("connection: close") {
            stream = run.connect()?;
        }
        if !run.goes_on(number) {
            break;
        }
    }
    Ok(())
}

fn upload(run: &Run) -> Result<(), String> {
    let mut stream = run.connect()?;
    say(&mut stream, "POST /upload HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let mut pieces = 0;
    loop {
        say(&mut stream, format!("{PIECE:x}\r\n"))?;
        say(&mut stream, piece(pieces))?;
        say(&mut stream, "\r\n")?;
        pieces += 1;
        if !run.goes_on(pieces - 1) {
            break;
        }
    }
    say(&mut stream, "0\r\n\r\n")?;
    hear(&mut stream, "200")?;
    hear_bytes(&mut stream, pieces.to_string().as_bytes())
}
