//! Forwarding fields for endpoints: the client's address, scheme, host and certificate, and the values that trusted
//! proxies report.

use super::exchange::Exchange;
use super::filter::{Filter, Own, Pure, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use evenkeel_wire::http1::fields::append;

struct Forwarded;

pub fn build(_: &Build<'_>) -> Option<Step> {
    Some(Box::new(Forwarded))
}

impl Filter for Forwarded {
    type State = ();

    #[inline]
    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let host = head.request.host;
        if host.is_empty() {
            head.edits.set_host(cx.peer.authority().as_bytes());
        }
        let lines = head.edits.lines();
        if let Some(info) = cx.peer.tls() {
            lines.extend_from_slice(&info.note().fields);
        }
        let said = cx.facts.said.as_deref();
        let list = said.map_or(cx.peer.ip_text(), |said| said.list.as_bytes());
        let scheme = said.and_then(|said| said.scheme).unwrap_or(cx.peer.scheme());
        let proto: &[u8] = match scheme {
            "https" => b"\r\nX-Forwarded-Proto: https\r\n",
            _ => b"\r\nX-Forwarded-Proto: http\r\n",
        };
        let host = said.and_then(|said| said.host.as_deref()).unwrap_or(host);
        let host: [&[u8]; 3] = if host.is_empty() { [b""; 3] } else { [b"X-Forwarded-Host: ", host, b"\r\n"] };
        append(&[b"X-Forwarded-For: ", list, proto, host[0], host[1], host[2]], lines);
        if let Some(forwarded) = said.and_then(|said| said.forwarded.as_deref()) {
            append(&[b"Forwarded: ", forwarded, b"\r\n"], lines);
        }
        Verdict::Next
    }
}

impl Pure for Forwarded {}
