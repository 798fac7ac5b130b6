//! `Strict-Transport-Security`: browsers that have received it use only TLS for the stated time. Added to every
//! response over TLS, from endpoints and from the proxy itself (RFC 6797 section 7.1).

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, ResponseHead};
use crate::filters::row::Build;
use crate::filters::step::Step;

struct Hsts(Box<str>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let time = from.listener.tls.as_ref()?.hsts?;
    let line = format!("Strict-Transport-Security: max-age={}\r\n", time.as_secs());
    Some(Box::new(Hsts(line.into())))
}

impl Filter for Hsts {
    type State = ();

    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        // Not on responses in plain HTTP, such as the redirect or the error to a client that did not speak TLS (RFC
        // 6797 section 7.2).
        if cx.peer.tls().is_some() {
            head.added.extend_from_slice(self.0.as_bytes());
        }
    }
}

impl Pure for Hsts {}
