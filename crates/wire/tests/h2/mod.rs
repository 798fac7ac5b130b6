//! A driver of the HTTP/2 engine for tests: one side of a connection over a pipe in memory.

use evenkeel_wire::h2::{Connection, ConnectionError, ErrorCode, Event, Head, NoStream, Received, StreamId};
use evenkeel_wire::head::Table;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Data received on a stream, and data still to be sent on it.
#[derive(Debug, Default)]
pub struct Stream {
    pub head: Option<Head>,
    pub received: Vec<u8>,
    pub trailers: Option<Table>,
    pub ended: bool,
    pub reset: Option<u32>,
    /// Bytes of the body to be sent.
    pub to_send: Vec<u8>,
    pub sent: usize,
    /// End of the message, to be sent after them.
    pub end: Option<End>,
    /// Bytes received and not yet reported as consumed.
    pub flow: usize,
}

/// The end of a stream's message.
#[derive(Clone, Debug)]
pub enum End {
    Plain,
    Trailers(&'static [(&'static str, &'static str)]),
    Reset(ErrorCode),
}

/// A side of a connection: an engine, its streams and its pipe.
#[derive(Debug)]
pub struct Side {
    pub engine: Connection,
    pub streams: BTreeMap<StreamId, Stream>,
    /// True if the peer has announced that it accepts no more streams.
    pub peer_goes: bool,
    pipe: DuplexStream,
    held: Vec<u8>,
    /// Most bytes of each read, used in turn.
    cuts: Vec<usize>,
    turn: usize,
}

/// Reason why a side stopped.
#[derive(Debug)]
pub enum Stop {
    /// The other side has closed the connection.
    Closed,
    Failed(ConnectionError),
}

pub fn pairs<'f>(fields: &'f [(&'f str, &'f str)]) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

impl Side {
    pub fn new(engine: Connection, pipe: DuplexStream, cuts: Vec<usize>) -> Side {
        Side { engine, streams: BTreeMap::new(), peer_goes: false, pipe, held: Vec::new(), cuts, turn: 0 }
    }

    /// Begins a request with these fields.
    pub fn open(&mut self, fields: &[(&str, &str)], stream: Stream) -> Result<StreamId, NoStream> {
        let ends = stream.to_send.is_empty() && matches!(stream.end, Some(End::Plain));
        let id = self.engine.open(pairs(fields), ends)?;
        let end = if ends { None } else { stream.end.clone() };
        self.streams.insert(id, Stream { end, ..stream });
        Ok(id)
    }

    /// Sends what the windows allow, waits until bytes have been sent or received, and processes those.
    pub async fn step(&mut self) -> Result<(), Stop> {
        self.send();
        let most = self.cuts[self.turn % self.cuts.len()];
        self.turn += 1;
        let mut room = vec![0; most];
        let (mut reader, mut writer) = tokio::io::split(&mut self.pipe);
        let output = self.engine.output();
        let read: io::Result<usize> = if output.is_empty() {
            reader.read(&mut room).await
        } else {
            tokio::select! {
                read = reader.read(&mut room) => read,
                written = writer.write(output) => {
                    output.drain(..written.map_err(|_| Stop::Closed)?);
                    return Ok(());
                }
            }
        };
        match read {
            Ok(n @ 1..) => self.held.extend_from_slice(&room[..n]),
            _ => return Err(Stop::Closed),
        }
        self.take()
    }

    fn take(&mut self) -> Result<(), Stop> {
        loop {
            match self.engine.receive(&self.held, 0).map_err(Stop::Failed)? {
                Received { used: 0, event: None } => return Ok(()),
                Received { used, event } => {
                    if let Some(event) = event {
                        self.on_event(event);
                    }
                    self.held.drain(..used);
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Head { stream, head } => {
                let state = self.streams.entry(stream).or_default();
                assert!(!state.ended && state.reset.is_none());
                state.ended = head.ends;
                state.head = Some(head);
            }
            Event::Data { stream, range, flow, ends } => {
                let state = self.streams.get_mut(&stream).expect("it has begun");
                assert!(!state.ended && state.reset.is_none());
                state.received.extend_from_slice(&self.held[range]);
                state.ended = ends;
                state.flow += flow as usize;
            }
            Event::Trailers { stream, table } => {
                let state = self.streams.get_mut(&stream).expect("it has begun");
                assert!(!state.ended);
                state.trailers = Some(table);
                state.ended = true;
            }
            Event::Reset { stream, code, .. } => {
                let state = self.streams.get_mut(&stream).expect("it has begun");
                state.reset = Some(code);
            }
            Event::GoAway { .. } => self.peer_goes = true,
            Event::Refused(refused) => panic!("a good head is refused: {refused:?}"),
            Event::Flooded(flood) => panic!("no flood: {flood:?}"),
            Event::Room { .. } | Event::Settings | Event::Pong(_) => {}
        }
    }

    fn send(&mut self) {
        for (&id, stream) in &mut self.streams {
            let flow = std::mem::take(&mut stream.flow);
            if flow > 0 {
                self.engine.consumed(id, flow);
            }
            if stream.reset.is_some() {
                stream.end = None;
                continue;
            }
            while stream.sent < stream.to_send.len() && self.engine.capacity(id) > 0 {
                let n = self.engine.capacity(id).min(stream.to_send.len() - stream.sent);
                let part = &stream.to_send[stream.sent..][..n];
                stream.sent += n;
                let ends = stream.sent == stream.to_send.len() && matches!(stream.end, Some(End::Plain));
                self.engine.send_data(id, part, ends);
                if ends {
                    stream.end = None;
                }
            }
            if stream.sent == stream.to_send.len() {
                match stream.end.take() {
                    None => {}
                    Some(End::Plain) => self.engine.send_data(id, b"", true),
                    Some(End::Trailers(fields)) => self.engine.send_trailers(id, pairs(fields)),
                    Some(End::Reset(code)) => {
                        self.engine.reset(id, code);
                        stream.reset = Some(code as u32);
                    }
                }
            }
        }
    }
}

/// Runs a test on paused time, which advances only when nothing else can happen: a connection that hangs ends it at
/// once.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("it can be built");
    let local = tokio::task::LocalSet::new();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), test).await };
    local.block_on(&runtime, limited).expect("the connection hangs");
}
