//! Load of TLS handshakes: clients of the lab's own connect, send a request and close, and check whether their
//! session was resumed. A load whose sessions are not of the intended kind gives no figure.

use super::{Answered, answered};
use crate::child;
use crate::client::{self, tls};
use crate::error::{Error, Result, While};
use crate::http;
use rustls::HandshakeKind;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Kind and number of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// Number of concurrent clients.
    pub clients: u32,
    pub version: tls::Version,
    /// True if all but each client's first resume the previous session by a ticket.
    pub resumed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    answers: u64,
    resumed: u64,
}

impl Handshakes {
    /// Requests `path` on a port of this machine for some seconds; every response must be a 200.
    ///
    /// # Errors
    /// If a connection fails, or if sessions were resumed that should not have been, or the reverse.
    pub fn run(self, port: u16, path: &str, seconds: u64) -> Result<Answered> {
        let began = Instant::now();
        let until = began + Duration::from_secs(seconds);
        let request = client::get(path, true);
        let clients: Vec<Result<Counted>> = thread::scope(|scope| {
            let one = || scope.spawn(|| self.client(port, path, &request, until));
            let running: Vec<_> = (0..self.clients).map(|_| one()).collect();
            let ended = running.into_iter().map(|client| client.join());
            ended.map(|client| client.unwrap_or_else(|_| Err(Error::Wrong("a client panicked".into())))).collect()
        });
        let took = began.elapsed().as_secs_f64();
        let mut sum = Counted::default();
        for client in clients {
            let client = client?;
            sum.answers += client.answers;
            sum.resumed += client.resumed;
        }
        self.check(sum).map_err(Error::Refused)?;
        answered(Some(sum.answers), Some(took)).map_err(Error::Refused)
    }

    fn client(self, port: u16, path: &str, request: &[u8], until: Instant) -> Result<Counted> {
        let config = tls::config(self.version, self.resumed)?;
        let mut counted = Counted::default();
        while Instant::now() < until {
            child::go_on()?;
            let mut stream = tls::connect(port, &config)?;
            stream.write_all(request).or_say(|| format!("cannot ask for {path}"))?;
            http::body(&mut stream, path)?;
            // Let the server close first: otherwise the client would run out of ports (TIME_WAIT).
            let _ = stream.read_to_end(&mut Vec::new());
            counted.answers += 1;
            counted.resumed += u64::from(stream.conn.handshake_kind() == Some(HandshakeKind::Resumed));
        }
        Ok(counted)
    }

    /// Checks the number of resumed sessions. Each client's first session cannot resume.
    fn check(self, sum: Counted) -> std::result::Result<(), String> {
        let Counted { answers, resumed } = sum;
        let wanted = if self.resumed { answers.saturating_sub(u64::from(self.clients)) * 99 / 100 } else { 0 };
        if resumed >= wanted && (self.resumed || resumed == 0) {
            return Ok(());
        }
        let means = if self.resumed { "all" } else { "none" };
        Err(format!("{resumed} of {answers} sessions were resumed; this case means {means}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_were_not_resumed_as_meant_give_no_figure() {
        let of = |resumed| Handshakes { clients: 10, version: tls::Version::Tls13, resumed };
        let sum = |resumed| Counted { answers: 1010, resumed };
        assert!(of(true).check(sum(1000)).is_ok(), "all but the first of each client");
        assert!(of(true).check(sum(900)).is_err());
        assert!(of(false).check(sum(0)).is_ok());
        assert!(of(false).check(sum(1)).is_err());
    }
}
