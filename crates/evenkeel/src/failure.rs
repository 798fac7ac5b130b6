//! Failures of commands: problem and help, each on a line, and the exit code.

use crate::log::queue;
use evenkeel_net::listen::CannotListen;
pub use evenkeel_runtime::plane::reason;
use evenkeel_runtime::{Diagnostic, StartError};
use std::fmt::Write;
use std::io::{self, ErrorKind, IsTerminal};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a failure while running or starting.
const RUNNING: u8 = 1;
/// Exit code of wrong arguments, the same as clap's.
const USAGE: u8 = 2;
/// A claim that was checked does not hold.
const DIFFERS: u8 = 10;
/// `EX_CONFIG` of sysexits.h, which systemd prints by name.
const CONFIG: u8 = 78;
/// Exit code of a comparison that found a difference.
const OTHERWISE: u8 = 10;

/// Failure of a command, with its exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Text of the problem; empty if it was printed before.
    problem: String,
    help: Option<String>,
    /// Others that were found with it.
    more: Vec<Failure>,
}

impl Failure {
    /// Something failed while running.
    pub fn running(problem: impl Into<String>) -> Failure {
        Failure { code: RUNNING, problem: problem.into(), help: None, more: Vec::new() }
    }

    /// Text of the problem; empty if it was printed before.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Failure {
        Failure { help: Some(help.into()), ..self }
    }

    /// A claim that was checked does not hold.
    pub fn differs(problem: impl Into<String>) -> Failure {
        Failure { code: DIFFERS, problem: problem.into(), help: None, more: Vec::new() }
    }

    /// The configuration is wrong, and its diagnostics were printed.
    pub fn config() -> Failure {
        Failure { code: CONFIG, problem: String::new(), help: None, more: Vec::new() }
    }

    /// A comparison found a difference, which was printed.
    pub fn otherwise() -> Failure {
        Failure { code: OTHERWISE, problem: String::new(), help: None, more: Vec::new() }
    }

    /// A check refused the output, and the reason was printed.
    pub fn refused() -> Failure {
        Failure::running("")
    }

    /// The arguments are wrong, and the reason was printed.
    pub fn usage() -> Failure {
        Failure { code: USAGE, problem: String::new(), help: None, more: Vec::new() }
    }

    /// The arguments are wrong in a way that clap cannot know.
    pub fn usage_error(problem: impl Into<String>) -> Failure {
        Failure { code: USAGE, ..Failure::running(problem) }
    }

    /// An address cannot be listened on.
    pub fn listen(who: &str, addr: SocketAddr, error: &io::Error) -> Failure {
        let port = addr.port();
        let (problem, help) = match error.kind() {
            ErrorKind::AddrInUse => (
                "another process listens there".to_string(),
                Some(format!(
                    "stop that process, or choose another address; ss -ltnp 'sport = :{port}' shows the process"
                )),
            ),
            ErrorKind::PermissionDenied if port < 1024 => (
                "permission denied: ports below 1024 need a capability".to_string(),
                Some(
                    "choose a port above 1023, or grant the capability: AmbientCapabilities=CAP_NET_BIND_SERVICE in a \
                     systemd unit, or setcap cap_net_bind_service=+ep on the program"
                        .to_string(),
                ),
            ),
            ErrorKind::AddrNotAvailable => (
                "this machine does not have that address".to_string(),
                Some(format!("ip addr lists its addresses; [::]:{port} or 0.0.0.0:{port} listens on all of them")),
            ),
            _ if addr.is_ipv6() && error.raw_os_error() == Some(EAFNOSUPPORT) => {
                ("the kernel has no IPv6".to_string(), Some(format!("listen on 0.0.0.0:{port}")))
            }
            _ => (error.to_string(), None),
        };
        Failure { code: RUNNING, problem: format!("{who}: cannot listen on {addr}: {problem}"), help, more: Vec::new() }
    }

    /// The admin's Unix socket cannot be listened at.
    pub fn socket(path: &Path, error: &io::Error) -> Failure {
        let (why, help) = match error.kind() {
            ErrorKind::AddrInUse => (
                "another process listens there, or it is not a socket".to_string(),
                Some("stop that process, or set another path in admin.bind".to_string()),
            ),
            ErrorKind::NotFound => (
                "no such folder".to_string(),
                Some("create the folder, or let systemd create it: RuntimeDirectory=evenkeel".to_string()),
            ),
            _ => (reason(error), None),
        };
        Failure {
            code: RUNNING,
            problem: format!("admin: cannot listen on {}: {why}", path.display()),
            help,
            more: Vec::new(),
        }
    }

    /// Problem and help, each on a line; then the others.
    pub fn text(&self, color: bool) -> String {
        let (red, green, off) = if color { ("\x1b[1;31m", "\x1b[1;32m", "\x1b[0m") } else { ("", "", "") };
        let mut text = String::new();
        if !self.problem.is_empty() {
            let _ = writeln!(text, "{red}error{off}: {}", self.problem);
        }
        if let Some(help) = &self.help {
            let _ = writeln!(text, "{green}help{off}: {help}");
        }
        self.more.iter().for_each(|failure| text += &failure.text(color));
        text
    }

    /// Writes it to standard error.
    pub fn tell(self) -> ExitCode {
        queue::print(&self.text(color()));
        ExitCode::from(self.code)
    }
}

/// Linux's number; `io::ErrorKind` has no stable name for it.
const EAFNOSUPPORT: i32 = 97;

impl From<CannotListen> for Failure {
    fn from(CannotListen { listener, addr, error }: CannotListen) -> Failure {
        Failure::listen(&format!("listener \"{listener}\""), addr, &error)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Failure {
        match diagnostic {
            Diagnostic::Listen(cannot) => cannot.into(),
            Diagnostic::Plan { problem, .. } => Failure { code: CONFIG, problem, help: None, more: Vec::new() },
            Diagnostic::Machine { problem, help, .. } => Failure { help, ..Failure::running(problem) },
        }
    }
}

impl From<StartError> for Failure {
    fn from(StartError(diagnostics): StartError) -> Failure {
        let mut all = diagnostics.into_iter().map(Failure::from);
        let first = all.next().unwrap_or_else(|| Failure::running(""));
        Failure { more: all.collect(), ..first }
    }
}

/// True if standard error is a terminal that shows colours.
pub fn color() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
