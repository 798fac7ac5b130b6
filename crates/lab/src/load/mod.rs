//! Loads on a proxy: wrk for kept connections, ApacheBench for a connection per request, h2load for HTTP/2, and the lab
//! itself for HTTP/3, handshakes and latency. A single answer that is not a 2xx, or a failed read, invalidates the figure.

// Order: generator, h2load, http3, handshakes
pub mod generator;
pub mod h2load;
pub mod handshakes;
pub mod http3;

use crate::child;
use crate::error::{Error, Result};
use crate::scratch::Scratch;
use std::time::Duration;

/// Load program, with the number of concurrent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// wrk with a single thread and this many connections, each of which sends its next request after the answer.
    KeepAlive(u32),
    /// Connections of `KeepAlive`, each request with a separate query.
    Distinct(u32),
    /// Connections of `KeepAlive`, each request with the query of another of 10,000 rows of a map.
    Keyed(u32),
    /// ApacheBench, HTTP/1.0: a new connection for each request.
    Close(u32),
}

/// Script of wrk that gives each request a separate query. Runs begin at the time in seconds, so none repeats
/// another's.
const DISTINCT: &str = "local n = os.time() * 1000000\n\
request = function()\n  n = n + 1\n  return wrk.format(nil, wrk.path .. '?' .. string.format('%d', n))\nend\n";

/// Script of wrk that gives each request the query of another row. Neighbours of a row are elsewhere.
const KEYED: &str = "local n = 0\n\
request = function()\n  n = (n + 7919) % 10000\n  return wrk.format(nil, wrk.path .. '?' .. string.format('k%04d/item', n))\nend\n";

/// Number of answers, and the duration of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answered {
    /// Number of complete answers.
    pub requests: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Load {
    /// Loads a URL for some seconds.
    ///
    /// # Errors
    /// If the program is missing or fails, or if any request failed.
    pub fn run_at(self, url: &str, seconds: u64) -> Result<Answered> {
        let mut command = self.command(url, seconds)?;
        let script = match self {
            Load::Distinct(_) => Some(DISTINCT),
            Load::Keyed(_) => Some(KEYED),
            Load::KeepAlive(_) | Load::Close(_) => None,
        };
        let folder = script.is_some().then(Scratch::new).transpose()?;
        for (folder, script) in folder.iter().zip(script) {
            let script = folder.write("queries.lua", script)?;
            command.extend(["-s".to_owned(), script.display().to_string()]);
        }
        let output = child::output(&command, Duration::from_secs(seconds + 20))?;
        if !output.success {
            return Err(Error::Wrong(format!("`{}` failed:\n{}", command.join(" "), output.text.trim())));
        }
        self.answered(&output.text)
    }

    /// Command that loads a URL for some seconds.
    ///
    /// # Errors
    /// If the program is missing.
    pub fn command(self, url: &str, seconds: u64) -> Result<Vec<String>> {
        let command = match self {
            Load::KeepAlive(connections) | Load::Distinct(connections) | Load::Keyed(connections) => {
                format!("{} -t1 -c{connections} -d{seconds}s --timeout 10s {url}", child::find("wrk")?)
            }
            // -t sets -n to 50,000, so -n comes after it; ab keeps a record of each request in memory.
            Load::Close(at_once) => {
                format!("{} -q -r -s 10 -t {seconds} -n {} -c {at_once} {url}", child::find("ab")?, seconds * 200_000)
            }
        };
        Ok(command.split(' ').map(str::to_owned).collect())
    }

    /// Parses the output of the load program.
    ///
    /// # Errors
    /// If any request failed.
    pub fn answered(self, text: &str) -> Result<Answered> {
        let parsed = match self {
            Load::KeepAlive(_) | Load::Distinct(_) | Load::Keyed(_) => parse_wrk(text),
            Load::Close(_) => parse_ab(text),
        };
        parsed.map_err(|reason| Error::Refused(format!("{reason}:\n{}", text.trim())))
    }
}

/// `1234 requests in 2.00s, 3MB read`, then lines for socket errors and other statuses, if there are any.
fn parse_wrk(text: &str) -> std::result::Result<Answered, String> {
    for line in text.lines().map(str::trim) {
        if line.starts_with("Socket errors:") || line.starts_with("Non-2xx") {
            return Err(line.to_owned());
        }
    }
    let summary = text.lines().find_map(|line| line.trim().split_once(" requests in "));
    let (requests, rest) = summary.ok_or("wrk printed no summary")?;
    let time = rest.split(',').next().unwrap_or_default();
    answered(requests.parse().ok(), seconds(time))
}

/// Parses a duration of wrk, such as `2.00s`, `1.50m` or `900.00ms`.
fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    units.iter().find_map(|(unit, scale)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * scale))
}

fn parse_ab(text: &str) -> std::result::Result<Answered, String> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.split_ascii_whitespace().next()
    };
    for bad in ["Failed requests", "Non-2xx responses", "Write errors"] {
        if let Some(count) = field(bad).filter(|&count| count != "0") {
            return Err(format!("{bad}: {count}"));
        }
    }
    answered(
        field("Complete requests").and_then(|count| count.parse().ok()),
        field("Time taken for tests").and_then(|time| time.parse().ok()),
    )
}

fn answered(requests: Option<u64>, seconds: Option<f64>) -> std::result::Result<Answered, String> {
    match (requests, seconds) {
        (Some(requests @ 1..), Some(seconds)) => Ok(Answered { requests, seconds }),
        _ => Err("the load generator counted no requests".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "\
Running 2s test @ http://127.0.0.1:8080/1k
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.91ms  140.00us   3.02ms   92.10%
    Req/Sec    70.41k     1.10k   72.00k    80.00%
  140820 requests in 2.01s, 170.11MB read
Requests/sec:  70059.70
Transfer/sec:     84.63MB
";

    const AB: &str = "\
Concurrency Level:      200
Time taken for tests:   2.000 seconds
Complete requests:      60123
Failed requests:        0
Total transferred:      260000000 bytes
Requests per second:    30061.50 [#/sec] (mean)
";

    #[test]
    fn wrk_tells_requests_and_time() {
        assert_eq!(parse_wrk(WRK), Ok(Answered { requests: 140_820, seconds: 2.01 }));
        let minute = WRK.replace("2.01s", "1.50m");
        assert_eq!(parse_wrk(&minute), Ok(Answered { requests: 140_820, seconds: 90.0 }));
    }

    #[test]
    fn an_error_under_wrk_gives_no_figure() {
        let line = "  Socket errors: connect 0, read 3, write 0, timeout 1";
        assert_eq!(parse_wrk(&WRK.replace("Requests/sec", &format!("{line}\nRequests/sec"))), Err(line.trim().into()));
        let line = "  Non-2xx or 3xx responses: 12";
        assert_eq!(parse_wrk(&WRK.replace("Requests/sec", &format!("{line}\nRequests/sec"))), Err(line.trim().into()));
    }

    #[test]
    fn no_requests_give_no_figure() {
        assert!(parse_wrk(&WRK.replace("140820 requests", "0 requests")).is_err());
        assert!(parse_wrk("unable to connect to 127.0.0.1:8080 Connection refused").is_err());
        assert!(parse_ab("").is_err());
    }

    #[test]
    fn ab_tells_requests_and_time() {
        assert_eq!(parse_ab(AB), Ok(Answered { requests: 60_123, seconds: 2.0 }));
    }

    #[test]
    fn an_error_under_ab_gives_no_figure() {
        let failed = AB.replace("Failed requests:        0", "Failed requests:        7");
        assert_eq!(parse_ab(&failed), Err("Failed requests: 7".into()));
        for line in ["Non-2xx responses:      60123", "Write errors:           2"] {
            assert!(parse_ab(&format!("{AB}{line}\n")).is_err(), "{line}");
        }
    }
}
