//! Values that operators of other proxies write under keys that evenkeel has, in a shape that does not fit:
//! `retry = 3`. Each row has the entry to write instead; the value seen replaces the example in `<` and `>`.

use super::{filled, is_url};
use crate::tree::{TableNode, Tree};

/// Shape of a value that does not fit its key.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    True,
    False,
    Number,
    Text,
    /// Text that starts with this prefix.
    Begins(&'static str),
    /// Any of these words, ignoring case.
    Words(&'static [&'static str]),
    Url,
}

/// Table path, key, shape of the value, and the advice.
type Habit = (&'static str, &'static str, Seen, &'static str);

const CERTIFICATES: &str = "tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] }; to try it out, tls = { self_signed = true }";
const HEALTH: &str = "health = { http = \"/healthz\" }, or health = { tcp = {} } to check that a connection opens";
const STICKY: &str =
    "sticky = { secret_file = \"/etc/evenkeel/sticky.key\" }: the cookie is signed with the key in that file";

/// The first row that matches is used.
const HABITS: &[Habit] = &[
    ("[listener.NAME]", "bind", Seen::Number, "bind = [<\"[::]:8080\">] for every address, each with its port"),
    (
        "[listener.NAME]",
        "mode",
        Seen::Words(&["https", "tls", "ssl"]),
        "mode = \"http\", and tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] } beside it; mode = \"tcp\" passes TLS through",
    ),
    (
        "[listener.NAME]",
        "mode",
        Seen::Words(&["http2", "h2", "h2c", "grpc"]),
        "mode = \"http\": HTTP/2 is on wherever tls is set, and without TLS if h2c = true is beside it",
    ),
    (
        "[listener.NAME]",
        "http2",
        Seen::True,
        "leave it out: HTTP/2 is on wherever tls is set; for HTTP/2 without TLS, write h2c = true",
    ),
    (
        "[listener.NAME]",
        "http2",
        Seen::False,
        "protocols = [\"http/1.1\"] in tls of the listener; without TLS, HTTP/2 is off unless h2c = true",
    ),
    ("[listener.NAME]", "tls", Seen::True, CERTIFICATES),
    ("[listener.NAME]", "tls", Seen::False, "leave it out: without tls, clients are served in plain text"),
    ("[listener.NAME]", "limits", Seen::Number, "limits = { connections = <10000> }"),
    ("[listener.NAME]", "timeouts", Seen::Text, "timeouts = { client_idle = <\"60s\"> }"),
    ("[listener.NAME]", "timeouts", Seen::Number, "timeouts = { client_idle = <\"60s\"> }"),
    (
        "[pool.NAME]",
        "endpoints",
        Seen::Number,
        "endpoints = [\"127.0.0.1:<8080>\"], or the address of each endpoint with this port",
    ),
    ("[pool.NAME]", "http2", Seen::True, "protocol = \"h2\", or protocol = \"auto\" to let TLS choose"),
    ("[pool.NAME]", "http2", Seen::False, "protocol = \"http1\", which is the default"),
    ("[pool.NAME]", "health", Seen::Words(&["tcp"]), "health = { tcp = {} }"),
    ("[pool.NAME]", "health", Seen::Begins("/"), "health = { http = <\"/healthz\"> }"),
    (
        "[pool.NAME]",
        "health",
        Seen::Url,
        "health = { http = <\"/healthz\"> }: each endpoint is checked at its own address",
    ),
    ("[pool.NAME]", "health", Seen::Text, HEALTH),
    ("[pool.NAME]", "health", Seen::True, HEALTH),
    ("[pool.NAME]", "health", Seen::False, "leave it out: without health, endpoints are not checked"),
    (
        "health of [pool.NAME]",
        "http",
        Seen::Url,
        "http = <\"/healthz\">: each endpoint is checked at its own address; for another port, add port = 8081",
    ),
    ("health of [pool.NAME]", "http", Seen::True, "http = \"/healthz\", the path to request"),
    ("health of [pool.NAME]", "tcp", Seen::True, "tcp = {}"),
    ("health of [pool.NAME]", "redis", Seen::True, "redis = {}"),
    ("health of [pool.NAME]", "smtp", Seen::True, "smtp = {}"),
    ("[pool.NAME]", "sticky", Seen::True, STICKY),
    ("[pool.NAME]", "sticky", Seen::Text, STICKY),
    ("[pool.NAME]", "sticky", Seen::False, "leave it out: without sticky, no cookie is set"),
    ("[pool.NAME]", "retry", Seen::Number, "retry = { attempts = <2..=10> }"),
    ("[[route]]", "retry", Seen::Number, "retry = { attempts = <2..=10> }"),
    ("[defaults]", "retry", Seen::Number, "retry = { attempts = <2..=10> }"),
    (
        "[pool.NAME]",
        "retry",
        Seen::True,
        "leave it out: one retry is the default; for two, write retry = { attempts = 2 }",
    ),
    (
        "[[route]]",
        "retry",
        Seen::True,
        "leave it out: one retry is the default; for two, write retry = { attempts = 2 }",
    ),
    ("[pool.NAME]", "retry", Seen::False, "retry = { attempts = 0 }"),
    ("[[route]]", "retry", Seen::False, "retry = { attempts = 0 }"),
    ("[pool.NAME]", "queue", Seen::Number, "queue = { max = <1024> }: requests that may wait"),
    ("[pool.NAME]", "queue", Seen::Text, "queue = { timeout = <\"2s\"> }: how long a request may wait"),
    ("[pool.NAME]", "queue", Seen::False, "queue = { max = 0 }"),
    ("[pool.NAME]", "slow_start", Seen::Number, "slow_start = <\"30s\">, a duration with its unit"),
    ("[pool.NAME]", "slow_start", Seen::True, "slow_start = \"30s\": the length of the ramp"),
    (
        "[pool.NAME]",
        "slow_start",
        Seen::False,
        "leave it out: without slow_start, new endpoints get their full share immediately",
    ),
    ("[pool.NAME]", "outlier", Seen::True, "leave it out: ejection is on unless outlier = \"off\""),
    ("[pool.NAME]", "outlier", Seen::False, "outlier = \"off\""),
    ("[pool.NAME]", "limits", Seen::Number, "limits = { requests_per_endpoint = <100> }"),
    ("[pool.NAME]", "timeouts", Seen::Text, "timeouts = { request = <\"30s\"> }"),
    ("[pool.NAME]", "timeouts", Seen::Number, "timeouts = { request = <\"30s\"> }"),
    ("[[route]]", "timeouts", Seen::Text, "timeouts = { request = <\"30s\"> }"),
    ("[[route]]", "timeouts", Seen::Number, "timeouts = { request = <\"30s\"> }"),
    ("[[route]]", "match", Seen::Begins("/"), "match = { prefix = <\"/api\"> }"),
    (
        "[pool.NAME]",
        "discover",
        Seen::Begins("_"),
        "discover = { dns = { name = <\"_http._tcp.web.internal\">, type = \"SRV\" } }",
    ),
    (
        "[pool.NAME]",
        "discover",
        Seen::Text,
        "discover = { dns = { name = <\"web.internal\">, port = 8080 } }, with the port of the endpoints",
    ),
    (
        "discover of [pool.NAME]",
        "dns",
        Seen::Begins("_"),
        "dns = { name = <\"_http._tcp.web.internal\">, type = \"SRV\" }",
    ),
    (
        "discover of [pool.NAME]",
        "dns",
        Seen::Text,
        "dns = { name = <\"web.internal\">, port = 8080 }, with the port of the endpoints",
    ),
    ("discover of [pool.NAME]", "kubernetes", Seen::Text, "kubernetes = { service = <\"web\"> }"),
    ("discover of [pool.NAME]", "consul", Seen::Text, "consul = { service = <\"web\"> }"),
    ("discover of [pool.NAME]", "nomad", Seen::Text, "nomad = { service = <\"web\"> }"),
    ("discover of [pool.NAME]", "http", Seen::Url, "http = { url = <\"http://127.0.0.1:9000/web.json\"> }"),
    ("discover of [pool.NAME]", "docker", Seen::Text, "docker = { labels = [<\"evenkeel.pool=web\">] }"),
    ("discover of [pool.NAME]", "etcd", Seen::Text, "etcd = { prefix = <\"/evenkeel/web/\"> }"),
    ("discover of [pool.NAME]", "xds", Seen::Text, "xds = { cluster = <\"web\"> }"),
];

/// Text to write instead of a value that does not fit; `None` if no row matches.
pub(crate) fn habit(table: &str, key: &str, value: &Tree) -> Option<String> {
    let fits = |(path, name, seen, _): &&Habit| *path == table && *name == key && seen.is(value);
    HABITS.iter().find(fits).map(|(.., write)| {
        let filled = filled(write, value, &TableNode::default());
        if filled.starts_with("leave it out") { filled } else { format!("write {filled}") }
    })
}

impl Seen {
    fn is(self, value: &Tree) -> bool {
        match (self, value) {
            (Seen::True, Tree::Bool(on)) => *on,
            (Seen::False, Tree::Bool(on)) => !on,
            (Seen::Number, Tree::Int(..)) | (Seen::Text, Tree::Text(_)) => true,
            (Seen::Begins(start), Tree::Text(text)) => text.starts_with(start),
            (Seen::Words(words), Tree::Text(text)) => words.iter().any(|word| text.eq_ignore_ascii_case(word)),
            (Seen::Url, Tree::Text(text)) => is_url(text),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::ROOT;

    #[test]
    fn each_habit_is_about_a_key_that_exists() {
        for (path, key, ..) in HABITS {
            assert!(ROOT.walk().into_iter().any(|t| t.path == *path && t.key(key).is_some()), "{path}: {key}");
        }
    }
}
