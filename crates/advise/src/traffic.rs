//! Facts of an access log, by route: methods, statuses, bytes, repeated paths.

use evenkeel_logs::read::OpenError;
use evenkeel_logs::read::{Logs, Source};
use evenkeel_logs::request::Request;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

/// Most paths that are remembered over all routes; further paths count as new.
const PATHS_MAX: usize = 1 << 20;

/// Time within which a repeated request could have been answered from a cache.
pub const FRESH_S: u64 = 60;

/// Smallest response that compression is worth, in bytes with its head.
const COMPRESSED_MIN: u64 = 1024;

/// Counts of the requests that matched a route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfRoute {
    pub requests: u64,
    /// Requests with GET and a status of 200.
    pub gets: u64,
    /// Number of `gets` whose host and path, with the query, were requested within [`FRESH_S`] seconds before.
    pub repeated: u64,
    pub bytes_out: u64,
    /// Bytes of responses of some size whose path ends like a text: HTML, scripts, styles, JSON, SVG.
    pub text_bytes: u64,
}

/// Counts over all lines of one or several files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Paths as given on the command line.
    pub names: Vec<String>,
    pub requests: u64,
    /// Lines that are not requests.
    pub bad_lines: u64,
    /// Time from the first arrival to the last, in seconds.
    pub span_s: f64,
    /// Facts by the name of the route; an empty name if the log has none.
    pub routes: HashMap<String, OfRoute>,
    /// Requests, sessions and flows by the name of the listener.
    pub listeners: HashMap<String, u64>,
}

impl Traffic {
    /// Reads logs in a given format, or in the format that is found.
    ///
    /// # Errors
    /// A file cannot be opened, or its format is not known.
    pub fn read(names: &[String], format: Option<&str>) -> Result<Traffic, OpenError> {
        let logs = Logs::open(names.iter().map(|name| Source::of(name)).collect(), format, None)?;
        let mut reader = Reader::default();
        let report = logs.read(|request, _| {
            reader.add(request);
            ControlFlow::Continue(())
        });
        let Reader { mut traffic, first_ns, last_ns, .. } = reader;
        traffic.names = names.to_vec();
        traffic.bad_lines = report.bad_lines();
        traffic.span_s = last_ns.saturating_sub(first_ns) as f64 / 1e9;
        Ok(traffic)
    }

    /// Rate of a listener per second. `None` if the log does not have it, or spans less than a second.
    pub fn rate_of(&self, listener: &str) -> Option<f64> {
        let count = self.listeners.get(listener).copied().filter(|_| self.span_s >= 1.0)?;
        Some(count as f64 / self.span_s)
    }
}

#[derive(Default)]
struct Reader {
    traffic: Traffic,
    first_ns: u64,
    last_ns: u64,
    /// Latest request, in seconds, by the hash of route, host and path.
    latest: HashMap<u64, u64>,
}

impl Reader {
    fn add(&mut self, request: &Request<'_>) {
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        self.traffic.requests += 1;
        if let Some(arrived) = request.arrived {
            self.first_ns = if self.traffic.requests == 1 { arrived.ns } else { self.first_ns.min(arrived.ns) };
            self.last_ns = self.last_ns.max(arrived.ns);
        }
        *self.traffic.listeners.entry(text(request.listener)).or_default() += 1;
        let name = text(request.route);
        let is_get = request.method == Some(b"GET") && request.status == Some(200);
        let is_repeated = is_get && self.is_repeated(&name, request);
        let bytes = request.bytes_out.unwrap_or(0);
        let route = self.traffic.routes.entry(name).or_default();
        route.requests += 1;
        route.gets += u64::from(is_get);
        route.repeated += u64::from(is_repeated);
        route.bytes_out += bytes;
        if is_get && bytes >= COMPRESSED_MIN && request.path.is_some_and(is_text) {
            route.text_bytes += bytes;
        }
    }

    fn is_repeated(&mut self, route: &str, request: &Request<'_>) -> bool {
        let (Some(path), Some(arrived)) = (request.path, request.arrived) else { return false };
        let mut hasher = DefaultHasher::new();
        (route, request.host, path).hash(&mut hasher);
        let (key, now) = (hasher.finish(), arrived.ns / 1_000_000_000);
        if self.latest.len() >= PATHS_MAX && !self.latest.contains_key(&key) {
            return false;
        }
        // A hit does not make a response fresh again, so the first of a series counts.
        match self.latest.get(&key) {
            Some(filled) if now.saturating_sub(*filled) <= FRESH_S => true,
            _ => {
                self.latest.insert(key, now);
                false
            }
        }
    }
}

/// True if a path ends like a text.
fn is_text(path: &[u8]) -> bool {
    let path = path.split(|b| *b == b'?').next().unwrap_or_default();
    let ends = [".html", ".htm", ".js", ".mjs", ".css", ".json", ".svg", ".xml", ".txt", ".csv", ".map", ".wasm"];
    ends.iter().any(|end| path.to_ascii_lowercase().ends_with(end.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[String]) -> Traffic {
        let mut reader = Reader::default();
        let format = evenkeel_logs::Format::named("evenkeel").expect("it is ours");
        for line in lines {
            let mut request = Request::default();
            format.read(line.as_bytes(), &mut request).unwrap_or_else(|fault| panic!("{fault:?}: {line}"));
            reader.add(&request);
        }
        reader.traffic
    }

    fn line(second: u32, path: &str, method: &str) -> String {
        format!(
            r#"{{"ts":"2026-11-20T10:0{}:{:02}.000Z","listener":"l","route":"r","pool":"p","endpoint":"e","tries":1,"method":"{method}","host":"h","path":"{path}","status":200,"bytes_in":9,"bytes_out":2000,"t_queue":0.000,"t_connect":null,"t_ttfb":1.000,"t_total":1.000,"term":"--"}}"#,
            second / 60,
            second % 60
        )
    }

    #[test]
    fn repeated_paths_and_texts_are_counted() {
        let lines = [line(0, "/a.js?v", "GET"), line(50, "/a.js?v", "GET"), line(90, "/a.js?v", "GET")];
        let more = [line(91, "/b.png", "GET"), line(92, "/b.png", "POST")];
        let traffic = read(&[&lines[..], &more[..]].concat());
        let route = &traffic.routes["r"];
        assert_eq!((route.requests, route.gets, route.repeated), (5, 4, 1), "the third is too late for the first");
        assert_eq!((route.bytes_out, route.text_bytes), (10_000, 6_000));
        assert_eq!(traffic.listeners["l"], 5);
    }
}
