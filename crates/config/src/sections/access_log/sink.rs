//! Destinations of the access log: [`LineSink`], parsed from a string.

use crate::form::Formed;
use crate::table::{Field, Kind, Value, quote};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Syslog socket of the local machine.
const SYSLOG: &str = "/dev/log";
/// Native socket of the systemd journal.
const JOURNALD: &str = "/run/systemd/journal/socket";

/// Destination of access log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSink {
    /// Standard output (`-` or `stdout`).
    Stdout,
    /// Standard error (`stderr`).
    Stderr,
    /// File to append to; created if missing.
    File(PathBuf),
    /// A syslog daemon (RFC 5424).
    Syslog(SyslogAddress),
    /// The systemd journal at this socket.
    Journald(PathBuf),
}

/// Address of a syslog daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// Unix socket for datagrams, such as `/dev/log`.
    Unix(PathBuf),
    Udp(SocketAddr),
}

impl LineSink {
    /// Parses the value of `path`.
    ///
    /// # Errors
    /// A sentence that describes the fault in the text.
    pub(super) fn parse(text: &str) -> Result<LineSink, String> {
        let sink = match text.split_once(':') {
            None if matches!(text, "-" | "stdout") => LineSink::Stdout,
            None if text == "stderr" => LineSink::Stderr,
            None if text == "syslog" => LineSink::Syslog(SyslogAddress::Unix(SYSLOG.into())),
            None if text == "journald" => LineSink::Journald(JOURNALD.into()),
            Some(("journald", path)) if path.starts_with('/') => LineSink::Journald(path.into()),
            Some(("journald", _)) => return Err("behind \"journald:\" is no path that begins with \"/\"".into()),
            Some(("syslog", path)) if path.starts_with('/') => LineSink::Syslog(SyslogAddress::Unix(path.into())),
            Some(("syslog", rest)) => match rest.strip_prefix("udp:").map(str::parse) {
                Some(Ok(addr)) => LineSink::Syslog(SyslogAddress::Udp(addr)),
                Some(Err(_)) => return Err("behind \"syslog:udp:\" is no IP address and port".into()),
                None => return Err("behind \"syslog:\" is neither a path nor \"udp:\" and an address".into()),
            },
            _ => LineSink::File(text.into()),
        };
        Ok(sink)
    }
}

/// Formats the destination as [`LineSink::parse`] reads it.
impl fmt::Display for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineSink::Stdout => f.write_str("-"),
            LineSink::Stderr => f.write_str("stderr"),
            LineSink::File(path) => path.display().fmt(f),
            LineSink::Syslog(SyslogAddress::Unix(path)) => write!(f, "syslog:{}", path.display()),
            LineSink::Syslog(SyslogAddress::Udp(addr)) => write!(f, "syslog:udp:{addr}"),
            LineSink::Journald(path) => write!(f, "journald:{}", path.display()),
        }
    }
}

impl Field for LineSink {
    fn read(value: Value) -> LineSink {
        let Value::Formed(Formed::Text(text)) = value else { return LineSink::Stdout };
        LineSink::parse(&text).unwrap_or(LineSink::Stdout)
    }

    fn write(&self, _: &LineSink, _: &Kind) -> String {
        quote(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sink_is_read_back_as_it_is_written() {
        for text in [
            "-",
            "stderr",
            "/var/log/a.log",
            "logs/a:b.log",
            "syslog:/dev/log",
            "syslog:udp:[::1]:514",
            "journald:/run/systemd/journal/socket",
        ] {
            assert_eq!(LineSink::parse(text).map(|sink| sink.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(LineSink::parse("syslog"), LineSink::parse("syslog:/dev/log"));
        assert_eq!(LineSink::parse("journald"), LineSink::parse("journald:/run/systemd/journal/socket"));
        for text in [
            "syslog:",
            "syslog:udp:",
            "syslog:udp:host:514",
            "syslog:udp:127.0.0.1",
            "syslog:tcp:127.0.0.1:1",
            "journald:x",
        ] {
            assert!(LineSink::parse(text).is_err(), "{text}");
        }
    }
}
