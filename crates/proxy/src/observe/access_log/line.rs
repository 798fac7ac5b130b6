//! A log line: its fields, and its JSON form.

use super::figures::{millis, number};
use super::front::Front;
use super::layout::Layout;
use super::names::{NOWHERE, Names};
use super::quoted::quoted;
use crate::observe::request_id::RequestId;
use crate::observe::summary::Summary;
use crate::observe::tries::Try;
use crate::peer::quic::Quic;
use evenkeel_net::tls::Info;
use evenkeel_wire::grpc::Status;
use std::io::Write;

/// Fields of a line: a request, a session, a flow or a failed handshake.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub request_id: &'a RequestId,
    /// Address of the client, as text.
    pub client: &'a [u8],
    /// The client's port; 0 if only a proxy knows it.
    pub client_port: u16,
    /// Address of the peer, if it is not the client but a proxy.
    pub peer: Option<&'a [u8]>,
    /// User whose password the request has. Without a user, the line lacks this field.
    pub user: Option<&'a [u8]>,
    /// Result of the request at the cache of its route. Without a cache, the line lacks this field.
    pub cache: Option<&'static str>,
    /// Names of the listener and the route.
    pub taken: &'a Names,
    /// Names of the pool and the endpoint; [`NOWHERE`] if none was reached.
    pub sent: &'a Names,
    pub proto: &'static str,
    /// Result of the client's TLS handshake. Without TLS, the line lacks these fields.
    pub tls: Option<&'a Info>,
    /// Figures of the client's connection of QUIC. Over TCP, the line lacks these fields.
    pub quic: Option<Quic>,
    /// Values of the request head, as [`Layout::keep`] wrote them; empty if the head could not be read.
    pub asked: &'a [u8],
    /// Values of the response head, as [`Layout::keep_response`] wrote them.
    pub answered: &'a [u8],
    /// Tries, if there were several. Otherwise empty, and the line lacks this field.
    pub attempts: &'a [Try],
    /// Number of endpoints that the endpoint of the first try was drawn from. If it is 0, the endpoint was picked, and
    /// the line lacks the probability.
    pub drawn_from: u32,
    /// Times, bytes, status and end.
    pub summary: Summary,
    /// Reason why the client did not get an endpoint's response. Without a reason, the line lacks this field.
    pub reason: Option<&'a str>,
    /// Route that the request has matched, if another route answered. Otherwise the line lacks this field.
    pub first_route: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Creates a line with only the fields that every line has.
    pub fn new(
        proto: &'static str,
        request_id: &'a RequestId,
        client: &'a [u8],
        taken: &'a Names,
        summary: Summary,
    ) -> Line<'a> {
        Line {
            request_id,
            client,
            client_port: 0,
            peer: None,
            user: None,
            cache: None,
            taken,
            sent: &NOWHERE,
            proto,
            tls: None,
            quic: None,
            asked: &[],
            answered: &[],
            attempts: &[],
            drawn_from: 0,
            summary,
            reason: None,
            first_route: None,
        }
    }

    /// Appends the line in JSON. `front` must be set to its time and id.
    pub fn write(&self, front: &Front, out: &mut Vec<u8>) {
        front.write(self.request_id, out);
        out.extend_from_slice(self.client);
        match self.peer {
            None => out.extend_from_slice(b"\",\"peer\":null"),
            Some(peer) => {
                out.extend_from_slice(b"\",\"peer\":\"");
                out.extend_from_slice(peer);
                out.push(b'"');
            }
        }
        out.extend_from_slice(&self.taken.json);
        out.extend_from_slice(&self.sent.json);
        let Summary { tries, status, bytes_in, bytes_out, timing, .. } = self.summary;
        number(out, b",\"tries\":", u64::from(tries));
        out.extend_from_slice(b",\"proto\":\"");
        out.extend_from_slice(self.proto.as_bytes());
        out.push(b'"');
        if let Some(tls) = self.tls {
            secured(out, tls);
        }
        if let Some(quic) = self.quic {
            millis(out, b",\"t_handshake\":", Some(quic.handshake_ns));
            number(out, b",\"migrations\":", quic.migrations.into());
            number(out, b",\"packets_lost\":", quic.packets_lost);
        }
        out.extend_from_slice(if Layout::is_json(self.asked) { self.asked } else { UNREAD });
        number(out, b",\"status\":", u64::from(status));
        number(out, b",\"bytes_in\":", bytes_in);
        number(out, b",\"bytes_out\":", bytes_out);
        millis(out, b",\"t_queue\":", Some(timing.queue_ns));
        millis(out, b",\"t_connect\":", timing.connect_ns);
        millis(out, b",\"t_ttfb\":", timing.ttfb_ns);
        millis(out, b",\"t_total\":", Some(timing.total_ns));
        out.extend_from_slice(b",\"term\":\"");
        out.extend_from_slice(&self.summary.term());
        match self.is_usual() {
            true => out.extend_from_slice(b"\"}\n"),
            false => self.write_rest(out),
        }
    }

    /// True if the line has none of the rare fields.
    fn is_usual(&self) -> bool {
        let is_call = self.summary.call_status.is_some();
        let has_text =
            self.cache.is_some() || self.user.is_some() || self.reason.is_some() || self.first_route.is_some();
        !is_call && !has_text && self.drawn_from == 0 && self.answered.is_empty() && self.attempts.is_empty()
    }

    /// Probability of the endpoint of the first try, if that was drawn.
    pub(super) fn probability(&self) -> Option<f64> {
        (self.drawn_from > 0).then(|| 1.0 / f64::from(self.drawn_from))
    }

    /// Appends the end of a line with rare fields.
    fn write_rest(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        if Layout::is_json(self.answered) {
            out.extend_from_slice(self.answered);
        }
        if !self.attempts.is_empty() {
            out.extend_from_slice(b",\"attempts\":[");
            for (n, Try { endpoint, end, took_ns, .. }) in self.attempts.iter().enumerate() {
                out.extend_from_slice(if n == 0 { b"{\"endpoint\":" } else { b",{\"endpoint\":" });
                quoted(out, endpoint.as_bytes());
                out.extend_from_slice(b",\"cause\":");
                quoted(out, end.as_bytes());
                millis(out, b",\"ms\":", Some(*took_ns));
                out.push(b'}');
            }
            out.push(b']');
        }
        if let Some(probability) = self.probability() {
            // Writing to a vector cannot fail.
            let _ = write!(out, ",\"probability\":{probability}");
        }
        let call_status = self.summary.call_status.map(Status::name);
        let texts = [("grpc_status", call_status), ("first_route", self.first_route), ("reason", self.reason)];
        let texts = texts.map(|(name, text)| (name, text.map(str::as_bytes)));
        let cache = self.cache.map(str::as_bytes);
        for (name, value) in [("cache", cache), ("user", self.user)].into_iter().chain(texts) {
            let Some(value) = value else { continue };
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            quoted(out, value);
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Appends the fields of a TLS connection.
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

/// Fields of a request that could not be read.
const UNREAD: &[u8] = b",\"method\":null,\"host\":null,\"path\":null,\"trace_id\":null";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::end::{Cause, Phase};
    use crate::observe::timing::Timing;
    use evenkeel_balance::Instant;
    use std::borrow::Cow;

    fn made(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    static TAKEN: Names =
        Names { json: Cow::Borrowed(b",\"listener\":\"l\",\"route\":\"r\""), first: None, second: None };
    static SENT: Names =
        Names { json: Cow::Borrowed(b",\"pool\":\"p\",\"endpoint\":\"e\""), first: None, second: None };

    const USUAL: Summary = Summary {
        tries: 1,
        status: 200,
        call_status: None,
        bytes_in: 78,
        bytes_out: 1024,
        timing: Timing {
            began: Instant(0),
            queue_ns: 0,
            connect_ns: Some(1_234_567),
            ttfb_ns: Some(20_000_000),
            total_ns: 20_000_999,
        },
        cause: Cause::Normal,
        phase: Phase::Done,
    };

    fn usual<'a>() -> Line<'a> {
        let id = &RequestId::Made { origin: 0, number: 0 };
        let asked = b",\"method\":\"GET\",\"host\":\"h\",\"path\":\"/\",\"trace_id\":null";
        Line { sent: &SENT, asked, ..Line::new("HTTP/1.1", id, b"192.0.2.1", &TAKEN, USUAL) }
    }

    /// The JSON line, with the time 0 in its front.
    fn written(line: &Line<'_>) -> String {
        made(|out| line.write(&Front::default(), out))
    }

    const FRONT: &str = r#"{"ts":"1970-01-01T00:00:00.000Z","req_id":"00000000000000000000000000000000","client":"#;

    #[test]
    fn a_line_has_its_fields_in_order() {
        let back = r#""listener":"l","route":"r","pool":"p","endpoint":"e","tries":1,"proto":"HTTP/1.1","method":"GET","host":"h","path":"/","trace_id":null,"status":200,"bytes_in":78,"bytes_out":1024,"t_queue":0.000,"t_connect":1.234,"t_ttfb":20.000,"t_total":20.000,"term":"--"}"#;
        assert_eq!(written(&usual()), format!("{FRONT}\"192.0.2.1\",\"peer\":null,{back}\n"));
        let line = Line { peer: Some(b"2001:db8::1"), ..usual() };
        assert_eq!(written(&line), format!("{FRONT}\"192.0.2.1\",\"peer\":\"2001:db8::1\",{back}\n"));
    }

    #[test]
    fn a_line_of_nothing_but_what_was_not_reached_is_whole() {
        let timing = Timing { connect_ns: None, ttfb_ns: None, ..USUAL.timing };
        let summary = Summary { tries: 0, status: 0, timing, ..USUAL };
        let line = Line { sent: &NOWHERE, asked: &[], summary, ..usual() };
        let back = r#""listener":"l","route":"r","pool":null,"endpoint":null,"tries":0,"proto":"HTTP/1.1","method":null,"host":null,"path":null,"trace_id":null,"status":0,"bytes_in":78,"bytes_out":1024,"t_queue":0.000,"t_connect":null,"t_ttfb":null,"t_total":20.000,"term":"--"}"#;
        assert_eq!(written(&line), format!("{FRONT}\"192.0.2.1\",\"peer\":null,{back}\n"));
    }

    #[test]
    fn a_request_over_quic_has_figures_of_its_connection() {
        let quic = Quic { handshake_ns: 12_345_678, migrations: 1, packets_lost: 20 };
        let text = written(&Line { proto: "HTTP/3", quic: Some(quic), ..usual() });
        let fields = r#""proto":"HTTP/3","t_handshake":12.345,"migrations":1,"packets_lost":20,"method":"GET""#;
        assert!(text.contains(fields), "{text}");
    }

    #[test]
    fn a_call_has_its_status() {
        let summary = Summary { call_status: Some(Status::Unavailable), ..USUAL };
        let line = Line { summary, ..usual() };
        assert!(written(&line).ends_with("\"term\":\"--\",\"grpc_status\":\"unavailable\"}\n"), "{}", written(&line));
        let line = Line { reason: Some("none"), ..line };
        assert!(written(&line).ends_with("\"grpc_status\":\"unavailable\",\"reason\":\"none\"}\n"));
    }

    #[test]
    fn a_drawn_endpoint_has_its_probability() {
        for (drawn_from, text) in [(1, "1"), (4, "0.25"), (3, "0.3333333333333333")] {
            let line = Line { drawn_from, reason: Some("why"), ..usual() };
            let end = format!("\"term\":\"--\",\"probability\":{text},\"reason\":\"why\"}}\n");
            assert!(written(&line).ends_with(&end), "{}", written(&line));
        }
    }

    #[test]
    fn a_user_stands_before_the_status_of_a_call() {
        let summary = Summary { call_status: Some(Status::Unavailable), ..USUAL };
        let line = Line { summary, user: Some(b"a\"\xff"), ..usual() };
        let end = "\"term\":\"--\",\"user\":\"a\\\"\\u00ff\",\"grpc_status\":\"unavailable\"}\n";
        assert!(written(&line).ends_with(end), "{}", written(&line));
    }

    #[test]
    fn a_result_of_the_cache_stands_before_the_user() {
        let line = Line { cache: Some("hit"), user: Some(b"a"), ..usual() };
        assert!(written(&line).ends_with("\"term\":\"--\",\"cache\":\"hit\",\"user\":\"a\"}\n"), "{}", written(&line));
    }

    #[test]
    fn a_reason_is_the_last_field() {
        let summary = Summary { cause: Cause::Proxy, phase: Phase::Request, ..USUAL };
        let line = Line { summary, reason: Some("pool \"a\": none"), ..usual() };
        assert!(
            written(&line).ends_with("\"term\":\"PR\",\"reason\":\"pool \\\"a\\\": none\"}\n"),
            "{}",
            written(&line)
        );
    }

    #[test]
    fn the_largest_numbers_fit() {
        let most = u64::MAX;
        let timing =
            Timing { queue_ns: most, connect_ns: Some(most), ttfb_ns: Some(most), total_ns: most, ..Timing::default() };
        let summary = Summary { tries: u32::MAX, status: u16::MAX, bytes_in: most, bytes_out: most, timing, ..USUAL };
        let line = Line { summary, ..usual() };
        let line: serde_json::Value = serde_json::from_str(&written(&line)).unwrap();
        assert_eq!((line["tries"].as_u64(), line["bytes_out"].as_u64()), (Some(u32::MAX.into()), Some(most)));
        assert_eq!(line["t_queue"], line["t_total"]);
    }

    #[test]
    fn tries_and_fields_of_the_response_stand_before_the_reason() {
        let attempts = [
            Try { endpoint: "a\"".into(), end: "connect".into(), took_ns: 1_500_000, ..Try::default() },
            Try { endpoint: "b".into(), end: "status 503".into(), took_ns: u64::MAX, ..Try::default() },
        ];
        let answered = b",\"response_fields\":{\"X-Cache\":\"HIT\"}";
        let line = Line { attempts: &attempts, answered, reason: Some("why"), ..usual() };
        let value: serde_json::Value = serde_json::from_str(&written(&line)).unwrap();
        assert_eq!(value["attempts"][0], serde_json::json!({ "endpoint": "a\"", "cause": "connect", "ms": 1.5 }));
        assert_eq!(
            (&value["attempts"][1]["cause"], &value["response_fields"]["X-Cache"]),
            (&"status 503".into(), &"HIT".into())
        );
        assert!(written(&line).ends_with(",\"reason\":\"why\"}\n"));
        let foreign = Line { asked: b"\n12345678GET\n", answered: b"\n12345678HIT\n", ..usual() };
        assert_eq!(written(&foreign).lines().count(), 1, "what another plan kept is not shown");
    }
}
