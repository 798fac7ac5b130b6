//! `Alt-Svc`: clients that came over TCP learn that the listener speaks HTTP/3 (RFC 7838, RFC 9114 section 3.1.1). A process
//! that shuts down takes it back, so that clients do not try a port where no process answers.

use crate::core::Command;
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, ResponseHead};
use crate::filters::row::Build;
use crate::filters::step::Step;

/// Line of a process that shuts down.
const CLEAR: &[u8] = b"Alt-Svc: clear\r\n";

struct AltSvc(Box<str>);

pub fn build(from: &Build<'_>) -> Option<Step> {
    let http3 = from.listener.http3.as_ref()?;
    let port = http3.port.or_else(|| Some(from.listener.bind.first()?.port()))?;
    let line = format!("Alt-Svc: h3=\":{port}\"; ma={}\r\n", http3.max_age.as_secs());
    Some(Box::new(AltSvc(line.into())))
}

impl Filter for AltSvc {
    type State = ();

    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        // Not to a client that did not speak TLS. An endpoint's own field is about its own ports.
        if cx.peer.tls().is_some() {
            head.fields.leave_out("alt-svc");
            let line = if cx.core.command.get() == Command::Drain { CLEAR } else { self.0.as_bytes() };
            head.added.extend_from_slice(line);
        }
    }
}

impl Pure for AltSvc {}
