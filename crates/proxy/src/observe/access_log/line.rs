//! What does a line say? The fields of one request, in JSON.

use super::backwards::Backwards;
use super::front::Front;
use evenkeel_balance::Instant;
use evenkeel_net::tls::Info;
use std::cell::OnceCell;

/// One request, for its line. Durations in nanoseconds; `None` where that phase was not reached.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Line<'a> {
    pub began: Instant,
    pub request_id: u64,
    pub client: &'a [u8],
    /// Who connected, if that was not the client.
    pub peer: Option<&'a [u8]>,
    /// Its listener and route, from [`Named::taken`].
    pub taken: &'a [u8],
    /// Its pool and endpoint, from [`Named::sent`]; [`NOWHERE`] if it got to none.
    pub sent: &'a [u8],
    pub tries: u32,
    pub proto: &'static str,
    /// What was agreed with its client over TLS; a line without that does not have the fields.
    pub tls: Option<&'a Info>,
    /// Fields made by [`asked`] when the request came; empty if it could not be read.
    pub asked: &'a [u8],
    pub status: u16,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub queue_ns: u64,
    pub connect_ns: Option<u64>,
    pub ttfb_ns: Option<u64>,
    pub total_ns: u64,
    pub term: [u8; 2],
    /// Why it got no response of an endpoint; a line without one does not have the field.
    pub reason: Option<&'a str>,
    /// How a gRPC call ended; other lines do not have the field.
    pub grpc_status: Option<&'a str>,
}

impl Line<'_> {
    /// Appends the line of which this is the front.
    pub fn write(&self, front: &Front, out: &mut Vec<u8>) {
        out.extend_from_slice(front.bytes());
        out.extend_from_slice(self.client);
        match self.peer {
            None => out.extend_from_slice(b"\",\"peer\":null"),
            Some(peer) => {
                out.extend_from_slice(b"\",\"peer\":\"");
                out.extend_from_slice(peer);
                out.push(b'"');
            }
        }
        out.extend_from_slice(self.taken);
        out.extend_from_slice(self.sent);
        let mut text = Backwards::new();
        text.put(b"\"");
        text.put(self.proto.as_bytes());
        text.put(b",\"proto\":\"");
        text.number(u64::from(self.tries));
        text.put(b",\"tries\":");
        out.extend_from_slice(text.bytes());
        if let Some(tls) = self.tls {
            secured(out, tls);
        }
        out.extend_from_slice(if self.asked.is_empty() { UNREAD } else { self.asked });
        text.clear();
        if self.reason.is_none() && self.grpc_status.is_none() {
            text.put(b"\"}\n");
        }
        text.put(&self.term);
        text.put(b",\"term\":\"");
        text.millis(Some(self.total_ns));
        text.put(b",\"t_total\":");
        text.millis(self.ttfb_ns);
        text.put(b",\"t_ttfb\":");
        text.millis(self.connect_ns);
        text.put(b",\"t_connect\":");
        text.millis(Some(self.queue_ns));
        text.put(b",\"t_queue\":");
        text.number(self.bytes_out);
        text.put(b",\"bytes_out\":");
        text.number(self.bytes_in);
        text.put(b",\"bytes_in\":");
        text.number(u64::from(self.status));
        text.put(b",\"status\":");
        out.extend_from_slice(text.bytes());
        if self.reason.is_some() || self.grpc_status.is_some() {
            end_with(out, [(&b"grpc_status"[..], self.grpc_status), (b"reason", self.reason)]);
        }
    }
}

/// The fields of a connection over TLS.
fn secured(out: &mut Vec<u8>, tls: &Info) {
    out.extend_from_slice(b",\"tls_version\":\"");
    out.extend_from_slice(tls.version.as_bytes());
    out.extend_from_slice(b"\",\"tls_cipher\":\"");
    out.extend_from_slice(tls.cipher.as_bytes());
    out.extend_from_slice(b"\",\"sni\":");
    match &tls.server_name {
        Some(name) => quoted(out, name.as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(&tls.note().log);
}

/// The end of a line that has fields which few have.
fn end_with<const N: usize>(out: &mut Vec<u8>, fields: [(&[u8], Option<&str>); N]) {
    out.push(b'"');
    for (name, value) in fields {
        let Some(value) = value else { continue };
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name);
        out.extend_from_slice(b"\":");
        quoted(out, value.as_bytes());
    }
    out.extend_from_slice(b"}\n");
}

/// Two names that many lines have beside each other: written for the first, and then kept with what they are the names
/// of.
#[derive(Debug, Default)]
pub struct Named(OnceCell<Box<[u8]>>);

impl Named {
    /// The fields of a listener and a route of it.
    pub fn taken<'a>(&self, listener: &str, route: impl FnOnce() -> Option<&'a str>) -> &[u8] {
        self.0.get_or_init(|| names([(b",\"listener\":", Some(listener)), (b",\"route\":", route())]))
    }

    /// The fields of a pool and an endpoint of it.
    pub fn sent(&self, pool: &str, endpoint: Option<&str>) -> &[u8] {
        self.0.get_or_init(|| names([(b",\"pool\":", Some(pool)), (b",\"endpoint\":", endpoint)]))
    }
}

/// What [`Named::sent`] would make of no pool.
pub const NOWHERE: &[u8] = b",\"pool\":null,\"endpoint\":null";

#[cold]
fn names(fields: [(&[u8], Option<&str>); 2]) -> Box<[u8]> {
    let mut out = Vec::new();
    for (key, name) in fields {
        out.extend_from_slice(key);
        match name {
            Some(name) => quoted(&mut out, name.as_bytes()),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.into_boxed_slice()
}

/// What [`asked`] would make of a request that could not be read.
const UNREAD: &[u8] = b",\"method\":null,\"host\":null,\"path\":null,\"trace_id\":null";

/// Appends the fields that only the request itself tells, while its bytes are there.
#[inline(never)]
pub fn asked(out: &mut Vec<u8>, method: &str, host: &[u8], target: &str, traceparent: Option<&[u8]>) {
    out.extend_from_slice(b",\"method\":");
    quoted(out, method.as_bytes());
    out.extend_from_slice(b",\"host\":");
    quoted(out, host);
    out.extend_from_slice(b",\"path\":");
    quoted(out, target.as_bytes());
    out.extend_from_slice(b",\"trace_id\":");
    match traceparent.and_then(trace_id) {
        Some(id) => quoted(out, id),
        None => out.extend_from_slice(b"null"),
    }
}

/// The same of a session, of which only the server that it asked for may be known.
pub fn asked_by_name(out: &mut Vec<u8>, host: Option<&str>) {
    let Some(host) = host else { return };
    out.extend_from_slice(b",\"method\":null,\"host\":");
    quoted(out, host.as_bytes());
    out.extend_from_slice(b",\"path\":null,\"trace_id\":null");
}

/// The trace id of a W3C `traceparent`: `00-<32 hex>-<16 hex>-<2 hex>`.
fn trace_id(value: &[u8]) -> Option<&[u8]> {
    let id = value.get(3..35)?;
    let fits = value.get(2) == Some(&b'-') && value.get(35) == Some(&b'-') && id.iter().all(u8::is_ascii_hexdigit);
    fits.then_some(id)
}

/// A text in quotes.
pub fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if text.iter().all(|&b| IS_PLAIN[usize::from(b)]) {
        out.extend_from_slice(text);
    } else {
        escaped(out, text);
    }
    out.push(b'"');
}

/// Which bytes stand for themselves.
const IS_PLAIN: [bool; 256] = {
    let (mut is_plain, mut b) = ([false; 256], 0x20);
    while b < 0x7f {
        is_plain[b] = b != b'"' as usize && b != b'\\' as usize;
        b += 1;
    }
    is_plain
};

/// As JSON has it; bytes that are not UTF-8 are taken as Latin-1, which never fails.
#[cold]
fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for &b in chunk.valid().as_bytes() {
            match b {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
                0..0x20 | 0x7f => escape(out, b),
                _ => out.push(b),
            }
        }
        chunk.invalid().iter().for_each(|&b| escape(out, b));
    }
}

fn escape(out: &mut Vec<u8>, b: u8) {
    out.extend_from_slice(b"\\u00");
    out.extend([b >> 4, b & 15].map(|d| b"0123456789abcdef"[usize::from(d)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn usual<'a>() -> Line<'a> {
        Line {
            began: Instant(0),
            request_id: 0,
            client: b"192.0.2.1",
            peer: None,
            taken: b",\"listener\":\"l\",\"route\":\"r\"",
            sent: b",\"pool\":\"p\",\"endpoint\":\"e\"",
            tries: 1,
            proto: "HTTP/1.1",
            tls: None,
            asked: b",\"method\":\"GET\",\"host\":\"h\",\"path\":\"/\",\"trace_id\":null",
            status: 200,
            bytes_in: 78,
            bytes_out: 1024,
            queue_ns: 0,
            connect_ns: Some(1_234_567),
            ttfb_ns: Some(20_000_000),
            total_ns: 20_000_999,
            term: *b"--",
            reason: None,
            grpc_status: None,
        }
    }

    /// With the front of second 0.
    fn written(line: &Line<'_>) -> String {
        made(|out| line.write(&Front::default(), out))
    }

    const FRONT: &str = r#"{"ts":"1970-01-01T00:00:00.000Z","req_id":"0000000000000000","client":"#;

    #[test]
    fn a_line_has_its_fields_in_order() {
        let back = r#""listener":"l","route":"r","pool":"p","endpoint":"e","tries":1,"proto":"HTTP/1.1","method":"GET","host":"h","path":"/","trace_id":null,"status":200,"bytes_in":78,"bytes_out":1024,"t_queue":0.000,"t_connect":1.234,"t_ttfb":20.000,"t_total":20.000,"term":"--"}"#;
        assert_eq!(written(&usual()), format!("{FRONT}\"192.0.2.1\",\"peer\":null,{back}\n"));
        let line = Line { peer: Some(b"2001:db8::1"), ..usual() };
        assert_eq!(written(&line), format!("{FRONT}\"192.0.2.1\",\"peer\":\"2001:db8::1\",{back}\n"));
    }

    #[test]
    fn a_line_of_nothing_but_what_was_not_reached_is_whole() {
        let line = Line { sent: NOWHERE, asked: &[], tries: 0, status: 0, connect_ns: None, ttfb_ns: None, ..usual() };
        let back = r#""listener":"l","route":"r","pool":null,"endpoint":null,"tries":0,"proto":"HTTP/1.1","method":null,"host":null,"path":null,"trace_id":null,"status":0,"bytes_in":78,"bytes_out":1024,"t_queue":0.000,"t_connect":null,"t_ttfb":null,"t_total":20.000,"term":"--"}"#;
        assert_eq!(written(&line), format!("{FRONT}\"192.0.2.1\",\"peer\":null,{back}\n"));
    }

    #[test]
    fn a_call_has_its_status() {
        let line = Line { grpc_status: Some("unavailable"), ..usual() };
        assert!(written(&line).ends_with("\"term\":\"--\",\"grpc_status\":\"unavailable\"}\n"), "{}", written(&line));
        let line = Line { reason: Some("none"), ..line };
        assert!(written(&line).ends_with("\"grpc_status\":\"unavailable\",\"reason\":\"none\"}\n"));
    }

    #[test]
    fn a_reason_is_the_last_field() {
        let line = Line { term: *b"PR", reason: Some("pool \"a\": none"), ..usual() };
        assert!(
            written(&line).ends_with("\"term\":\"PR\",\"reason\":\"pool \\\"a\\\": none\"}\n"),
            "{}",
            written(&line)
        );
    }

    #[test]
    fn the_largest_numbers_fit() {
        let most = u64::MAX;
        let line = Line {
            tries: u32::MAX,
            status: u16::MAX,
            bytes_in: most,
            bytes_out: most,
            queue_ns: most,
            connect_ns: Some(most),
            ttfb_ns: Some(most),
            total_ns: most,
            ..usual()
        };
        let line: serde_json::Value = serde_json::from_str(&written(&line)).unwrap();
        assert_eq!((line["tries"].as_u64(), line["bytes_out"].as_u64()), (Some(u32::MAX.into()), Some(most)));
        assert_eq!(line["t_queue"], line["t_total"]);
    }

    #[test]
    fn names_are_written_once() {
        let (taken, sent) = (Named::default(), Named::default());
        assert_eq!(taken.taken("a", || Some("\"")), br#","listener":"a","route":"\"""#);
        assert_eq!(taken.taken("a", || unreachable!("it is written")), br#","listener":"a","route":"\"""#);
        assert_eq!(sent.sent("b", None), br#","pool":"b","endpoint":null"#);
    }

    #[test]
    fn escapes_whatever_a_client_sends() {
        assert_eq!(made(|o| quoted(o, b"a\"b\\c\x01\x7f\xff")), r#""a\"b\\c\u0001\u007f\u00ff""#);
        let foreign = "gr\u{f6}\u{df}e \u{8239}";
        assert_eq!(made(|o| quoted(o, foreign.as_bytes())), format!("\"{foreign}\""));
        let trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let line = made(|o| asked(o, "GET", b"h", "/", Some(trace)));
        assert!(line.ends_with(r#""trace_id":"0af7651916cd43dd8448eb211c80319c""#), "{line}");
        assert!(made(|o| asked(o, "GET", b"h", "/", Some(b"junk"))).ends_with("null"));
    }

    #[test]
    fn what_is_plain_needs_no_escape_and_all_else_does() {
        for b in 0..=255 {
            let text = made(|o| quoted(o, &[b]));
            let plain = text.as_bytes() == [b'"', b, b'"'];
            assert_eq!(plain, IS_PLAIN[usize::from(b)], "{b:#x}");
        }
    }
}
