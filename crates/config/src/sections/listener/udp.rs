//! When does a flow of datagrams end? [`UdpFlows`], `udp` of a listener.

use super::mode::Mode;
use crate::diagnostic::Findings;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, table};
use std::time::Duration;

table! {
    pub(crate) static UDP = "udp of [listener.NAME]",
        "When flows end, with `mode = \"udp\"`. A flow is what one client address and port sends to one address of the \
        listener. Its endpoint stays the same until it ends.";

    /// `udp` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UdpFlows {
        /// Without a datagram in either direction.
        idle: Duration = Key {
            name: "idle",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "A flow ends after so long without a datagram in either direction.",
            why: "What QUIC stacks commonly negotiate as their idle time, and what the Linux connection tracker gives a \
                  UDP flow.",
        };
        /// A flow ends as soon as it has had so many answers for each datagram from its client; 0 = only when it is idle.
        answers: u64 = Key {
            name: "answers",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "A flow ends at once when it has had so many answers for each datagram of its client; 0 = only when it \
                   is idle. Set 1 for DNS and the like: then only flows that wait for an answer count as load.",
            why: "The number of answers depends on the protocol.",
        };
    }
}

/// Keys of a listener that are about connections or HTTP.
const NOT_OF_DATAGRAMS: [&str; 7] =
    ["accept_proxy_protocol", "trusted_proxies", "request_id", "report_load", "redirect_https", "h2c", "http2"];

/// Reports keys that what is spoken has no use for.
pub(super) fn check(listener: &Section, mode: Mode, findings: &mut Findings) {
    let mut alien = |key: &str, message: String, help: &str| {
        if let Some(set) = listener.set(key) {
            listener.contradiction(set.span, message, "mode", findings).help(help);
        }
    };
    if mode == Mode::Udp {
        for key in NOT_OF_DATAGRAMS {
            alien(key, format!("\"{key}\" has no meaning with mode = \"udp\""), "leave it out");
        }
    } else {
        let message = format!("\"udp\" has no meaning with mode = \"{}\"", mode.name());
        alien("udp", message, "leave it out, or set mode = \"udp\"");
    }
}
