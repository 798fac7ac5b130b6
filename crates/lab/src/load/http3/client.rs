//! A client of HTTP/3 with its own socket, on the state machine of quinn: a connection, with a number of streams that each
//! send a request after the response to the one before.

use super::response::{self, Response};
use crate::error::{Error, Result, While};
use crate::http::local;
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig, Event,
    ReadError, StreamEvent, StreamId,
};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most datagrams in a message to the kernel.
const SEGMENTS_MAX: usize = 16;

/// Code of a stream whose request the proxy has not looked at (RFC 9114 section 8.1).
const REQUEST_REJECTED: u64 = 0x10b;

/// Memory for a receive, for all clients of a thread.
pub struct Memory {
    received: Vec<u8>,
    sent: Vec<u8>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { received: vec![0; 64 << 10], sent: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub struct Asks {
    /// HEADERS frame of each request.
    pub request: Bytes,
    /// Number of concurrent requests.
    pub streams: u32,
    /// Length of the body of each response.
    pub len: u64,
    /// True to send only as many requests as there are streams.
    pub is_single: bool,
    /// True to keep the body of the last response.
    pub keeps_body: bool,
}

pub struct Client {
    pub socket: UdpSocket,
    io: UdpSocketState,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    asks: Asks,
    responses: HashMap<StreamId, Response>,
    /// Streams of the proxy in one direction, with what it has sent on them.
    unidirectional: Vec<(StreamId, Vec<u8>)>,
    /// First request that the proxy does not answer any more, once it has announced that.
    goes_away: Option<u64>,
    /// True if no more requests are to be sent.
    is_stopped: bool,
    /// Number of requests that were sent.
    asked: u64,
    /// Number of complete responses.
    pub answered: u64,
    /// Body of the last response, if it is kept.
    pub body: Option<Vec<u8>>,
    /// Time of the last datagram from the proxy.
    pub heard: Instant,
}

impl Client {
    /// Begins to connect to a port of this machine.
    ///
    /// # Errors
    /// If the system gives no socket.
    pub fn connect(port: u16, config: &ClientConfig, asks: Asks) -> Result<Client> {
        let doing = || "cannot open a UDP socket".to_owned();
        let socket = UdpSocket::bind(local(0)).or_say(doing)?;
        let io = UdpSocketState::new((&socket).into()).or_say(doing)?;
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let now = Instant::now();
        let begun = endpoint.connect(now, config.clone(), local(port), "lab.test");
        let (handle, connection) = begun.map_err(|error| Error::Wrong(format!("no client of HTTP/3: {error}")))?;
        Ok(Client {
            socket,
            io,
            endpoint,
            handle,
            connection,
            asks,
            responses: HashMap::new(),
            unidirectional: Vec::new(),
            goes_away: None,
            is_stopped: false,
            asked: 0,
            answered: 0,
            body: None,
            heard: now,
        })
    }

    /// Time at which the client has to be driven again.
    pub fn due(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Sends no more requests. Those that were sent are answered.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// True if the proxy has announced that it answers no more requests.
    pub fn goes_away(&self) -> bool {
        self.goes_away.is_some()
    }

    /// Number of requests that the proxy has to answer.
    pub fn waiting(&self) -> usize {
        let last = self.goes_away.unwrap_or(u64::MAX);
        self.responses.keys().filter(|id| u64::from(**id) < last).count()
    }

    /// Sends further requests, as the first time.
    ///
    /// # Errors
    /// If the proxy has closed the connection.
    pub fn ask_again(&mut self, memory: &mut Memory) -> Result<()> {
        self.asked = 0;
        self.answered = 0;
        self.ask()?;
        self.send(memory, Instant::now());
        Ok(())
    }

    /// Receives, reads, sends.
    ///
    /// # Errors
    /// If the connection ends, or a response is not the expected one.
    pub fn drive(&mut self, memory: &mut Memory, is_readable: bool) -> Result<()> {
        let now = Instant::now();
        if is_readable {
            self.receive(memory, now)?;
        }
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.begin()?,
                Event::ConnectionLost { reason } => {
                    return Err(Error::Refused(format!("a connection of HTTP/3 ended: {reason}")));
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => self.read(id)?,
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni } | StreamEvent::Readable { .. }) => {
                    self.read_unidirectional()
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.ask()?,
                _ => {}
            }
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        self.send(memory, now);
        Ok(())
    }

    /// Closes the connection, without waiting.
    pub fn close(mut self, memory: &mut Memory) {
        /// Code of HTTP/3 for a connection that is not needed.
        const NO_ERROR: u32 = 0x100;
        let now = Instant::now();
        self.connection.close(now, NO_ERROR.into(), Bytes::new());
        self.send(memory, now);
    }

    fn receive(&mut self, memory: &mut Memory, now: Instant) -> Result<()> {
        let mut meta = [RecvMeta::default()];
        loop {
            let mut buffers = [IoSliceMut::new(&mut memory.received)];
            match self.io.recv((&self.socket).into(), &mut buffers, &mut meta) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Error::Os("cannot receive over UDP".into(), error)),
            }
            self.heard = now;
            let RecvMeta { addr, len, stride, ecn, dst_ip } = meta[0];
            let ecn = ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            let mut bytes = BytesMut::from(&memory.received[..len]);
            while !bytes.is_empty() {
                let datagram = bytes.split_to(stride.min(bytes.len()));
                match self.endpoint.handle(now, addr, dst_ip, ecn, datagram, &mut memory.sent) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => self.connection.handle_event(event),
                    Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
                    Some(DatagramEvent::Response(_)) | None => {}
                }
            }
            // Less than a whole buffer: nothing more waits, most probably, and otherwise the socket is still readable.
            if len < 32 << 10 {
                return Ok(());
            }
        }
    }

    fn send(&mut self, memory: &mut Memory, now: Instant) {
        loop {
            memory.sent.clear();
            let Some(message) = self.connection.poll_transmit(now, SEGMENTS_MAX, &mut memory.sent) else { return };
            let sent = Transmit {
                destination: message.destination,
                ecn: message.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &memory.sent[..message.size],
                segment_size: message.segment_size,
                src_ip: None,
            };
            // QUIC sends again whatever the kernel does not take.
            let _ = self.io.send((&self.socket).into(), &sent);
        }
    }

    /// Opens the control stream, and sends the first requests.
    fn begin(&mut self) -> Result<()> {
        if let Some(control) = self.connection.streams().open(Dir::Uni) {
            let written = self.connection.send_stream(control).write(response::CONTROL);
            written.map_err(|error| Error::Refused(format!("the proxy takes no control stream: {error}")))?;
        }
        self.ask()
    }

    /// Sends requests until as many are under way as shall be.
    fn ask(&mut self) -> Result<()> {
        while self.responses.len() < self.asks.streams as usize
            && !self.is_stopped
            && self.goes_away.is_none()
            && !(self.asks.is_single && self.asked >= u64::from(self.asks.streams))
        {
            let Some(id) = self.connection.streams().open(Dir::Bi) else { return Ok(()) };
            let mut stream = self.connection.send_stream(id);
            // Nothing limits requests as short as these but the number of streams.
            let written = stream.write_chunks(&mut [self.asks.request.clone()]);
            written.map_err(|error| Error::Refused(format!("the proxy takes no request: {error}")))?;
            let _ = stream.finish();
            self.responses.insert(id, Response::new(self.asks.keeps_body));
            self.asked += 1;
        }
        Ok(())
    }

    fn read(&mut self, id: StreamId) -> Result<()> {
        let Some(response) = self.responses.get_mut(&id) else { return Ok(()) };
        let failed = |error: &dyn std::fmt::Display| Error::Refused(format!("a response was not complete: {error}"));
        let mut stream = self.connection.recv_stream(id);
        let mut chunks = stream.read(true).map_err(|error| failed(&error))?;
        let is_over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => response.read(&chunk.bytes),
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                // The proxy has not looked at it, and any client sends it again.
                Err(ReadError::Reset(code)) if code.into_inner() == REQUEST_REJECTED => {
                    drop(chunks);
                    self.responses.remove(&id);
                    return self.ask();
                }
                Err(error) => return Err(failed(&error)),
            }
        };
        let _ = chunks.finalize();
        if is_over {
            let response = self.responses.remove(&id).unwrap_or_default();
            if response.complete() != Some(self.asks.len) {
                let what = response.complete().map_or("not a whole 200".into(), |len| format!("{len} bytes"));
                return Err(Error::Refused(format!("a response is {what} instead of {} bytes", self.asks.len)));
            }
            self.answered += 1;
            self.body = response.body;
            self.ask()?;
        }
        Ok(())
    }

    /// Reads the streams of the proxy in one direction, on one of which it announces its end.
    fn read_unidirectional(&mut self) {
        while let Some(id) = self.connection.streams().accept(Dir::Uni) {
            self.unidirectional.push((id, Vec::new()));
        }
        for (id, bytes) in &mut self.unidirectional {
            let mut stream = self.connection.recv_stream(*id);
            let Ok(mut chunks) = stream.read(true) else { continue };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes.extend_from_slice(&chunk.bytes);
            }
            let _ = chunks.finalize();
            self.goes_away = response::goes_away(bytes).or(self.goes_away);
        }
    }
}

/// Settings of connections: windows that hold back no response here.
pub fn transport() -> quinn_proto::TransportConfig {
    let mut transport = quinn_proto::TransportConfig::default();
    transport
        .max_idle_timeout(Duration::from_secs(3600).try_into().ok())
        .stream_receive_window((4u32 << 20).into())
        .receive_window((32u32 << 20).into())
        .datagram_receive_buffer_size(None);
    transport
}
