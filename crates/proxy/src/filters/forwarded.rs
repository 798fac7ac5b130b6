//! What endpoints learn of the client: its address, scheme, host and certificate, and what trusted proxies said of them.

use super::exchange::Exchange;
use super::filter::{Filter, RequestHead, Verdict};
use super::row::Build;
use evenkeel_wire::http1::fields::append;

struct Forwarded;

pub fn build(_: &Build<'_>) -> Option<Box<dyn Filter>> {
    Some(Box::new(Forwarded))
}

impl Filter for Forwarded {
    #[inline]
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let host = head.request.host;
        if host.is_empty() {
            head.edits.set_host(cx.peer.authority().as_bytes());
        }
        let lines = head.edits.lines();
        if let Some(info) = cx.peer.tls() {
            lines.extend_from_slice(&info.note().fields);
        }
        let said = cx.said.as_deref();
        let list = said.map_or(cx.peer.ip_text(), |said| said.list.as_bytes());
        let scheme = said.and_then(|said| said.scheme).unwrap_or(cx.peer.scheme());
        append(&[b"X-Forwarded-For: ", list, b"\r\nX-Forwarded-Proto: ", scheme.as_bytes()], lines);
        let host = said.and_then(|said| said.host.as_deref()).unwrap_or(host);
        if !host.is_empty() {
            append(&[b"\r\nX-Forwarded-Host: ", host], lines);
        }
        if let Some(forwarded) = said.and_then(|said| said.forwarded.as_deref()) {
            append(&[b"\r\nForwarded: ", forwarded], lines);
        }
        lines.extend_from_slice(b"\r\n");
        Verdict::Next
    }
}
