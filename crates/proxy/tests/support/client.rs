//! A client that sends bytes and reads responses.

use super::SOON;
use super::message::{Message, read_head, read_message};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::JoinHandle;

/// A client's connection to the proxy.
pub struct Client {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(to: SocketAddr) -> Client {
        Client::over(TcpStream::connect(to).expect("the proxy accepts"))
    }

    /// Connects from a loopback address, any of 127.0.0.0/8.
    pub fn connect_from(from: [u8; 4], to: SocketAddr) -> Client {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("a free port");
        socket.connect(&to.into()).expect("the proxy accepts");
        Client::over(socket.into())
    }

    fn over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(SOON)).expect("sockets have timeouts");
        stream.set_write_timeout(Some(SOON)).expect("sockets have timeouts");
        stream.set_nodelay(true).expect("sockets have options");
        let reader = BufReader::new(stream.try_clone().expect("descriptors can be had"));
        Client { stream, reader }
    }

    /// Sends bytes, and returns the client for chaining.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.stream.write_all(bytes.as_ref()).expect("the proxy takes bytes");
        self
    }

    /// Sends from another thread, so that responses can be read meanwhile.
    pub fn send_aside(&self, bytes: Vec<u8>) -> JoinHandle<io::Result<()>> {
        let mut stream = self.stream.try_clone().expect("descriptors can be had");
        std::thread::spawn(move || stream.write_all(&bytes))
    }

    /// Reads a response, final or interim.
    #[track_caller]
    pub fn response(&mut self) -> Message {
        read_message(&mut self.reader, false).expect("a whole response").expect("a response, not the end")
    }

    /// Reads a response; `None` if the proxy closed or reset instead.
    pub fn response_if_any(&mut self) -> Option<Message> {
        read_message(&mut self.reader, false).ok().flatten()
    }

    /// Reads a head, that of a response to HEAD or of an interim response.
    #[track_caller]
    pub fn head(&mut self) -> String {
        read_head(&mut self.reader).expect("a whole head").expect("a head, not the end")
    }

    /// Reads exactly `n` bytes.
    #[track_caller]
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.reader.read_exact(&mut bytes).expect("so many bytes");
        bytes
    }

    /// Reads to the end, which may be a reset.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("no end: {error}; so far {:?}", super::text(&rest)),
        }
    }

    /// Asserts that the proxy has closed and sent nothing more.
    #[track_caller]
    pub fn ends(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "bytes before the end: {:?}", super::text(&rest));
    }

    /// Asserts that the proxy has neither sent anything nor closed.
    #[track_caller]
    pub fn is_quiet(&mut self) {
        assert!(self.reader.buffer().is_empty(), "bytes: {:?}", super::text(self.reader.buffer()));
        self.stream.set_nonblocking(true).expect("sockets can be polled");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("sockets can be waited for");
        let quiet = matches!(&peeked, Err(error) if error.kind() == ErrorKind::WouldBlock);
        assert!(quiet, "not quiet: {peeked:?}");
    }

    /// Shuts down the sending side.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("an open socket");
    }

    /// Closes with a reset, by a linger time of 0.
    pub fn reset(self) {
        let no_linger = Some(std::time::Duration::ZERO);
        socket2::SockRef::from(&self.stream).set_linger(no_linger).expect("sockets have options");
    }

    /// Sends a GET and reads the response; the connection stays open.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Message {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).response()
    }
}
