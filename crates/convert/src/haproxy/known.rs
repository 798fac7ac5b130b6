//! Directives of HAProxy that have no counterpart. Each row has the words of a directive and its treatment.

/// Treatment of a directive that is not translated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// Left out without a loss, for this reason.
    Lossless(&'static str),
    /// Left out with a difference: the reason, and advice.
    Changes(&'static str, &'static str),
}

use Fate::{Changes, Lossless};

const SERVICE: &str = "the service unit does it";
const WORKERS: &str = "evenkeel runs one worker for each core; `runtime.workers` sets another number";
const BUFFERS: &str = "buffers have fixed bounds here, and bodies pass through as they come";
const CIPHERS: &str = "ciphers are those of rustls, all of which are safe; the list cannot be set";
const DASHBOARD: &str = "the dashboard and the API of `[admin]` show it";
const ALWAYS: &str = "always so";
const ORDER: &str = "the order of filters is fixed";
const LUA: &str = "Lua is not supported";
const SCRIPT: &str = "find out what the script is for: fields, redirects, CORS and authentication are keys of a route";

/// Rows for the section `global`.
const GLOBAL: &[(&str, Fate)] = &[
    ("daemon", Lossless(SERVICE)),
    ("user", Lossless(SERVICE)),
    ("group", Lossless(SERVICE)),
    ("uid", Lossless(SERVICE)),
    ("gid", Lossless(SERVICE)),
    ("chroot", Lossless(SERVICE)),
    ("pidfile", Lossless(SERVICE)),
    (
        "default-path",
        Changes("relative names of files start at the folder of evenkeel.toml", "write names of files in full"),
    ),
    ("strict-limits", Lossless("the limit of descriptors is raised at the start as far as the system allows")),
    ("master-worker", Lossless("`evenkeel reload` and `upgrade` need no master process")),
    ("mworker-max-reloads", Lossless("`evenkeel reload` and `upgrade` need no master process")),
    ("ulimit-n", Lossless("the limit of descriptors is raised at the start as far as the system allows")),
    ("fd-hard-limit", Lossless("the limit of descriptors is raised at the start as far as the system allows")),
    ("nbproc", Lossless(WORKERS)),
    ("nbthread", Lossless(WORKERS)),
    ("cpu-map", Lossless(WORKERS)),
    ("cpu-policy", Lossless(WORKERS)),
    ("thread-groups", Lossless(WORKERS)),
    (
        "stats socket",
        Lossless("commands such as `evenkeel status` find the process by a socket of its own, `admin.bind`"),
    ),
    ("stats timeout", Lossless("the socket for commands has limits of its own")),
    ("stats maxconn", Lossless("the socket for commands has limits of its own")),
    ("stats bind-process", Lossless("the socket for commands has limits of its own")),
    ("ca-base", Lossless("file names are written with their folder")),
    ("crt-base", Lossless("file names are written with their folder")),
    ("key-base", Lossless("file names are written with their folder")),
    ("ssl-default-bind-ciphers", Lossless(CIPHERS)),
    ("ssl-default-bind-ciphersuites", Lossless(CIPHERS)),
    ("ssl-default-bind-curves", Lossless(CIPHERS)),
    ("ssl-default-server-ciphers", Lossless(CIPHERS)),
    ("ssl-default-server-ciphersuites", Lossless(CIPHERS)),
    ("ssl-default-server-options", Lossless("TLS 1.2 is the oldest version that is spoken with endpoints")),
    (
        "ssl-server-verify",
        Changes(
            "certificates of endpoints are verified unless a pool says otherwise",
            "write tls = { verify = false } in pools whose endpoints have no valid certificate",
        ),
    ),
    ("ssl-dh-param-file", Lossless("rustls does not use DHE")),
    ("ssl-mode-async", Lossless("there are no engines of OpenSSL")),
    ("ssl-engine", Lossless("there are no engines of OpenSSL")),
    ("tune.ssl.default-dh-param", Lossless("rustls does not use DHE")),
    ("tune.ssl.cachesize", Lossless("sessions resume by tickets")),
    ("tune.ssl.lifetime", Lossless("sessions resume by tickets")),
    ("tune.maxrewrite", Lossless(BUFFERS)),
    ("tune.", Lossless("it tunes HAProxy's own machinery")),
    ("spread-checks", Lossless("`health.jitter` spreads checks, by 20 % unless set")),
    ("max-spread-checks", Lossless("`health.jitter` spreads checks, by 20 % unless set")),
    ("hard-stop-after", Lossless("`runtime.drain_timeout` is 30 s")),
    ("node", Lossless(DASHBOARD)),
    ("description", Lossless(DASHBOARD)),
    ("log-send-hostname", Lossless("lines for syslog have the name of the machine")),
    ("log-tag", Lossless("lines for syslog have the program's name")),
    ("localpeer", Lossless("counters are not shared with other instances")),
    ("set-dumpable", Lossless(SERVICE)),
    ("quiet", Lossless(SERVICE)),
    ("debug", Lossless("`runtime.log.level` sets what is logged")),
    ("zero-warning", Lossless("`evenkeel check` reports warnings")),
    ("expose-experimental-directives", Lossless("there are none here")),
    (
        "h1-case-adjust",
        Changes("names of fields are passed on as they came", "nothing, unless a client depends on other spelling"),
    ),
    ("server-state-base", Lossless("`runtime.state` keeps operators' orders across restarts")),
    ("server-state-file", Lossless("`runtime.state` keeps operators' orders across restarts")),
    ("lua-", Changes(LUA, SCRIPT)),
    ("setenv", Changes("the environment is set by the service unit", "set it there: Environment=NAME=VALUE")),
    ("presetenv", Changes("the environment is set by the service unit", "set it there: Environment=NAME=VALUE")),
    (
        "external-check",
        Changes(
            "commands cannot be run as checks",
            "serve the result over HTTP, and write health = { http = \"/PATH\" }",
        ),
    ),
    ("insecure-fork-wanted", Lossless("no other programs are run")),
    (
        "maxconnrate",
        Changes(
            "connections per second of the whole process have no limit",
            "limits.requests_per_address of a listener bounds each client",
        ),
    ),
    ("maxsslconn", Changes("connections with TLS have no limit of their own", "limits.connections of the listener")),
    ("maxpipes", Lossless("it tunes HAProxy's own machinery")),
    ("nosplice", Lossless("it tunes HAProxy's own machinery")),
    ("noepoll", Lossless("it tunes HAProxy's own machinery")),
    ("nopoll", Lossless("it tunes HAProxy's own machinery")),
];

/// Rows for defaults, frontends, backends and listen sections.
const PROXY: &[(&str, Fate)] = &[
    ("option dontlognull", Lossless("a connection without a request has no line in the access log")),
    (
        "option dontlog-normal",
        Changes("all requests are logged", "filter where the log is read; `evenkeel tap --status 5xx` shows failures"),
    ),
    ("option log-separate-errors", Lossless("lines have the status")),
    ("option logasap", Lossless("a line is written when the request has ended")),
    (
        "option http-server-close",
        Lossless("idle connections to endpoints are kept and used again; limits.idle_per_endpoint = 0 closes them"),
    ),
    ("option httpclose", Lossless("idle connections are kept on both sides")),
    ("option forceclose", Lossless("idle connections are kept on both sides")),
    ("option http-keep-alive", Lossless(ALWAYS)),
    ("option http-pretend-keepalive", Lossless("idle connections to endpoints are kept and used again")),
    ("option http-tunnel", Lossless("each request is balanced; upgraded connections are tunnels")),
    (
        "option prefer-last-server",
        Lossless("idle connections are used again where the algorithm chooses their endpoint"),
    ),
    ("option redispatch", Lossless("every retry goes to another endpoint")),
    ("redispatch", Lossless("every retry goes to another endpoint")),
    ("option http-buffer-request", Lossless("requests pass through as they come")),
    ("option http-no-delay", Lossless(ALWAYS)),
    ("option http-ignore-probes", Lossless("a connection without a request has no line in the access log")),
    ("option tcp-smart-accept", Lossless("it tunes HAProxy's own machinery")),
    ("option tcp-smart-connect", Lossless("it tunes HAProxy's own machinery")),
    ("option splice-", Lossless("TCP sessions are spliced where that pays")),
    ("option contstats", Lossless("counters grow while a session lasts")),
    ("option clitcpka", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option srvtcpka", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option tcpka", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option nolinger", Lossless("closed connections linger only for what is still to be sent")),
    ("option socket-stats", Lossless(DASHBOARD)),
    ("option log-health-checks", Lossless("`evenkeel events` and the log have every change of state")),
    ("option abortonclose", Lossless("a request whose client has gone leaves the queue")),
    ("option allbackups", Lossless("all endpoints of a tier are used")),
    ("option persist", Lossless("sticky clients stay as long as their endpoint is usable")),
    ("option ignore-persist", Lossless("sticky clients stay as long as their endpoint is usable")),
    (
        "option originalto",
        Changes(
            "the address that the client connected to is not forwarded",
            "set a field of your own in request_headers",
        ),
    ),
    (
        "option forwarded",
        Changes(
            "the field `Forwarded` is not added; `X-Forwarded-For`, `-Proto` and `-Host` are",
            "read those in the application",
        ),
    ),
    ("option http-use-proxy-header", Lossless("no client sends Proxy-Connection any more")),
    ("option http-use-htx", Lossless(ALWAYS)),
    ("option accept-invalid-http-request", Changes("malformed requests are refused", "have the client fixed")),
    (
        "option accept-invalid-http-response",
        Changes("malformed responses are refused", "`tolerate` of the pool has the faults that can be mended"),
    ),
    (
        "option accept-unsafe-violations-in-http-",
        Changes("malformed messages are refused", "`tolerate` of the pool has the faults that can be mended"),
    ),
    (
        "option h1-case-adjust-",
        Changes("names of fields are passed on as they came", "nothing, unless a client depends on other spelling"),
    ),
    ("option nullog", Lossless("a connection without a request has no line in the access log")),
    (
        "option checkcache",
        Changes(
            "responses are not inspected for cookies that could be cached",
            "have the application send Cache-Control",
        ),
    ),
    ("option independent-streams", Lossless("it tunes HAProxy's own machinery")),
    ("option idle-close-on-response", Lossless("a reload loses no request")),
    (
        "option transparent",
        Changes("connections are not sent to the address that the client asked for", "name the endpoints"),
    ),
    ("option http_proxy", Changes("it is not a forward proxy", "use one, such as Squid")),
    (
        "option external-check",
        Changes(
            "commands cannot be run as checks",
            "serve the result over HTTP, and write health = { http = \"/PATH\" }",
        ),
    ),
    (
        "external-check",
        Changes(
            "commands cannot be run as checks",
            "serve the result over HTTP, and write health = { http = \"/PATH\" }",
        ),
    ),
    ("option spop-check", Changes("agents of SPOE are not supported", "leave them out")),
    ("option disable-h2-upgrade", Lossless("HTTP/2 without TLS is off unless h2c = true")),
    ("stats hide-version", Lossless(DASHBOARD)),
    ("stats show-", Lossless(DASHBOARD)),
    ("stats refresh", Lossless("the dashboard is live")),
    ("stats realm", Lossless("tokens of `admin.http` have no realm")),
    ("stats admin", Lossless("commands and `admin.http.write_token` change the running state")),
    ("stats scope", Lossless(DASHBOARD)),
    (
        "stats http-request",
        Changes("the dashboard has no rules of its own", "bind `admin.http` to a private address, and set read_token"),
    ),
    ("capture", Changes("fields are logged by the access log", "name them in telemetry.access_log.fields")),
    (
        "http-request capture",
        Changes("fields are logged by the access log", "name them in telemetry.access_log.fields"),
    ),
    ("http-request set-log-level", Changes("all requests are logged", "filter where the log is read")),
    ("http-request set-nice", Lossless("it tunes HAProxy's own machinery")),
    ("http-request set-priority-", Lossless("queues are in the order of arrival")),
    ("http-request do-log", Lossless("a line is written when the request has ended")),
    ("http-request early-hint", Changes("early hints are the application's", "have it send them")),
    ("http-request pause", Changes("requests are not delayed", "limits bound the requests of a key")),
    ("http-request set-retries", Changes("retries depend on the route only", "write retry in a [[route]]")),
    ("http-request set-dst", Changes("requests go to endpoints of the pool", "write the address in its endpoints")),
    (
        "http-request set-dst-port",
        Changes("requests go to endpoints of the pool", "write the address in its endpoints"),
    ),
    ("http-request set-src-port", Changes("the client's port is that of its connection", "nothing")),
    ("http-request set-bc-", Changes("packets are not marked", "mark them by nftables")),
    ("http-request set-fc-", Changes("packets are not marked", "mark them by nftables")),
    ("http-request set-tos", Changes("packets are not marked", "mark them by nftables")),
    ("http-request set-mark", Changes("packets are not marked", "mark them by nftables")),
    (
        "http-request set-src",
        Changes(
            "the client's address is taken from fields of trusted proxies only",
            "name these proxies in trusted_proxies of the listener",
        ),
    ),
    ("http-request set-method", Changes("the method is not changed", "have the application accept it")),
    ("http-request set-timeout", Changes("timeouts depend on the route only", "write timeouts in a [[route]]")),
    (
        "http-request normalize-uri",
        Changes(
            "paths are matched and passed on in normal form where another reading would choose another route, and as they \
                came elsewhere",
            "nothing, unless endpoints need the normal form of every path",
        ),
    ),
    (
        "http-request wait-for-",
        Changes("requests pass through as they come", "nothing, unless the application depends on it"),
    ),
    ("http-request send-spoe-group", Changes("agents of SPOE are not supported", "leave them out")),
    (
        "http-request disable-l7-retry",
        Changes("retries depend on the route only", "write retry = { attempts = 0 } in a [[route]]"),
    ),
    ("http-request strict-mode", Lossless("rules cannot fail half way")),
    ("http-request sc-", Changes("general counters are not available", "limits bound the requests of a key")),
    ("http-request set-header Proxy", Lossless(ALWAYS)),
    ("http-response set-status", Changes("the status of a response is not changed", "have the application send it")),
    ("http-response return", Changes("responses of endpoints are not replaced", "have the application send it")),
    ("filter", Changes("filters of HAProxy (SPOE, traces) are not available", "see what the filter is for")),
    ("filter compression", Lossless(ORDER)),
    ("filter cache", Lossless(ORDER)),
    (
        "http-error",
        Changes(
            "its file has a head; pages here are bodies only",
            "write error_pages = [{ status = [503], file = \"FILE.html\" }]",
        ),
    ),
    ("unique-id-format", Changes("ids have a format of their own", "request_id = true adds them as X-Request-Id")),
    ("log-format-sd", Changes("lines for syslog have no structured data", "nothing, unless the collector needs it")),
    ("log-steps", Lossless("a line is written when the request has ended")),
    ("log-tag", Lossless("lines for syslog have the program's name")),
    ("backlog", Lossless("the queue of new connections is as long as the system allows")),
    ("fullconn", Lossless("limits of servers do not depend on the load")),
    ("grace", Lossless("`runtime.drain_timeout` bounds a stop")),
    ("hash-type", Lossless("maglev moves few clients when endpoints come and go")),
    ("hash-balance-factor", Changes("consistent hashing has a bound of its own", "see `evenkeel algorithms maglev`")),
    ("hash-preserve-affinity", Lossless("maglev moves few clients when endpoints come and go")),
    (
        "http-send-name-header",
        Changes(
            "endpoints do not get their names in a field, and a client's field of this name passes",
            "remove the client's field by request_headers = { remove = [\"NAME\"] } in the [[route]]",
        ),
    ),
    ("http-reuse", Lossless("idle connections are shared, except with the PROXY protocol")),
    ("id", Lossless(DASHBOARD)),
    ("description", Lossless(DASHBOARD)),
    ("guid", Lossless(DASHBOARD)),
    ("load-server-state-from-file", Lossless("`runtime.state` keeps operators' orders across restarts")),
    ("max-keep-alive-queue", Lossless("it tunes HAProxy's own machinery")),
    ("max-session-srv-conns", Lossless("it tunes HAProxy's own machinery")),
    ("maxqueue", Changes("queues have a length of their own", "queue = { max = N } in the pool")),
    (
        "persist rdp-cookie",
        Changes("cookies of RDP are not read", "balance by the client's address: { maglev = { key = \"client-ip\" } }"),
    ),
    (
        "rate-limit sessions",
        Changes(
            "new connections per second of a listener have no limit",
            "limits.requests_per_address bounds each client",
        ),
    ),
    ("bind-process", Lossless(WORKERS)),
    (
        "source",
        Changes(
            "the source address of connections to endpoints is the system's choice",
            "`source = \"client\"` of a pool keeps the client's, in TCP mode",
        ),
    ),
    (
        "use-server",
        Changes("a request cannot be sent to one server by a condition", "make it a pool of its own, with a [[route]]"),
    ),
    ("use-fcgi-app", Changes("FastCGI is not spoken", "put the application behind a web server that speaks it")),
    ("dispatch", Changes("there is one way to name endpoints", "write the address in endpoints of a pool")),
    ("tcp-request inspect-delay", Lossless("a ClientHello is waited for where routes need it")),
    ("tcp-request content capture", Lossless("the server name is in the log of sessions")),
    ("tcp-request session attach-", Changes("sessions have no rules", "limits of the listener bound each client")),
    ("tcp-response inspect-delay", Lossless("it tunes HAProxy's own machinery")),
    ("http-response redirect", Changes("responses of endpoints are not replaced", "have the application send it")),
    ("http-response track-", Changes("general counters are not available", "limits bound the requests of a key")),
    ("tcp-check comment", Lossless("it is a comment")),
    (
        "http-check disable-on-404",
        Changes(
            "a 404 of a check fails it, and does not drain",
            "have the application answer 503, or use `evenkeel drain`",
        ),
    ),
    ("http-check connect", Changes("a check has one connection and one request", "health.port sets another port")),
    ("http-check send-state", Lossless("endpoints do not need to know what HAProxy thinks of them")),
    ("http-check comment", Lossless("it is a comment")),
    ("timeout client-fin", Lossless("`timeouts.half_closed` is 30 s")),
    ("timeout server-fin", Lossless("`timeouts.half_closed` is 30 s")),
    ("timeout tarpit", Lossless("nothing is held up on purpose")),
    (
        "reqrep",
        Changes(
            "it is a rule of HAProxy before 2.1, by regular expressions over lines",
            "strip_prefix and rewrite of a [[route]] change paths",
        ),
    ),
    (
        "reqirep",
        Changes(
            "it is a rule of HAProxy before 2.1, by regular expressions over lines",
            "strip_prefix and rewrite of a [[route]] change paths",
        ),
    ),
    (
        "rsprep",
        Changes(
            "it is a rule of HAProxy before 2.1, by regular expressions over lines",
            "response_headers of a [[route]] changes fields",
        ),
    ),
    (
        "rspirep",
        Changes(
            "it is a rule of HAProxy before 2.1, by regular expressions over lines",
            "response_headers of a [[route]] changes fields",
        ),
    ),
    ("force-persist", Changes("sticky clients stay only while their endpoint is usable", "nothing")),
    ("declare capture", Changes("fields are logged by the access log", "name them in telemetry.access_log.fields")),
    ("email-alert", Changes("no mail is sent", "`evenkeel events --follow` and metrics feed an alert")),
];

/// Sections that are not translated at all.
const SECTIONS: &[(&str, Fate)] = &[
    (
        "peers",
        Changes(
            "counters and sessions are not shared with other instances",
            "signed cookies of `sticky` work on every instance",
        ),
    ),
    ("mailers", Changes("no mail is sent", "`evenkeel events --follow` and metrics feed an alert")),
    ("program", Changes("no other programs are started", "give the program a service unit of its own")),
    ("ring", Changes("logs are not kept in rings", "telemetry.access_log writes to a file, syslog or journald")),
    ("fcgi-app", Changes("FastCGI is not spoken", "put the application behind a web server that speaks it")),
    ("log-forward", Changes("logs of others are not forwarded", "use a collector of logs")),
    ("log-profile", Changes("the log has one format", "telemetry.access_log.format sets it")),
    (
        "crt-store",
        Changes("certificates are named where they are used", "write them in tls.certificates of the listener"),
    ),
    ("traces", Lossless("`evenkeel explain` and `evenkeel tap` show what happens to requests")),
    (
        "acme",
        Changes(
            "certificates are issued by `[acme]` of evenkeel",
            "write tls = { certificates = [{ acme = [\"NAME\"] }] }",
        ),
    ),
];

/// Looks up a directive by its first words, the most of them first; a row that ends in `-` or `.` is a beginning. Actions of
/// other kinds of rules without a row are read as actions of `http-request`.
pub(super) fn fate(section: &str, words: &[String]) -> Option<Fate> {
    let rows = if section == "global" { GLOBAL } else { PROXY };
    let text = |words: &[&str]| words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
    let find = |text: &str| {
        let fits = |row: &str| {
            let open = row.ends_with(['-', '.']);
            text.strip_prefix(row).is_some_and(|rest| open || rest.is_empty() || rest.starts_with([' ', '(']))
        };
        rows.iter().filter(|(row, _)| fits(row)).max_by_key(|(row, _)| row.len()).map(|(_, fate)| *fate)
    };
    let words: Vec<&str> = words.iter().take(4).map(String::as_str).collect();
    find(&text(&words)).or_else(|| match words.as_slice() {
        ["tcp-request", "connection" | "session" | "content", action, ..]
        | ["tcp-response", "content", action, ..]
        | ["http-response" | "http-after-response", action, ..] => find(&text(&["http-request", action])),
        _ => None,
    })
}

/// Treatment of a section that has no counterpart.
pub(super) fn of_section(kind: &str) -> Option<Fate> {
    SECTIONS.iter().find(|(name, _)| *name == kind).map(|(_, fate)| *fate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_one_row() {
        for rows in [GLOBAL, PROXY, SECTIONS] {
            for (at, (row, _)) in rows.iter().enumerate() {
                assert!(rows[at + 1..].iter().all(|(other, _)| other != row), "{row}");
            }
        }
    }
}
