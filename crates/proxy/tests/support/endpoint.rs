//! An endpoint that follows a script, with blocking I/O in a thread for each connection.

use super::SOON;
use super::message::{Message, read_head, read_message};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// An endpoint. Its drop waits for the scripts of its connections, and a failed assertion in one of them fails the
/// test.
pub struct Endpoint {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    closing: AtomicBool,
    accepted: AtomicUsize,
    seen: Mutex<Vec<Message>>,
    scripts: Mutex<Vec<JoinHandle<()>>>,
}

/// A connection to an endpoint, as its script sees it.
pub struct Conn {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
    /// Number of the connection, from 0 in the order of accepts.
    pub index: usize,
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Runs `script` for each connection.
    pub fn start(script: impl Fn(&mut Conn) + Send + Sync + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Endpoint::on(listener, script)
    }

    /// Runs `script` for each connection that `listener` accepts.
    pub fn on(listener: TcpListener, script: impl Fn(&mut Conn) + Send + Sync + 'static) -> Endpoint {
        let addr = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            closing: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            seen: Mutex::default(),
            scripts: Mutex::default(),
        });
        let (script, for_thread) = (Arc::new(script), shared.clone());
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("accepting works");
                if for_thread.closing.load(SeqCst) {
                    return;
                }
                let mut conn = Conn::new(stream, for_thread.clone());
                let script = script.clone();
                let thread = std::thread::spawn(move || script(&mut conn));
                for_thread.scripts.lock().expect("no script holds it").push(thread);
            }
        });
        Endpoint { addr, shared, accepting: Some(accepting) }
    }

    /// Answers every request on every connection until the proxy closes.
    pub fn answering(answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Endpoint {
        Endpoint::start(move |conn| {
            while let Some(request) = conn.request() {
                conn.send(answer(&request));
            }
        })
    }

    /// Reads one request on each connection, and then resets it.
    pub fn resetting() -> Endpoint {
        Endpoint::start(|conn| {
            conn.request();
            conn.reset_at_end();
        })
    }

    /// Reads one request on each connection, and is silent until the proxy closes.
    pub fn silent() -> Endpoint {
        Endpoint::start(|conn| {
            conn.request();
            conn.rest();
        })
    }

    /// Answers every request with a 200 and `body`.
    pub fn saying(body: &'static str) -> Endpoint {
        Endpoint::answering(move |_| ok(body))
    }

    /// Number of connections accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(SeqCst)
    }

    /// Requests read by [`Conn::request`], in the order in which they ended.
    pub fn seen(&self) -> Vec<Message> {
        self.shared.seen.lock().expect("no script failed").clone()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        let _ = TcpStream::connect(self.addr);
        let failed = self.accepting.take().is_some_and(|thread| thread.join().is_err());
        let scripts = std::mem::take(&mut *self.shared.scripts.lock().expect("no script holds it"));
        let failed = scripts.into_iter().fold(failed, |failed, thread| thread.join().is_err() || failed);
        assert!(!failed || std::thread::panicking(), "the script of an endpoint failed");
    }
}

impl Conn {
    fn new(stream: TcpStream, shared: Arc<Shared>) -> Conn {
        stream.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
        stream.set_write_timeout(Some(SOON)).expect("sockets have timeouts");
        stream.set_nodelay(true).expect("sockets have options");
        let reader = BufReader::new(stream.try_clone().expect("descriptors can be had"));
        let index = shared.accepted.fetch_add(1, SeqCst);
        Conn { stream, reader, index, shared }
    }

    /// Reads a whole request; `None` if the proxy has closed.
    #[track_caller]
    pub fn request(&mut self) -> Option<Message> {
        match read_message(&mut self.reader, false) {
            Ok(request) => {
                self.shared.seen.lock().expect("no script failed").extend(request.clone());
                request
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no whole request: {error}"),
        }
    }

    /// Like [`request`](Self::request), but `None` also for a request whose body the proxy broke off.
    pub fn request_if_whole(&mut self) -> Option<Message> {
        let request = read_message(&mut self.reader, false).ok().flatten()?;
        self.shared.seen.lock().expect("no script failed").push(request.clone());
        Some(request)
    }

    /// Reads the head of a request, whose body the script reads itself; `None` if the proxy has closed.
    #[track_caller]
    pub fn next_head(&mut self) -> Option<String> {
        read_head(&mut self.reader).expect("a whole head")
    }

    /// Like [`next_head`](Self::next_head), but the proxy may close or reset within a head.
    pub fn next_head_if_whole(&mut self) -> Option<String> {
        read_head(&mut self.reader).ok().flatten()
    }

    /// Like [`next_head`](Self::next_head), where a request must come.
    #[track_caller]
    pub fn head(&mut self) -> String {
        self.next_head().expect("a request, not the end")
    }

    /// Reads a line, with its end.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        line
    }

    /// Reads exactly `n` bytes.
    #[track_caller]
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.reader.read_exact(&mut bytes).expect("so many bytes");
        bytes
    }

    /// Reads what has come, at most `most` bytes; nothing if the proxy has closed or reset.
    pub fn some(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most.min(64 * 1024)];
        let n = self.reader.read(&mut bytes).unwrap_or(0);
        bytes.truncate(n);
        bytes
    }

    /// Reads until the proxy closes or resets.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.reader.read_to_end(&mut rest);
        rest
    }

    /// Sends bytes, ignoring errors: the proxy's close is often the subject of a test.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Shuts down the sending side.
    pub fn finish_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes both directions at once.
    pub fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Makes the connection end with a reset when the script returns.
    pub fn reset_at_end(&mut self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(std::time::Duration::ZERO)).expect("sockets have options");
    }
}

/// A 200 with a `Content-Length`.
pub fn ok(body: &str) -> Vec<u8> {
    status("200 OK", body)
}

/// A response with a `Content-Length`. `status` is code and reason.
pub fn status(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
