//! `udp` of a listener: the lifetime of a flow of datagrams. See [`UdpFlows`].

use super::mode::Mode;
use crate::diagnostic::Findings;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, table};
use std::time::Duration;

table! {
    pub(crate) static UDP = "udp of [listener.NAME]",
        "Lifetime of flows, with `mode = \"udp\"`. A flow is the datagrams from one client address and port to one \
        address of the listener. It keeps its endpoint until it ends.";

    /// `udp` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UdpFlows {
        /// Time without a datagram in either direction after which a flow ends.
        idle: Duration = Key {
            name: "idle",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "Ends a flow after this long without a datagram in either direction.",
            why: "QUIC stacks commonly negotiate this idle time, and Linux connection tracking uses it for UDP.",
        };
        /// Answers per client datagram after which a flow ends; 0 = it ends only when idle.
        answers: u64 = Key {
            name: "answers",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "Ends a flow as soon as each datagram of the client has had this many answers; 0 = flows end only \
                when idle. Set 1 for DNS and similar protocols, so that only flows that wait for an answer count as \
                load.",
            why: "The number of answers depends on the protocol.",
        };
    }
}

/// Keys of a listener that apply to connections or HTTP only.
const NOT_OF_DATAGRAMS: [&str; 8] = [
    "accept_proxy_protocol",
    "trusted_proxies",
    "request_id",
    "report_load",
    "redirect_https",
    "h2c",
    "http2",
    "http3",
];

/// Reports keys that do not apply to the listener's mode.
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
