//! Rows for defaults, frontends, backends and listen sections, and for sections that are not translated.

use super::fate::Fate::{self, Changes, Lossless};
use super::fate::{BUFFERS, DASHBOARD, MACHINERY, WORKERS};

const ALWAYS: &str = "always so";
const ORDER: &str = "the order of filters is fixed";

const CHECKED: (&str, &str) = ("checks have no variables", "write the text itself in health of the pool");

/// Rows for defaults, frontends, backends and listen sections.
pub(super) const PROXY: &[(&str, Fate)] = &[
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
    ("option tcp-smart-accept", Lossless(MACHINERY)),
    ("option tcp-smart-connect", Lossless(MACHINERY)),
    ("option splice-", Lossless("TCP sessions are spliced where that pays")),
    ("option contstats", Lossless("counters grow while a session lasts")),
    ("option clitcpka", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option srvtcpka", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option tcpka", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option nolinger", Lossless("closed connections linger only for what is still to be sent")),
    ("clitcpka-", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("srvtcpka-", Lossless("`tcp.keepalive` of a pool is 30s for both sides")),
    ("option use-small-buffers", Lossless(BUFFERS)),
    ("option http-drop-", Changes("trailers pass through as they come", "nothing, unless a side depends on it")),
    (
        "quic-initial",
        Changes("connections over QUIC have no rules", "remove http3 from the listener, or refuse clients by access"),
    ),
    ("server-state-file-name", Lossless("`runtime.state` keeps operators' orders across restarts")),
    ("dynamic-cookie-key", Lossless("signed cookies of `sticky` name the endpoint")),
    (
        "appsession",
        Changes("cookies of applications are not learnt", "sticky = { cookie = \"NAME\" } sets a cookie of its own"),
    ),
    (
        "ignore-persist",
        Changes("sticky clients stay whatever they request", "a [[route]] to another pool for such requests"),
    ),
    ("force-be-switch", Changes("pools cannot be disabled", "nothing")),
    (
        "monitor fail",
        Changes(
            "the page of `monitor-uri` has a 200 whatever the condition",
            "have the balancer in front ask the application",
        ),
    ),
    ("transparent", Changes("there is one way to name endpoints", "write the address in endpoints of a pool")),
    (
        "reqsetbe",
        Changes(
            "it is a rule of HAProxy before 2.1, by regular expressions over lines",
            "a [[route]] with another match chooses the pool",
        ),
    ),
    (
        "reqisetbe",
        Changes(
            "it is a rule of HAProxy before 2.1, by regular expressions over lines",
            "a [[route]] with another match chooses the pool",
        ),
    ),
    (
        "unique-id-header",
        Changes("ids of requests are not in a field of this name", "request_id = { field = \"NAME\" } in the listener"),
    ),
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
    ("option independent-streams", Lossless(MACHINERY)),
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
    ("http-request set-nice", Lossless(MACHINERY)),
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
    ("max-keep-alive-queue", Lossless(MACHINERY)),
    ("max-session-srv-conns", Lossless(MACHINERY)),
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
    ("tcp-response inspect-delay", Lossless(MACHINERY)),
    ("http-response redirect", Changes("responses of endpoints are not replaced", "have the application send it")),
    ("http-response track-", Changes("general counters are not available", "limits bound the requests of a key")),
    ("http-check set-var", Changes(CHECKED.0, CHECKED.1)),
    ("http-check unset-var", Changes(CHECKED.0, CHECKED.1)),
    ("tcp-check set-var", Changes(CHECKED.0, CHECKED.1)),
    ("tcp-check unset-var", Changes(CHECKED.0, CHECKED.1)),
    ("tcp-check send-lf", Changes(CHECKED.0, CHECKED.1)),
    ("tcp-check send-binary-lf", Changes(CHECKED.0, CHECKED.1)),
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
pub(super) const SECTIONS: &[(&str, Fate)] = &[
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
