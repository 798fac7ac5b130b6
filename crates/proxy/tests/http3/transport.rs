//! Violations of RFC 9000 and RFC 9001 by a client: each closes the connection with its code, and others are served.

use super::before;
use super::raw::{Heard, RESERVED, RawQuic, Space, Version};
use super::raw_frames::{Parameter, crypto_at, ints, new_id, parameter, stream_at, usual};
use crate::support::Endpoint;
use crate::support::h3_client::H3Client;
use std::net::SocketAddr;

/// Codes of RFC 9000 section 20.1.
const FLOW_CONTROL: u64 = 3;
const STREAM_LIMIT: u64 = 4;
const STREAM_STATE: u64 = 5;
const FINAL_SIZE: u64 = 6;
const FRAME_ENCODING: u64 = 7;
const PARAMETER: u64 = 8;
const ID_LIMIT: u64 = 9;
const PROTOCOL: u64 = 0xa;
const CRYPTO_BUFFER: u64 = 0xd;

/// Alerts of TLS as codes (RFC 9001 section 4.8).
const UNEXPECTED_MESSAGE: u64 = 0x100 + 10;
const DECODE_ERROR: u64 = 0x100 + 50;
const MISSING_EXTENSION: u64 = 0x100 + 109;
const NO_PROTOCOL: u64 = 0x100 + 120;

/// A stream of the client for a request, one of the client in one direction, and those of the proxy.
const BIDI: u64 = 0;
const UNI: u64 = 2;
const OF_PROXY_BIDI: u64 = 1;
const OF_PROXY_UNI: u64 = 3;

/// Larger than any window or limit.
const FAR: u64 = 1 << 40;

/// Frames in a packet behind the handshake. Rows: name, frames, code.
fn frames() -> Vec<(&'static str, Vec<u8>, u64)> {
    let reset = |id: u64, size: u64| ints(&[4, id, 0, size]);
    let request = stream_at(BIDI, 0, &[0, 5, 1, 2, 3, 4, 5], false);
    let ended = stream_at(BIDI, 0, b"12345", true);
    vec![
        ("no frame", vec![], PROTOCOL),
        ("an unknown frame", ints(&[0x3f]), FRAME_ENCODING),
        ("an unknown frame with a long type", ints(&[0x1_0000]), FRAME_ENCODING),
        ("STREAM: beyond the window of the stream", stream_at(BIDI, FAR, b"x", false), FLOW_CONTROL),
        ("STREAM: beyond the largest offset", stream_at(BIDI, (1 << 62) - 1, b"xx", false), FLOW_CONTROL),
        ("STREAM: beyond the limit of streams", stream_at(4 * 1000, 0, b"x", false), STREAM_LIMIT),
        ("STREAM: beyond the limit of streams in one direction", stream_at(UNI + 4 * 50, 0, b"x", false), STREAM_LIMIT),
        (
            "STREAM: of the proxy, in both directions, not opened",
            stream_at(OF_PROXY_BIDI, 0, b"x", false),
            STREAM_STATE,
        ),
        ("STREAM: on which only the proxy sends", stream_at(OF_PROXY_UNI, 0, b"x", false), STREAM_STATE),
        ("STREAM: cut", ints(&[0xe, BIDI, 0, 100]), FRAME_ENCODING),
        ("STREAM: behind its end", [ended.clone(), stream_at(BIDI, 5, b"x", false)].concat(), FINAL_SIZE),
        ("STREAM: ends twice", [ended.clone(), stream_at(BIDI, 0, b"1234", true)].concat(), FINAL_SIZE),
        ("RESET_STREAM: another size than the end", [ended.clone(), reset(BIDI, 4)].concat(), FINAL_SIZE),
        ("RESET_STREAM: less than came", [request.clone(), reset(BIDI, 1)].concat(), FINAL_SIZE),
        ("RESET_STREAM: beyond the window", reset(BIDI, FAR), FLOW_CONTROL),
        ("RESET_STREAM: on which only the proxy sends", reset(OF_PROXY_UNI, 0), STREAM_STATE),
        ("RESET_STREAM: beyond the limit of streams", reset(4 * 1000, 0), STREAM_LIMIT),
        ("RESET_STREAM: cut", ints(&[4, BIDI, 0]), FRAME_ENCODING),
        ("STOP_SENDING: of the proxy, not opened", ints(&[5, OF_PROXY_BIDI, 0]), STREAM_STATE),
        ("STOP_SENDING: on which only the client sends", ints(&[5, UNI, 0]), STREAM_STATE),
        ("MAX_STREAM_DATA: of the proxy, not opened", ints(&[0x11, OF_PROXY_BIDI, 9]), STREAM_STATE),
        ("MAX_STREAM_DATA: on which only the client sends", ints(&[0x11, UNI, 9]), STREAM_STATE),
        ("MAX_STREAMS: too many, both directions", ints(&[0x12, (1 << 60) + 1]), FRAME_ENCODING),
        ("MAX_STREAMS: too many, one direction", ints(&[0x13, (1 << 60) + 1]), FRAME_ENCODING),
        ("MAX_DATA: cut", vec![0x10, 0x40], FRAME_ENCODING),
        ("NEW_TOKEN", [ints(&[7, 4]), b"here".to_vec()].concat(), PROTOCOL),
        ("HANDSHAKE_DONE", ints(&[0x1e]), PROTOCOL),
        ("NEW_CONNECTION_ID: retires what it does not replace", new_id(1, 2, b"12345678"), FRAME_ENCODING),
        ("NEW_CONNECTION_ID: empty", new_id(1, 0, b""), FRAME_ENCODING),
        ("NEW_CONNECTION_ID: 21 bytes", new_id(1, 0, &[7; 21]), FRAME_ENCODING),
        ("NEW_CONNECTION_ID: cut", new_id(1, 0, b"12345678")[..12].to_vec(), FRAME_ENCODING),
        ("NEW_CONNECTION_ID: more than agreed", (1..40).flat_map(|n| new_id(n, 0, &[n as u8; 8])).collect(), ID_LIMIT),
        ("RETIRE_CONNECTION_ID: not given", ints(&[0x19, 1000]), PROTOCOL),
        ("ACK: of packets that were not sent", ints(&[2, 1 << 20, 0, 0, 0]), PROTOCOL),
        ("ACK: more packets than there are", ints(&[2, 1, 0, 0, 5]), FRAME_ENCODING),
        ("ACK: a gap below 0", ints(&[2, 1, 0, 1, 0, 7, 0]), FRAME_ENCODING),
        ("ACK: cut", ints(&[2, 0, 0, 5]), FRAME_ENCODING),
        ("DATAGRAM without a window for it", [ints(&[0x31, 1]), b"x".to_vec()].concat(), PROTOCOL),
        ("CRYPTO: far beyond what came", crypto_at(FAR, b"x"), CRYPTO_BUFFER),
        ("CRYPTO: an update of keys of TLS", crypto_at(0, &[24, 0, 0, 1, 0]), UNEXPECTED_MESSAGE),
        ("CRYPTO: cut", ints(&[6, 0, 9]), FRAME_ENCODING),
        ("PATH_CHALLENGE: cut", [ints(&[0x1a]), vec![1; 7]].concat(), FRAME_ENCODING),
    ]
}

/// Frames in a packet of the handshake.
fn early() -> Vec<(&'static str, Space, Vec<u8>, u64)> {
    use Space::{Handshake, Initial};
    let mut rows = vec![
        ("Initial: an unknown frame", Initial, ints(&[0x3f]), FRAME_ENCODING),
        ("Initial: CRYPTO far beyond what came", Initial, crypto_at(FAR, b"x"), CRYPTO_BUFFER),
        (
            "Initial: no hello but another message",
            Initial,
            crypto_at(0, &[20, 0, 0, 4, 1, 2, 3, 4]),
            UNEXPECTED_MESSAGE,
        ),
        ("Initial: an empty hello", Initial, crypto_at(0, &[1, 0, 0, 0]), DECODE_ERROR),
        ("Handshake: another message", Handshake, crypto_at(0, &[1, 0, 0, 0]), DECODE_ERROR),
        ("Handshake: CRYPTO far beyond what came", Handshake, crypto_at(FAR, b"x"), CRYPTO_BUFFER),
    ];
    for (name, frames) in [
        ("STREAM in the handshake", stream_at(BIDI, 0, b"x", false)),
        ("MAX_DATA in the handshake", ints(&[0x10, 1])),
        ("RESET_STREAM in the handshake", ints(&[4, 0, 0, 0])),
        ("NEW_CONNECTION_ID in the handshake", new_id(1, 0, b"12345678")),
        ("RETIRE_CONNECTION_ID in the handshake", ints(&[0x19, 0])),
        ("PATH_CHALLENGE in the handshake", [ints(&[0x1a]), vec![1; 8]].concat()),
        ("HANDSHAKE_DONE in the handshake", ints(&[0x1e])),
        ("NEW_TOKEN in the handshake", [ints(&[7, 1]), b"x".to_vec()].concat()),
    ] {
        rows.push((name, Space::Initial, frames.clone(), PROTOCOL));
        rows.push((name, Space::Handshake, frames, PROTOCOL));
    }
    rows
}

/// Transport parameters that are wrong.
fn parameters() -> Vec<(&'static str, Vec<Parameter>, u64)> {
    use parameter::*;
    let id = b"raw-quic";
    let with = |more: Parameter| -> Vec<Parameter> {
        usual(id).into_iter().filter(|(kind, _)| *kind != more.0).chain([more.clone()]).collect()
    };
    let twice: Vec<Parameter> = usual(id).into_iter().chain([(MAX_DATA, ints(&[1]))]).collect();
    let without = |kind: u64| usual(id).into_iter().filter(|(known, _)| *known != kind).collect::<Vec<_>>();
    vec![
        ("no id of the client", without(INITIAL_SOURCE), PARAMETER),
        ("another id of the client", with((INITIAL_SOURCE, b"other".to_vec())), PARAMETER),
        ("the first id of the server", with((ORIGINAL_DESTINATION, vec![1; 8])), PARAMETER),
        ("a token for resets", with((STATELESS_RESET_TOKEN, vec![1; 16])), PARAMETER),
        ("a preferred address", with((PREFERRED_ADDRESS, vec![1; 49])), PARAMETER),
        ("an id of a Retry", with((RETRY_SOURCE, vec![1; 8])), PARAMETER),
        ("payloads below 1200 bytes", with((MAX_UDP_PAYLOAD, ints(&[1199]))), PARAMETER),
        ("an exponent above 20", with((ACK_DELAY_EXPONENT, ints(&[21]))), PARAMETER),
        ("acknowledgements later than 2^14 ms", with((MAX_ACK_DELAY, ints(&[1 << 14]))), PARAMETER),
        ("fewer than 2 ids", with((ACTIVE_IDS, ints(&[1]))), PARAMETER),
        ("more than 2^60 streams", with((MAX_STREAMS_BIDI, ints(&[(1 << 60) + 1]))), PARAMETER),
        ("a parameter twice", twice, PARAMETER),
        ("a cut number", with((MAX_DATA, vec![0x40])), PARAMETER),
        ("a long number", with((MAX_DATA, vec![1, 1])), PARAMETER),
    ]
}

/// Endpoint and address of a proxy, whose connection is closed after `act`, and then the outcome.
struct Table {
    addr: SocketAddr,
    wrong: Vec<String>,
}

impl Table {
    fn check(&mut self, name: &str, client: &mut RawQuic, code: u64) {
        let heard = client.closed();
        if heard != Some(Heard::Closed(code)) {
            self.wrong.push(format!("{name}: {heard:x?}, not {code:#x}"));
        }
    }

    #[track_caller]
    fn end(self) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        let answer = crate::support::h3_client::block_on(async { H3Client::connect(self.addr).await.get("/").await });
        assert_eq!(answer.status(), 200, "others are served");
    }
}

#[test]
fn wrong_frames_close_the_connection_with_their_codes() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut table = Table { addr: proxy.addr(), wrong: Vec::new() };
    for version in Version::ALL {
        for (name, frames, code) in frames() {
            let mut client = RawQuic::connect(version, proxy.addr());
            client.send(Space::Data, &frames);
            table.check(name, &mut client, code);
        }
    }
    assert_eq!(proxy.listener(|l| l.http3.version2.get()), frames().len() as u64);
    table.end();
}

#[test]
fn wrong_frames_of_handshakes_close_them_with_their_codes() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut table = Table { addr: proxy.addr(), wrong: Vec::new() };
    let rows = Version::ALL.into_iter().flat_map(|version| early().into_iter().map(move |row| (version, row)));
    for (version, (name, space, frames, code)) in rows {
        let mut client = RawQuic::speaking(version, proxy.addr());
        if space == Space::Initial {
            client.send(space, &frames);
        } else {
            // The answer to the hello brings keys for the handshake; its end is not sent.
            let hello = client.hello();
            let frame = client.crypto(Space::Initial, &hello);
            client.send(Space::Initial, &frame);
            client.mute = true;
            assert!(client.reach(space), "{name}");
            client.send(space, &frames);
        }
        table.check(&format!("{name}, {space:?}"), &mut client, code);
    }
    table.end();
}

#[test]
fn wrong_transport_parameters_and_hellos_are_refused_with_their_codes() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut table = Table { addr: proxy.addr(), wrong: Vec::new() };
    for (name, parameters, code) in parameters() {
        let mut client = RawQuic::with(Version::V1, proxy.addr(), b"h3", &parameters);
        client.begin();
        table.check(name, &mut client, code);
    }
    for (name, protocol) in [("no protocol", &b""[..]), ("another protocol", b"h2")] {
        let mut client = RawQuic::with(Version::V1, proxy.addr(), protocol, &usual(b"raw-quic"));
        client.begin();
        table.check(name, &mut client, NO_PROTOCOL);
    }
    let mut client = RawQuic::new(proxy.addr());
    let mut hello = client.hello();
    // The parameters become an extension that nobody knows.
    let at = hello.windows(2).rposition(|kind| kind == [0, 0x39]).expect("the extension of parameters");
    hello[at] = 0x7a;
    let frame = client.crypto(Space::Initial, &hello);
    client.send(Space::Initial, &frame);
    table.check("no parameters", &mut client, MISSING_EXTENSION);
    table.end();
}

#[test]
fn reserved_bits_close_the_connection() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut table = Table { addr: proxy.addr(), wrong: Vec::new() };
    for version in Version::ALL {
        let mut client = RawQuic::connect(version, proxy.addr());
        client.bits = RESERVED[Space::Data as usize];
        client.send(Space::Data, &[1]);
        table.check("short header", &mut client, PROTOCOL);
        let mut client = RawQuic::speaking(version, proxy.addr());
        client.begin();
        client.mute = true;
        assert!(client.reach(Space::Handshake));
        client.bits = RESERVED[Space::Handshake as usize];
        client.send(Space::Handshake, &[1]);
        table.check("Handshake", &mut client, PROTOCOL);
    }
    table.end();
}

/// Rules that only say that something is ignored.
#[test]
fn frames_without_an_effect_leave_the_connection_open() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut client = RawQuic::connect(Version::V1, proxy.addr());
    for (name, frames) in [
        ("PADDING and PING", vec![0, 0, 1, 0]),
        ("a smaller MAX_DATA", ints(&[0x10, 1])),
        ("a smaller MAX_STREAMS", ints(&[0x12, 0])),
        ("DATA_BLOCKED", ints(&[0x14, 5])),
        ("STREAMS_BLOCKED", ints(&[0x16, 5])),
        ("PATH_RESPONSE that was not asked for", [ints(&[0x1b]), vec![9; 8]].concat()),
        ("NEW_CONNECTION_ID twice", [new_id(1, 0, b"12345678"), new_id(1, 0, b"12345678")].concat()),
    ] {
        client.send(Space::Data, &frames);
        assert!(client.is_alive(), "{name}");
    }
    // Packets that cannot be read are dropped.
    for bytes in [&b""[..], b"x", &[0x40; 30], &[0xc0; 40], &[0xff; 1200], &[0; 1200]] {
        client.socket.send(bytes).expect("the proxy listens");
        assert!(client.is_alive(), "{} bytes", bytes.len());
    }
}

#[test]
fn a_version_that_is_not_spoken_is_answered_with_those_that_are() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    let mut client = RawQuic::new(proxy.addr());
    let hello = client.hello();
    let frame = client.crypto(Space::Initial, &hello);
    let mut packet = client.packet(Space::Initial, &frame);
    packet[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
    client.socket.send(&packet).expect("the proxy listens");
    client.socket.set_read_timeout(Some(crate::support::SOON)).expect("sockets have timeouts");
    let mut answer = [0; 1500];
    let len = client.socket.recv(&mut answer).expect("an answer");
    let answer = &answer[..len];
    assert_eq!((answer[0] & 0x80, &answer[1..5]), (0x80, &[0; 4][..]), "{answer:x?}");
    for version in Version::ALL {
        assert!(answer.windows(4).any(|listed| listed == version.number()), "{version:?} in {answer:x?}");
    }
    assert!(len < packet.len());
    // Too short for an Initial packet: no answer, as it could be forged.
    client.socket.send(&packet[..1100]).expect("the proxy listens");
    assert!(!client.receive(std::time::Duration::from_millis(100)));
}
