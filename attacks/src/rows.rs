//! The exchanges: name, actions, and the ends that RFC 9114 and RFC 9204 allow.

use h3i::actions::h3::{Action, RequiredStreamsQuota, WaitType, send_headers_frame, send_headers_frame_literal};
use quiche::h3::Header;
use quiche::h3::frame::Frame;
use std::fmt;

/// End of an exchange, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server has closed the connection with this code.
    Closed(u64),
    /// The server has reset the stream with this code.
    Reset(u64),
    Status(u16),
    /// No response, reset or close within 300 ms.
    Open,
}

pub const OK: End = End::Status(200);

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Closed(code) => write!(f, "closed with {code:#x}"),
            End::Reset(code) => write!(f, "reset with {code:#x}"),
            End::Status(status) => write!(f, "status {status}"),
            End::Open => f.write_str("left open"),
        }
    }
}

/// Errors of RFC 9114 section 8.1, and of RFC 9204 section 6.
const NO_ERROR: u64 = 0x100;
const REJECTED: u64 = 0x10b;
const STREAM_CREATION: u64 = 0x103;
const CLOSED_CRITICAL: u64 = 0x104;
const UNEXPECTED: u64 = 0x105;
const FRAME: u64 = 0x106;
const EXCESSIVE: u64 = 0x107;
const ID: u64 = 0x108;
const SETTINGS: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const INCOMPLETE: u64 = 0x10d;
const MESSAGE: u64 = 0x10e;
const DECOMPRESSION: u64 = 0x200;
const ENCODER_STREAM: u64 = 0x201;
const DECODER_STREAM: u64 = 0x202;

/// Batches of 50 requests that are reset: beyond what a server may bear.
const BATCHES: u64 = 100;

/// Types of unidirectional streams.
const CONTROL: u64 = 0;
const PUSH: u64 = 1;
const ENCODER: u64 = 2;
const DECODER: u64 = 3;

pub struct Row {
    pub name: &'static str,
    pub actions: Vec<Action>,
    /// Stream whose end counts, if the connection stays.
    pub stream: u64,
    pub want: Vec<End>,
}

impl Row {
    fn new(name: &'static str, actions: Vec<Action>, want: Vec<End>) -> Row {
        Row { name, actions, stream: 0, want }
    }
}

fn fields(pairs: &[(&str, &str)]) -> Vec<Header> {
    pairs.iter().map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())).collect()
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "h3i.test"), (":path", "/")];

pub fn get() -> Vec<Header> {
    fields(&GET)
}

fn request(more: &[(&str, &str)], ends: bool) -> Action {
    send_headers_frame_literal(0, ends, fields(&[&GET[..], more].concat()))
}

fn post(length: &str) -> Action {
    let [_, rest @ ..] = GET;
    let all = [&[(":method", "POST")][..], &rest, &[("content-length", length)]].concat();
    send_headers_frame(0, false, fields(&all))
}

fn open(stream_id: u64, stream_type: u64) -> Action {
    Action::OpenUniStream { stream_id, fin_stream: false, stream_type, expected_result: Default::default() }
}

fn send(stream_id: u64, frame: Frame) -> Action {
    Action::SendFrame { stream_id, fin_stream: false, frame, expected_result: Default::default() }
}

fn bytes(stream_id: u64, bytes: &[u8], fin_stream: bool) -> Action {
    Action::StreamBytes { stream_id, fin_stream, bytes: bytes.to_vec(), expected_result: Default::default() }
}

fn settings(pairs: &[(u64, u64)]) -> Frame {
    Frame::Settings {
        max_field_section_size: None,
        qpack_max_table_capacity: None,
        qpack_blocked_streams: None,
        connect_protocol_enabled: None,
        h3_datagram: None,
        grease: None,
        additional_settings: Some(pairs.to_vec()),
        raw: None,
    }
}

fn data(payload: &[u8]) -> Frame {
    Frame::Data { payload: payload.to_vec() }
}

/// Opens the control stream and sends settings.
pub fn begin() -> Vec<Action> {
    vec![open(2, CONTROL), send(2, settings(&[]))]
}

/// Begins requests and resets them at once, over and over. Returns the last of them, too.
fn resets() -> (Vec<Action>, u64) {
    let mut actions = begin();
    for batch in 0..BATCHES {
        let ids: Vec<u64> = (0..50).map(|n| 4 * (50 * batch + n)).collect();
        actions.extend(ids.iter().map(|id| send_headers_frame(*id, false, get())));
        actions.push(Action::FlushPackets);
        actions.extend(ids.iter().map(|&stream_id| Action::ResetStream { stream_id, error_code: 0x10c }));
        actions.push(Action::FlushPackets);
        let quota = RequiredStreamsQuota { num: 50, bidi: true };
        actions.push(Action::Wait { wait_type: WaitType::CanOpenNumStreams(quota) });
    }
    (actions, 4 * (50 * BATCHES - 1))
}

pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut closes = |name, after: bool, actions: Vec<Action>, code| {
        let actions = if after { [begin(), actions].concat() } else { actions };
        rows.push(Row::new(name, actions, vec![End::Closed(code)]));
    };
    // The control stream.
    closes(
        "control: GOAWAY before SETTINGS",
        false,
        vec![open(2, CONTROL), send(2, Frame::GoAway { id: 0 })],
        MISSING_SETTINGS,
    );
    closes("control: SETTINGS twice", true, vec![send(2, settings(&[]))], UNEXPECTED);
    closes("control: DATA", true, vec![send(2, data(b"x"))], UNEXPECTED);
    closes("control: HEADERS", true, vec![send_headers_frame(2, false, get())], UNEXPECTED);
    closes(
        "control: a frame of HTTP/2",
        true,
        vec![send(2, Frame::Unknown { raw_type: 6, payload: vec![0; 8] })],
        UNEXPECTED,
    );
    closes("control: ends", true, vec![bytes(2, b"", true)], CLOSED_CRITICAL);
    closes(
        "control: reset",
        true,
        vec![Action::FlushPackets, Action::ResetStream { stream_id: 2, error_code: 0x100 }],
        CLOSED_CRITICAL,
    );
    closes("control: a second", true, vec![open(6, CONTROL), send(6, settings(&[]))], STREAM_CREATION);
    closes("control: a setting of HTTP/2", false, vec![open(2, CONTROL), send(2, settings(&[(2, 1)]))], SETTINGS);
    closes("control: a setting twice", false, vec![open(2, CONTROL), bytes(2, &[4, 4, 6, 1, 6, 1], false)], SETTINGS);
    closes("control: SETTINGS cut by its length", false, vec![open(2, CONTROL), bytes(2, &[4, 1, 6], false)], FRAME);
    let push = |push_id| send(2, Frame::MaxPushId { push_id });
    closes("control: MAX_PUSH_ID goes back", true, vec![push(4), push(3)], ID);
    closes("control: CANCEL_PUSH of no push", true, vec![send(2, Frame::CancelPush { push_id: 1 })], ID);
    closes(
        "control: GOAWAY goes up",
        true,
        vec![send(2, Frame::GoAway { id: 0 }), send(2, Frame::GoAway { id: 4 })],
        ID,
    );
    // Other streams.
    closes("a push of the client", true, vec![open(6, PUSH), bytes(6, &[0], false)], STREAM_CREATION);
    closes(
        "QPACK: a table that was not allowed",
        true,
        vec![open(6, ENCODER), bytes(6, &[0x3f, 0x45], false)],
        ENCODER_STREAM,
    );
    closes(
        "QPACK: an entry without a table",
        true,
        vec![open(6, ENCODER), bytes(6, &[0xc1, 1, b'x'], false)],
        ENCODER_STREAM,
    );
    closes("QPACK: acknowledges no section", true, vec![open(6, DECODER), bytes(6, &[0x80], false)], DECODER_STREAM);
    closes("QPACK: encoder stream ends", true, vec![open(6, ENCODER), bytes(6, b"", true)], CLOSED_CRITICAL);
    // Requests that break the connection.
    let block = |header_block: &[u8]| vec![send(0, Frame::Headers { header_block: header_block.to_vec() })];
    closes("QPACK: needs entries", true, block(&[2, 0, 0x80]), DECOMPRESSION);
    closes("request: DATA before HEADERS", true, vec![send(0, data(b"x"))], UNEXPECTED);
    closes("request: SETTINGS", true, vec![send(0, settings(&[]))], UNEXPECTED);
    closes(
        "request: PUSH_PROMISE",
        true,
        vec![send(0, Frame::PushPromise { push_id: 0, header_block: vec![0, 0] })],
        UNEXPECTED,
    );
    closes(
        "request: a frame of HTTP/2",
        true,
        vec![request(&[], false), send(0, Frame::Unknown { raw_type: 8, payload: vec![0; 4] })],
        UNEXPECTED,
    );
    let trailers = send_headers_frame(0, false, fields(&[("a", "b")]));
    closes(
        "request: DATA behind trailers",
        true,
        vec![post("1"), send(0, data(b"x")), trailers.clone(), send(0, data(b"x"))],
        UNEXPECTED,
    );
    closes("request: ends within a frame", true, vec![request(&[], false), bytes(0, &[0, 10, b'x'], true)], FRAME);
    closes("request: ends within a type", true, vec![request(&[], false), bytes(0, &[0x40], true)], FRAME);

    // Requests that are refused, and no more.
    let mut refuses = |name, action: Action, want: Vec<End>| {
        rows.push(Row::new(name, [begin(), vec![action]].concat(), want));
    };
    let malformed = || vec![End::Reset(MESSAGE), End::Status(400)];
    refuses("an upper-case name", request(&[("X-A", "b")], true), malformed());
    refuses("a pseudo field behind others", request(&[("a", "b"), (":x", "y")], true), malformed());
    refuses("a path twice", request(&[(":path", "/")], true), malformed());
    refuses("connection: close", request(&[("connection", "close")], true), malformed());
    refuses("transfer-encoding", request(&[("transfer-encoding", "chunked")], true), malformed());
    refuses("a line end in a value", request(&[("a", "b\r\nc: d")], true), malformed());
    refuses("no path", send_headers_frame(0, true, fields(&GET[..3])), malformed());
    refuses("a length without a body", request(&[("content-length", "5")], true), malformed());
    refuses("an empty stream", bytes(0, b"", true), vec![End::Reset(INCOMPLETE)]);
    let another = |payload: &[u8]| {
        let body = Action::SendFrame {
            stream_id: 0,
            fin_stream: true,
            frame: data(payload),
            expected_result: Default::default(),
        };
        [begin(), vec![post("5"), body]].concat()
    };
    rows.push(Row::new("less than the length", another(b"1234"), malformed()));
    rows.push(Row::new("more than the length", another(b"123456"), malformed()));

    // Extensions that a server must ignore.
    let grease = [
        open(2, CONTROL),
        send(2, settings(&[(0x21, 7), (0x4a4a, 1)])),
        send(2, Frame::Unknown { raw_type: 0x21, payload: b"grease".to_vec() }),
        open(6, 0x21),
        bytes(6, b"whatever", false),
        send(0, Frame::Unknown { raw_type: 0x40, payload: Vec::new() }),
        request(&[], false),
        Action::SendFrame {
            stream_id: 0,
            fin_stream: true,
            frame: Frame::Unknown { raw_type: 0x5f, payload: vec![1; 100] },
            expected_result: Default::default(),
        },
    ];
    rows.push(Row::new("reserved settings, streams and frames", grease.to_vec(), vec![OK]));
    let late = Frame::PriorityUpdateRequest { prioritized_element_id: 0, priority_field_value: b"u=1".to_vec() };
    let with_priority = [begin(), vec![send(2, late), request(&[], true)]].concat();
    rows.push(Row::new("a priority", with_priority, vec![OK]));
    // The server closes the connection, or serves the requests that it has, which may be of others, and no more.
    let (actions, stream) = resets();
    let want = [End::Closed(EXCESSIVE), End::Closed(NO_ERROR), End::Reset(REJECTED)];
    rows.push(Row { name: "resets in series", actions, stream, want: want.to_vec() });
    rows
}
