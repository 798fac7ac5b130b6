//! Under which loads is a proxy measured? The table of cases: a new one is a row.

use crate::load::Load;

/// One load, and what is measured under it.
pub struct Case {
    /// Its name in `--only`.
    pub name: &'static str,
    /// What happens in it.
    pub about: &'static str,
    /// What is measured.
    pub measure: Measure,
    /// The load generator and its connections.
    pub load: Load,
    /// The endpoints' file that it asks for.
    pub path: &'static str,
    /// How the proxies are set up.
    pub setup: Setup,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// User plus system time of the proxy, per request.
    Cpu,
    /// Growth of its resident memory, per idle client connection.
    IdleMemory,
    /// Syscalls it made, per request.
    Syscalls,
}

impl Measure {
    /// What a figure counts.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Cpu => "CPU us/request",
            Measure::IdleMemory => "KiB/connection",
            Measure::Syscalls => "syscalls/request",
        }
    }
}

/// How a proxy is set up for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// At its best: connections to endpoints are reused, nothing is logged.
    Plain,
    /// A new connection to an endpoint for each request.
    CloseUpstream,
    /// As `Plain`, with a line in the access log for each request.
    Logged,
    /// Bytes are passed on without being parsed: the exchanges are HTTP, but the proxies do not know.
    Session,
}

const KEEP_ALIVE: Load = Load::KeepAlive(64);
const CLOSE: Load = Load::Close(200);

/// Every case, in the order in which they run.
pub static ALL: &[Case] = &[
    Case {
        name: "keep-alive",
        about: "1 kB, 64 clients that keep their connection (wrk), connections to endpoints reused",
        measure: Measure::Cpu,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Plain,
    },
    Case {
        name: "client-closes",
        about: "4 kB, 200 clients with a connection per request (ab), connections to endpoints reused",
        measure: Measure::Cpu,
        load: CLOSE,
        path: "/4k",
        setup: Setup::Plain,
    },
    Case {
        name: "both-close",
        about: "4 kB, 200 clients with a connection per request (ab), one to an endpoint per request too",
        measure: Measure::Cpu,
        load: CLOSE,
        path: "/4k",
        setup: Setup::CloseUpstream,
    },
    Case {
        name: "64k",
        about: "64 kB, 32 clients that keep their connection (wrk)",
        measure: Measure::Cpu,
        load: Load::KeepAlive(32),
        path: "/64k",
        setup: Setup::Plain,
    },
    Case {
        name: "1m",
        about: "1 MB, 16 clients that keep their connection (wrk)",
        measure: Measure::Cpu,
        load: Load::KeepAlive(16),
        path: "/1m",
        setup: Setup::Plain,
    },
    Case {
        name: "keep-alive-logged",
        about: "as keep-alive, with a line in the access log for each request",
        measure: Measure::Cpu,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Logged,
    },
    Case {
        name: "idle-memory",
        about: "10,000 clients that asked for 1 kB once and stay connected; resident memory beside that before the first",
        measure: Measure::IdleMemory,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Plain,
    },
    Case {
        name: "keep-alive-syscalls",
        about: "as keep-alive, under strace -c",
        measure: Measure::Syscalls,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Plain,
    },
    Case {
        name: "client-closes-syscalls",
        about: "as client-closes, under strace -c",
        measure: Measure::Syscalls,
        load: CLOSE,
        path: "/4k",
        setup: Setup::Plain,
    },
];

/// Every case of sessions over TCP, in the order in which they run.
pub static SESSIONS: &[Case] = &[
    Case {
        name: "exchange",
        about: "1 kB, 64 clients that keep their session (wrk)",
        measure: Measure::Cpu,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Session,
    },
    Case {
        name: "connect-exchange-close",
        about: "1 kB, 200 clients with a session per exchange (ab)",
        measure: Measure::Cpu,
        load: CLOSE,
        path: "/1k",
        setup: Setup::Session,
    },
    Case {
        name: "bulk",
        about: "1 MB, 16 clients that keep their session (wrk)",
        measure: Measure::Cpu,
        load: Load::KeepAlive(16),
        path: "/1m",
        setup: Setup::Session,
    },
    Case {
        name: "idle-sessions",
        about: "10,000 clients that asked for 1 kB once and stay connected; resident memory beside that before the first",
        measure: Measure::IdleMemory,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Session,
    },
    Case {
        name: "exchange-syscalls",
        about: "as exchange, under strace -c",
        measure: Measure::Syscalls,
        load: KEEP_ALIVE,
        path: "/1k",
        setup: Setup::Session,
    },
    Case {
        name: "connect-exchange-close-syscalls",
        about: "as connect-exchange-close, under strace -c",
        measure: Measure::Syscalls,
        load: CLOSE,
        path: "/1k",
        setup: Setup::Session,
    },
];

#[cfg(test)]
mod tests {
    use super::{ALL, SESSIONS};
    use crate::origin::FILES;

    #[test]
    fn every_case_has_its_own_name_and_asks_for_a_file_there_is() {
        for (table, case) in [ALL, SESSIONS].iter().flat_map(|table| table.iter().map(move |case| (table, case))) {
            assert_eq!(table.iter().filter(|c| c.name == case.name).count(), 1, "{}", case.name);
            assert!(FILES.iter().any(|(path, _)| *path == case.path), "{}", case.name);
        }
    }
}
