//! `Strict-Transport-Security`: browsers that have seen it come by TLS alone for so long. It is on every response over TLS, wherever
//! it comes from (RFC 6797 section 7.1).

use super::exchange::Exchange;
use super::filter::{Filter, ResponseHead};
use super::row::Build;

struct Hsts(Box<str>);

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let time = from.listener.tls.as_ref()?.hsts?;
    let line = format!("Strict-Transport-Security: max-age={}\r\n", time.as_secs());
    Some(Box::new(Hsts(line.into())))
}

impl Filter for Hsts {
    fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        // A client that was to speak TLS and did not gets its answer without.
        if cx.peer.tls().is_some() {
            head.added.extend_from_slice(self.0.as_bytes());
        }
    }
}
