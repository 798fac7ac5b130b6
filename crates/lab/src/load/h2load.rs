//! Load over HTTP/2 by nghttp2's h2load: a number of connections with a number of concurrent streams each. It does not
//! reconnect, so a connection that the proxy closes fails the load.

use super::{Answered, answered};
use crate::child;
use crate::error::{Error, Result};
use std::path::Path;
use std::time::Duration;

/// Numbers of connections and of streams on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    pub clients: u32,
    /// Concurrent requests on each connection.
    pub streams: u32,
}

impl Streams {
    /// Loads a URL for some seconds; with `message`, each request is a gRPC call with this file as its body.
    ///
    /// # Errors
    /// If h2load is missing or fails, or if any request failed.
    pub fn run(self, url: &str, message: Option<&Path>, seconds: u64) -> Result<Answered> {
        let Streams { clients, streams } = self;
        let mut command = vec![child::find("h2load")?];
        command.extend(format!("-c {clients} -m {streams} -D {seconds}").split(' ').map(str::to_owned));
        if let Some(message) = message {
            command.extend(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"].map(str::to_owned));
            command.push(message.display().to_string());
        }
        command.push(url.to_owned());
        let output = child::output(&command, Duration::from_secs(seconds + 20))?;
        let told = || format!("`{}`:\n{}", command.join(" "), last_lines(&output.text));
        if !output.success {
            return Err(Error::Wrong(format!("failed: {}", told())));
        }
        parse(&output.text, seconds).map_err(|reason| Error::Refused(format!("{reason}, in {}", told())))
    }
}

/// End of the output, without the long progress report.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// `requests: 900 total, 950 started, 900 done, 900 succeeded, 0 failed, 0 errored, 0 timeout`: fifty were in flight at
/// the end. Also `status codes: 900 2xx, 0 3xx, 0 4xx, 0 5xx`.
fn parse(text: &str, seconds: u64) -> std::result::Result<Answered, String> {
    let counts = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let count = |line: &str, name: &str| {
        let pairs = line.split(',').filter_map(|pair| pair.trim().split_once(' '));
        pairs.into_iter().find_map(|(count, of)| if of == name { count.parse::<u64>().ok() } else { None })
    };
    let requests = counts("requests:");
    for bad in ["failed", "errored", "timeout"] {
        if let Some(count) = count(requests, bad).filter(|&count| count != 0) {
            return Err(format!("{count} requests {bad}"));
        }
    }
    let statuses = counts("status codes:");
    for bad in ["3xx", "4xx", "5xx"] {
        if let Some(count) = count(statuses, bad).filter(|&count| count != 0) {
            return Err(format!("{count} answers {bad}"));
        }
    }
    answered(count(requests, "succeeded"), Some(seconds as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
finished in 2.01s, 8000.00 req/s, 8.77MB/s
requests: 16000 total, 16512 started, 16000 done, 16000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 16000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 17.55MB (18401056) total, 1.65MB (1728000) headers (space savings 39.66%), 15.63MB (16384000) data
";

    #[test]
    fn h2load_tells_how_many_succeeded() {
        assert_eq!(parse(SAID, 2), Ok(Answered { requests: 16_000, seconds: 2.0 }));
    }

    #[test]
    fn an_error_under_h2load_gives_no_figure() {
        for (good, bad) in
            [("0 failed", "7 failed"), ("0 errored", "7 errored"), ("0 5xx", "7 5xx"), ("0 4xx", "7 4xx")]
        {
            let error = parse(&SAID.replace(good, bad), 2).expect_err(bad);
            assert!(error.starts_with('7'), "{error}");
        }
        assert!(parse(&SAID.replace("16000 succeeded", "0 succeeded"), 2).is_err());
        assert!(parse("unable to connect", 2).is_err());
    }
}
