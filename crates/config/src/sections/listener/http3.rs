//! `http3` of a listener: HTTP/3 with clients, over QUIC at the same addresses. See [`Http3`].

use super::mode::Mode;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::table::{Absent, DAY, Key, Kind, MS, Section, Value, table};
use std::path::PathBuf;
use std::time::Duration;

table! {
    pub(crate) static HTTP3 = "http3 of [listener.NAME]",
        "HTTP/3 with clients, over QUIC: UDP at the addresses of `bind`. Needs `tls`.";

    /// `http3` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Http3 {
        /// Concurrent requests of a connection.
        streams: u32 = Key {
            name: "streams",
            kind: Kind::Int { min: 1, max: 10_000 },
            absent: Absent::Default("100"),
            help: "Maximum concurrent requests of one connection. A client waits before it sends more.",
            why: "The minimum that RFC 9114 recommends.",
        };
        /// Flow-control window of a request body, bytes.
        stream_window: usize = Key {
            name: "stream_window",
            kind: Kind::Size { min: 16 << 10, max: 16 << 20, off: false },
            absent: Absent::Default("\"64KiB\""),
            help: "Flow-control window of one request: bytes of its body in transit or buffered here for the \
                endpoint. An upload gets at most this much per round trip.",
            why: "Same as for `http2`.",
        };
        /// Flow-control window of all request bodies of a connection, bytes.
        connection_window: usize = Key {
            name: "connection_window",
            kind: Kind::Size { min: 64 << 10, max: 64 << 20, off: false },
            absent: Absent::Default("\"1MiB\""),
            help: "Flow-control window of all requests of one connection together: the maximum that one connection \
                makes evenkeel buffer.",
            why: "Same as for `http2`.",
        };
        /// Bytes of responses that are kept for a connection until the client has acknowledged them.
        send_window: usize = Key {
            name: "send_window",
            kind: Kind::Size { min: 64 << 10, max: 64 << 20, off: false },
            absent: Absent::Default("\"1MiB\""),
            help: "Maximum bytes of responses of one connection that evenkeel keeps until the client has acknowledged \
                them. A download gets at most this much per round trip.",
            why: "Allows 50 MB/s over a round trip of 20 ms. The kernel does the same for TCP, with up to 4 MiB.",
        };
        /// Handshakes of a worker in progress from which on clients have to prove their address first.
        retry_above: usize = Key {
            name: "retry_above",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            absent: Absent::Default("100"),
            help: "From this many handshakes in progress on a worker on, clients first have to prove their address \
                (Retry), which takes a round trip; 0 = always.",
            why: "A flood with forged addresses then costs no signatures. Without a flood, no client waits.",
        };
        /// True if safe requests are answered before the handshake is complete (0-RTT).
        early_data: bool = Key {
            name: "early_data",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Answer `GET`, `HEAD`, `OPTIONS` and `TRACE` that a returning client sends with its first packets \
                (0-RTT), before the handshake is complete. Endpoints get `Early-Data: 1` with them and may answer 425 \
                (RFC 8470). Each session is used once, which prevents replays to one instance.",
            why: "A copy of such a packet reaches other instances too, so requests must be harmless to repeat.",
        };
        /// Sessions that are kept for early data.
        sessions: usize = Key {
            name: "sessions",
            kind: Kind::Int { min: 1, max: 10_000_000 },
            absent: Absent::Default("20000"),
            help: "Maximum sessions that are kept in memory for `early_data`, by all workers together. The oldest is \
                dropped first: its client makes a full handshake.",
            why: "About 10 MB. Each handshake creates two.",
        };
        /// Folder for traces of connections; `None` = no traces.
        qlog: Option<PathBuf> = Key {
            name: "qlog",
            kind: Kind::Text(Form::File),
            absent: Absent::Means("no traces"),
            help: "Folder, which exists, for traces of connections in the format of qlog (JSON-SEQ, `.sqlog`): packets \
                that were sent, received and lost, and the state of congestion control. They have no content of \
                requests.",
            why: "",
        };
        /// Files that may be in `qlog`.
        qlog_files: usize = Key {
            name: "qlog_files",
            kind: Kind::Int { min: 1, max: 100_000 },
            absent: Absent::Default("100"),
            help: "Maximum traces of this listener in `qlog`. The first connections are recorded; remove files and \
                reload to record others.",
            why: "A folder that is forgotten fills no disk.",
        };
        /// Size of a file in `qlog`, bytes.
        qlog_size: usize = Key {
            name: "qlog_size",
            kind: Kind::Size { min: 4 << 10, max: 1 << 30, off: false },
            absent: Absent::Default("\"4MiB\""),
            help: "Maximum size of one trace. Later events of the connection are left out.",
            why: "Enough for some 20 MB of content.",
        };
        /// Time for which clients remember that HTTP/3 is there (`ma` of `Alt-Svc`).
        max_age: Duration = Key {
            name: "max_age",
            kind: Kind::Duration { min: 1000 * MS, max: 365 * DAY, off: false },
            absent: Absent::Default("\"1d\""),
            help: "Time for which clients remember that the listener speaks HTTP/3 (`ma` of `Alt-Svc`).",
            why: "The default of RFC 7838.",
        };
        /// Port at which clients reach the listener by UDP, if it is not the port of the address.
        port: Option<u16> = Key {
            name: "port",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Means("the port of `bind`"),
            help: "Port at which clients reach the listener by UDP, for `Alt-Svc`, if a firewall or balancer in front \
                maps it.",
            why: "",
        };
    }
}

/// Reports keys that contradict HTTP/3.
pub(super) fn check(listener: &Section, mode: Mode, findings: &mut Findings) {
    let Some(set) = listener.set("http3").filter(|set| !matches!(set.value, Value::Bool(false))) else { return };
    if mode == Mode::Http && listener.set("tls").is_none() {
        listener
            .contradiction(set.span, "\"http3\" needs TLS, which the listener has not", "bind", findings)
            .help("add tls = { ... }, or leave \"http3\" out");
    }
    if let Some(announced) = listener.set("accept_proxy_protocol") {
        listener
            .contradiction(
                announced.span,
                "\"accept_proxy_protocol\" is for TCP: QUIC has no such header",
                "http3",
                findings,
            )
            .help("give the listener with HTTP/3 addresses that clients reach directly");
    }
}
