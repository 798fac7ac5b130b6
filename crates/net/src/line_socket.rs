//! Lines sent to a logger as datagrams: to a syslog (RFC 5424), or to the systemd journal over its native
//! protocol. A logger that is gone or too slow costs lines but no time.

use crate::clock;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Longest wait for a logger that accepts nothing before lines are dropped.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest wait while lines are already being dropped.
const NO_PATIENCE: Duration = Duration::from_millis(1);

/// Application name of the lines.
const APP: &str = "evenkeel";
/// Severity "informational" in both protocols.
const INFO: u8 = 6;

/// Address and protocol of a logger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logger {
    /// Syslog at a Unix socket, with the facility of the lines.
    SyslogUnix(PathBuf, u8),
    /// Syslog over UDP, with the facility of the lines.
    SyslogUdp(SocketAddr, u8),
    /// Socket of the systemd journal.
    Journald(PathBuf),
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

/// Lines on their way to a logger.
pub(crate) struct LineSocket {
    to: Logger,
    socket: Option<Socket>,
    /// Common prefix of the datagrams of a batch.
    front: Vec<u8>,
    host: String,
    message: Vec<u8>,
    is_losing: bool,
}

impl Socket {
    fn open(to: &Logger) -> io::Result<Socket> {
        match to {
            Logger::SyslogUnix(path, _) | Logger::Journald(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(Socket::Unix(socket))
            }
            Logger::SyslogUdp(addr, _) => {
                let any = if addr.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
                socket.connect(addr)?;
                Ok(Socket::Udp(socket))
            }
        }
    }

    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.set_write_timeout(Some(time)),
            Socket::Udp(socket) => socket.set_write_timeout(Some(time)),
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.send(message).map(drop),
            Socket::Udp(socket) => match socket.send(message) {
                // The error belongs to the previous datagram.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => socket.send(message).map(drop),
                sent => sent.map(drop),
            },
        }
    }
}

impl LineSocket {
    pub(crate) fn new(to: Logger) -> LineSocket {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        // Only characters that cannot end the field; `-` stands for no name.
        let mut host: String = host.trim().chars().filter(char::is_ascii_graphic).take(255).collect();
        if host.is_empty() {
            host.push('-');
        }
        LineSocket { to, socket: None, front: Vec::new(), host, message: Vec::new(), is_losing: false }
    }

    /// Sends whole lines. `lost` counts those that cannot be sent.
    ///
    /// # Errors
    /// The cause, and the number of lines lost.
    pub(crate) fn write(&mut self, lines: &[u8], lost: &Arc<AtomicU64>) -> Result<(), (io::Error, u64)> {
        self.begin_batch(SystemTime::now());
        let (mut failed, mut count, mut gives_up) = (None, 0, false);
        for line in lines.split_inclusive(|b| *b == b'\n') {
            if gives_up {
                count += 1;
                continue;
            }
            if let Err(error) = self.send(line.strip_suffix(b"\n").unwrap_or(line)) {
                // A line that is too long does not affect the next.
                gives_up = error.raw_os_error() != Some(libc::EMSGSIZE);
                failed = Some(error);
                count += 1;
            }
        }
        self.set_losing(gives_up);
        lost.fetch_add(count, Relaxed);
        failed.map_or(Ok(()), |error| Err((error, count)))
    }

    fn set_losing(&mut self, is_losing: bool) {
        if self.is_losing != is_losing
            && let Some(socket) = &self.socket
        {
            // On failure sends wait longer, or not at all.
            let _ = socket.wait_at_most(if is_losing { NO_PATIENCE } else { PATIENCE });
        }
        self.is_losing = is_losing;
    }

    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.message.clear();
        self.message.extend_from_slice(&self.front);
        self.message.extend_from_slice(line);
        if let Some(socket) = &self.socket {
            match socket.send(&self.message) {
                // A restarted logger has a new socket at the same path.
                Err(error) if has_gone(&error) => self.socket = None,
                sent => return sent,
            }
        }
        let socket = Socket::open(&self.to)?;
        socket.wait_at_most(if self.is_losing { NO_PATIENCE } else { PATIENCE })?;
        self.socket.insert(socket).send(&self.message)
    }

    /// Builds the prefix shared by the datagrams of a batch, which spans at most a second.
    fn begin_batch(&mut self, now: SystemTime) {
        self.front.clear();
        let (app, host, pid) = (APP, &self.host, std::process::id());
        let written = match self.to {
            Logger::SyslogUnix(_, facility) | Logger::SyslogUdp(_, facility) => {
                let (priority, time) = (facility * 8 + INFO, timestamp(now));
                write!(self.front, "<{priority}>1 {time} {host} {app} {pid} access - ")
            }
            Logger::Journald(_) => write!(self.front, "PRIORITY={INFO}\nSYSLOG_IDENTIFIER={app}\nMESSAGE="),
        };
        // Writing to a vector cannot fail.
        drop(written);
    }
}

fn has_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected, NotFound};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | NotConnected | NotFound)
}

/// Formats a timestamp of RFC 5424 (section 6.2.3).
fn timestamp(now: SystemTime) -> String {
    let ms = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let (second, milli) = (ms / 1000, ms % 1000);
    let (year, month, day) = clock::civil(second / 86_400);
    let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Arc<AtomicU64> {
        Arc::default()
    }

    /// A socket at a unique path, and the path.
    fn listener() -> (UnixDatagram, PathBuf) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("evenkeel-log-{}-{}.sock", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let socket = UnixDatagram::bind(&path).expect("the path is new");
        (socket, path)
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let n = socket.recv(&mut bytes).expect("a datagram is there");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    #[test]
    fn each_line_is_a_message_of_syslog() {
        let (socket, path) = listener();
        let mut out = LineSocket::new(Logger::SyslogUnix(path.clone(), 16));
        out.write(b"first\nsecond\n", &lost()).expect("it is there");
        let (first, second) = (received(&socket), received(&socket));
        let words: Vec<&str> = first.split(' ').collect();
        assert_eq!((words[0], words[3], words[5..].join(" ").as_str()), ("<134>1", "evenkeel", "access - first"));
        assert_eq!(words[4], std::process::id().to_string());
        assert_eq!(words[1].len(), "2026-11-20T10:00:00.123Z".len());
        assert!(second.ends_with(" second") && !second.contains('\n'), "{second}");
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn each_line_is_an_entry_of_the_journal() {
        let (socket, path) = listener();
        LineSocket::new(Logger::Journald(path.clone())).write(b"{\"a\":1}\n", &lost()).expect("it is there");
        assert_eq!(received(&socket), "PRIORITY=6\nSYSLOG_IDENTIFIER=evenkeel\nMESSAGE={\"a\":1}");
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn udp_takes_them_too() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let to = Logger::SyslogUdp(socket.local_addr().expect("it is bound"), 1);
        LineSocket::new(to).write(b"x\n", &lost()).expect("it is there");
        let mut bytes = [0; 4096];
        let n = socket.recv(&mut bytes).expect("a datagram is there");
        assert!(bytes[..n].starts_with(b"<14>1 ") && bytes[..n].ends_with(b" - x"));
    }

    #[test]
    fn a_logger_that_takes_nothing_costs_lines_and_one_that_comes_back_gets_the_next() {
        let (socket, path) = listener();
        let mut out = LineSocket::new(Logger::SyslogUnix(path.clone(), 16));
        let (count, batch) = (lost(), "x\n".repeat(5000));
        // The kernel accepts some until its queue is full, as no line is read.
        let (_, first) = out.write(batch.as_bytes(), &count).expect_err("no queue is that long");
        let (_, second) = out.write(batch.as_bytes(), &count).expect_err("still full");
        assert_eq!((first + second, second), (count.load(Relaxed), 5000));
        assert!(first > 0);
        drop(socket);
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(out.write(b"a\nb\n", &count).expect_err("it is gone").1, 2);
        let socket = UnixDatagram::bind(&path).expect("the path is free again");
        out.write(b"again\n", &count).expect("it is back");
        assert!(received(&socket).ends_with(" again"));
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn a_line_that_is_too_long_is_lost_alone() {
        let (socket, path) = listener();
        let mut out = LineSocket::new(Logger::SyslogUnix(path.clone(), 16));
        let lines = format!("{}\nshort\n", "x".repeat(1 << 20));
        let count = lost();
        assert_eq!(out.write(lines.as_bytes(), &count).expect_err("no datagram is that long").1, 1);
        assert!(received(&socket).ends_with(" short"));
        let _ = std::fs::remove_file(path);
    }
}
