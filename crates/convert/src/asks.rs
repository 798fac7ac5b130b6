//! Requests that find out the effects of a configuration: its hosts, paths, methods and fields, their neighbours and other
//! spellings, and none of them. They are taken from the words of the text, whatever program it is for.

use std::collections::{BTreeMap, BTreeSet};

/// A request of HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub method: String,
    /// Value of `Host`. `@P@` stands for the port that is asked.
    pub host: String,
    /// Path and query as they are sent.
    pub target: String,
    /// Names and values of further fields.
    pub fields: Vec<(String, String)>,
    pub body: String,
}

impl Ask {
    /// A GET without further fields.
    pub fn get(host: &str, target: &str) -> Ask {
        let [method, host, target] = ["GET", host, target].map(str::to_string);
        Ask { method, host, target, fields: Vec::new(), body: String::new() }
    }
}

/// A host and a path that no configuration names.
const OTHER_HOST: &str = "other.invalid";
const OTHER_PATH: &str = "/zz/none";

/// Values of fields that may matter besides those that a text names.
const VALUES: [&str; 4] = ["1", "x", "none", ""];

/// Ends of names of files, which are no hosts.
const FILES: [&str; 12] = ["pid", "log", "conf", "cfg", "pem", "crt", "key", "sock", "map", "http", "htpasswd", "html"];

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"];

/// Returns `n` requests for a configuration of any program. The same seed gives the same requests.
pub fn asks(text: &str, n: usize, seed: u64) -> Vec<Ask> {
    let words = Words::of(text);
    let mut next = Choices(seed);
    let (hosts, paths) = (words.hosts(), words.paths());
    let fields: Vec<(&String, &Vec<String>)> = words.fields.iter().collect();
    let each = (0..n).map(|number| {
        let path = match paths.get(number).filter(|_| number < n / 2) {
            // The first ones ask for each path as it is.
            Some(path) => path.clone(),
            None => next.spelt(&next.clone().one(&paths)),
        };
        next.step();
        let mut ask = Ask::get(&next.clone().one(&hosts), &path);
        next.step();
        if next.once_in(4) {
            ask.host = next.host(&ask.host);
        }
        if next.once_in(4) {
            ask.method = next.one(&METHODS).to_string();
        }
        if matches!(&*ask.method, "POST" | "PUT") {
            ask.body = "a=1".into();
        }
        if !words.queries.is_empty() && next.once_in(3) && !ask.target.contains('?') {
            ask.target = format!("{}?{}", ask.target, next.one(&words.queries));
        }
        for _ in 0..next.below(3).min(fields.len()) {
            let (name, values) = fields[next.below(fields.len())];
            let value = match values.is_empty() || next.once_in(4) {
                true => next.one(&VALUES).to_string(),
                false if next.once_in(8) && !matches!(&**name, "Cookie" | "Authorization") => {
                    format!("a, {}", next.one(values))
                }
                false => next.one(values),
            };
            // Programs differ in which of several lines they read.
            if !ask.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                ask.fields.push((name.clone(), value));
            }
        }
        ask
    });
    each.collect()
}

/// Words of a configuration that a request may have.
#[derive(Debug, Default)]
struct Words {
    hosts: BTreeSet<String>,
    paths: BTreeSet<String>,
    queries: Vec<String>,
    /// Names of fields, with words that stand beside them.
    fields: BTreeMap<String, Vec<String>>,
}

impl Words {
    fn of(text: &str) -> Words {
        let mut words = Words::default();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let is_end = |c: char| c.is_whitespace() || "\"'`{}()[],;=|&!".contains(c);
            let all: Vec<&str> = line.split(is_end).filter(|word| !word.is_empty()).collect();
            for word in &all {
                words.add(word);
            }
            if let Some(at) = all.iter().position(|word| word.eq_ignore_ascii_case("query"))
                && let Some(name) = all.get(at + 1).filter(|word| is_value(word))
            {
                let value = all.get(at + 2).filter(|word| is_value(word)).unwrap_or(&"1");
                words.queries.extend([format!("{name}={value}"), name.to_string()]);
            }
            words.add_fetches(&all);
            let named: Vec<String> = all.iter().filter_map(|word| field_name(word)).collect();
            for name in named {
                let values = words.fields.entry(name).or_default();
                let beside = all.iter().filter(|word| is_value(word) && field_name(word).is_none());
                values.extend(beside.map(|word| word.to_string()));
                values.sort();
                values.dedup();
            }
        }
        words
    }

    fn add(&mut self, word: &str) {
        let plain = word.trim_start_matches(['^', '~', '*', '\\']);
        if plain.starts_with('/') && !plain.starts_with("//") {
            let path = literal(plain);
            self.paths.insert(path);
        } else if let Some(host) = host(word.trim_start_matches(['^', '~', '\\'])) {
            self.hosts.insert(host);
        } else if let Some(name) = plain.strip_prefix("$arg_") {
            self.queries.extend([format!("{name}=1"), name.to_string()]);
        }
    }

    /// Adds the names that samples of HAProxy fetch: `hdr(NAME)`, `cook(NAME)` and `url_param(NAME)`, with the values behind them.
    fn add_fetches(&mut self, line: &[&str]) {
        for pair in line.windows(2) {
            let (fetch, name) = (pair[0].rsplit('.').next().unwrap_or_default(), pair[1]);
            let is = |kinds: &[&str]| kinds.iter().any(|kind| fetch == *kind || fetch.starts_with(&format!("{kind}_")));
            let values: Vec<&str> = line.iter().filter(|word| is_value(word) && **word != name).copied().collect();
            if is(&["hdr", "fhdr"]) && !name.eq_ignore_ascii_case("host") && !is_reserved(name) {
                self.fields.entry(name.to_string()).or_default().extend(values.iter().map(|value| value.to_string()));
            } else if is(&["cook", "cookie"]) {
                let cookies = values.iter().map(|value| format!("{name}={value}; other=1"));
                self.fields.entry("Cookie".into()).or_default().extend(cookies);
            } else if is(&["url_param", "urlp"]) {
                self.queries.extend(values.iter().map(|value| format!("{name}={value}")));
            }
        }
        // A password in the clear can be sent.
        if let ["user", name, "insecure-password", password] = line {
            let proof = base64(&format!("{name}:{password}"));
            self.fields.entry("Authorization".into()).or_default().push(format!("Basic {proof}"));
        }
    }

    fn hosts(&self) -> Vec<String> {
        self.hosts.iter().cloned().chain([OTHER_HOST.to_string()]).collect()
    }

    fn paths(&self) -> Vec<String> {
        let beside = self.paths.iter().flat_map(|path| {
            let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
            [
                path.clone(),
                format!("{path}x"),
                format!("{}/sub/a.css", path.trim_end_matches('/')),
                format!("{parent}/"),
            ]
        });
        let mut seen = BTreeSet::new();
        beside.chain(["/".to_string(), OTHER_PATH.to_string()]).filter(|path| seen.insert(path.clone())).collect()
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// The beginning of an expression or pattern that stands for itself.
fn literal(path: &str) -> String {
    let mut plain = String::new();
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            '$' | '*' | '+' | '?' | '^' | '<' | '>' | '#' => break,
            // A character outside of ASCII is no part of a request's line.
            _ if !c.is_ascii_graphic() => break,
            _ => plain.push(c),
        }
    }
    plain
}

/// A host name, without a port. Patterns get a name that they match.
fn host(word: &str) -> Option<String> {
    let word = word.replace('\\', "").replace("*.", "any.").replace(".*", ".org");
    let word = word.strip_prefix("http://").or_else(|| word.strip_prefix("https://")).unwrap_or(&word);
    let word = word.trim_end_matches('$').trim_start_matches('.');
    let word = word.split_once(':').map_or(word, |(host, _)| host);
    let (first, last) = word.rsplit_once('.')?;
    let is_label = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_file = FILES.contains(&last);
    let is_name =
        !is_file && first.split('.').all(is_label) && last.len() > 1 && last.bytes().all(|b| b.is_ascii_alphabetic());
    is_name.then(|| word.to_string())
}

/// Name of a field of requests.
fn field_name(word: &str) -> Option<String> {
    if let Some(name) = word.strip_prefix("$http_") {
        return Some(name.replace('_', "-")).filter(|name| name != "host");
    }
    let word = word.trim_end_matches(':');
    let is_name = word.contains('-')
        && word.split('-').all(|part| part.bytes().all(|b| b.is_ascii_alphanumeric()) && !part.is_empty())
        && word.starts_with(|c: char| c.is_ascii_uppercase());
    (is_name && !is_reserved(word)).then(|| word.to_string())
}

/// Fields that say how a message ends, or who sent it.
fn is_reserved(name: &str) -> bool {
    let names = ["content-length", "transfer-encoding", "content-type", "proxy-connection", "keep-alive"];
    names.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

fn is_value(word: &str) -> bool {
    word.len() < 40 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Choices that a seed repeats: a linear congruence (Knuth, TAOCP 3.3.4, MMIX), of which the upper bits are taken.
#[derive(Clone)]
struct Choices(u64);

impl Choices {
    fn step(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        (self.step() % n as u64) as usize
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Another spelling of a path, most of which some server reads as the path itself.
    fn spelt(&mut self, path: &str) -> String {
        let name = path.trim_start_matches('/');
        match self.below(14) {
            0 => format!("/{path}"),
            1 => format!("/./{name}"),
            2 => format!("/x/../{name}"),
            3 => format!("/%{:02x}{}", name.bytes().next().unwrap_or(b'a'), name.get(1..).unwrap_or("")),
            4 => path.to_ascii_uppercase(),
            5 => format!("{path}/"),
            6 => format!("{path}?a=1"),
            7 => format!("{path}?"),
            8 => format!("{path}%20b"),
            _ => path.to_string(),
        }
    }

    /// Another spelling of a host.
    fn host(&mut self, host: &str) -> String {
        match self.below(4) {
            0 => host.to_ascii_uppercase(),
            1 => format!("{host}:@P@"),
            2 => format!("{host}."),
            _ => format!("sub.{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_paths_and_fields_of_a_text_are_asked_for() {
        let text = "server_name ~^a\\.test$ *.b.test;\nlocation ~ ^/api/v\\d+ { }\nif ($http_x_key = s) {\nacl x hdr(X-Real-IP) 10.0.0.1";
        let words = Words::of(text);
        assert_eq!(words.hosts.iter().collect::<Vec<_>>(), ["a.test", "any.b.test"]);
        assert_eq!(words.paths.iter().collect::<Vec<_>>(), ["/api/vd"]);
        assert_eq!(words.fields.keys().collect::<Vec<_>>(), ["X-Real-IP", "x-key"]);
        assert_eq!(asks(text, 30, 7), asks(text, 30, 7));
        assert!(asks(text, 30, 7).iter().any(|ask| ask.host.ends_with("b.test")));
    }

    #[test]
    fn any_text_gives_requests() {
        for text in ["", "/", "$arg_", "hdr(", "/\\", "é/é.é", "^~ /é"] {
            assert_eq!(asks(text, 9, 1).len(), 9, "{text}");
        }
    }
}
