//! The keys of what has no connections: `udp` of `[listener.NAME]`, and checks by a datagram.

use super::{Absent, DAY, Key, Kind, MS, Table};
use crate::form::Form;

pub(super) static UDP: Table = Table {
    path: "udp of [listener.NAME]",
    help: "When flows end, with `mode = \"udp\"`. A flow is what one client address and port sends to one address of the \
           listener. Its endpoint stays the same until it ends.",
    inherits: false,
    keys: &[
        Key {
            name: "idle",
            kind: Kind::Duration { min: 50 * MS, max: DAY, off: false },
            absent: Absent::Default("\"30s\""),
            help: "A flow without a datagram in either direction for so long has ended.",
            why: "What QUIC stacks commonly negotiate as their idle time, and what the Linux connection tracker gives a \
                  UDP flow.",
        },
        Key {
            name: "answers",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("0"),
            help: "A flow ends at once when it has had so many answers for each datagram of its client; 0 = only when it is \
                   idle. 1 for DNS and the like: then loads are what is really under way.",
            why: "Only whoever knows the protocol knows how many answers there are.",
        },
    ],
};

pub(super) static UDP_CHECK: Table = Table {
    path: "health.udp of [pool.NAME]",
    help: "The datagram of a health check, and its answer.",
    inherits: false,
    keys: &[
        Key {
            name: "send",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Required("\"ping\""),
            help: "What is sent.",
            why: "",
        },
        Key {
            name: "expect",
            kind: Kind::Text(Form::Payload),
            absent: Absent::Means("any answer"),
            help: "What an answer must contain.",
            why: "",
        },
    ],
};
