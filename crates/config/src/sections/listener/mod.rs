//! `[listener.NAME]`: addresses that accept clients, and the rules for those clients. See [`Listener`];
//! larger subtables have separate files.

// Order: bound, errors, http2, http3, kernel_flows, plane, redirect_https, report_load, request_id, tls, udp, underscores, zone, mode
mod bound;
mod errors;
mod http2;
mod http3;
mod kernel_flows;
mod mode;
mod plane;
mod redirect_https;
mod report_load;
mod request_id;
mod tls;
mod udp;
mod underscores;
mod zone;

pub use bound::takes;
pub use errors::Errors;
pub use http2::Http2;
pub use http3::Http3;
pub use kernel_flows::KernelFlows;
pub use mode::Mode;
pub use plane::Plane;
pub use redirect_https::RedirectHttps;
pub use report_load::ReportLoad;
pub use request_id::RequestIdField;
pub use tls::{Certificate, ClientAuth, ClientAuthMode, ListenerTls, Protocol, UnknownName};
pub use udp::UdpFlows;
pub(crate) use underscores::UNDERSCORES;
pub use underscores::Underscores;
pub use zone::{ClientLocality, HttpsProtocol, HttpsRecord, NameServer, Record, RecordKind, Zone};

use super::admin::Admin;
use super::error_pages::{self, ERROR_PAGES, ErrorPage, INTERCEPT};
use super::matching::{IGNORE_CASE, PATHS, Paths};
use super::route::Route;
use super::timeouts::{LISTENER_TIMEOUTS, ListenerTimeouts};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Cidr, Form, Formed};
use crate::table::{Absent, Declared, Key, Kind, Lines, Named, Section, table};
use bound::{Bound, On};
use http2::{H2C, HTTP2};
use http3::HTTP3;
use kernel_flows::KERNEL_FLOWS;
use redirect_https::REDIRECT_HTTPS;
use report_load::REPORT_LOAD;
use request_id::REQUEST_ID;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use udp::UDP;
use zone::ZONE;

table! {
    pub(crate) static LISTENER = "[listener.NAME]",
        "Addresses that accept clients.";

    /// `[listener.NAME]`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Listener {
        /// Name of the listener, unique among listeners.
        name: Arc<str>, rows [], read |_| "".into(), write |_, _, _| ();
        /// Not empty. Ports are not 0, and no address is bound twice for a transport in a plan.
        bind: Vec<SocketAddr> = Key {
            name: "bind",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Required(r#"["127.0.0.1:8080"]"#),
            help: "Addresses and ports to listen on. `[::]` accepts IPv4 too.",
            why: "",
        };
        /// Protocol of the clients, which decides the keys that apply.
        mode: Mode = Key {
            name: "mode",
            kind: Kind::Choice(Mode::WORDS),
            absent: Absent::Default("\"http\""),
            help: "Protocol of the clients: `http` balances requests, `tcp` balances connections of any protocol, \
                `udp` balances flows of datagrams, and `dns` answers queries over UDP and TCP with addresses of \
                healthy endpoints.",
            why: "",
        };
        /// Mechanism that forwards. [`Plane::Proxy`] unless [`Mode::Tcp`] or [`Mode::Udp`].
        plane: Plane = Key {
            name: "plane",
            kind: Kind::Choice(Plane::WORDS),
            absent: Absent::Default("\"proxy\""),
            help: "Mechanism that forwards, with `mode = \"tcp\"` or `\"udp\"`. `proxy`: this process. `nftables`, \
                `ebpf` and `ipvs`: the kernel. It follows the pool's health, weights, drain and slow start, and the \
                addresses of `bind` need not be addresses of this machine. `evenkeel check --planes` lists the \
                settings that each plane supports.",
            why: "The proxy works everywhere, supports every setting, and sees the outcome of each request.",
        };
        /// Flows that the kernel forwards; only with a plane of the kernel.
        kernel: KernelFlows = Key {
            name: "kernel",
            kind: Kind::Table(&KERNEL_FLOWS),
            absent: Absent::Means("its defaults"),
            help: "Flows that the kernel forwards, with a `plane` other than `proxy`.",
            why: "",
        };
        /// Pool for everything that no route of this listener matches. `None` for DNS. The plan holds a route
        /// with the listener's name to this pool.
        pool: Option<Arc<str>> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Means("none; routes decide"),
            help: "Pool for everything that no other route of this listener matches. With `mode = \"http\"` it works \
                like a route that matches every request to this listener.",
            why: "",
        };
        /// TLS with clients; `None` = plaintext.
        tls: Option<ListenerTls> = Key {
            name: "tls",
            kind: Kind::Table(&tls::TLS),
            absent: Absent::Means("off"),
            help: "TLS with clients.",
            why: "",
        };
        /// Zone to answer for; `Some` if and only if [`Mode::Dns`].
        zone: Option<Zone> = Key {
            name: "zone",
            kind: Kind::Table(&ZONE),
            absent: Absent::Means("none"),
            help: "Names that the listener resolves, with `mode = \"dns\"`.",
            why: "",
        };
        /// Peers that must start each connection with a PROXY protocol header; all others must not. Empty =
        /// no peer.
        accept_proxy_protocol: Vec<Cidr> = Key {
            name: "accept_proxy_protocol",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks of load balancers in front that start each connection with a PROXY protocol header, \
                version 1 or 2. Connections from these networks must start with the header; from all other networks, a \
                header is an error.",
            why: "",
        };
        /// Peers whose `X-Forwarded-For` and related fields are trusted. Empty = no peer.
        trusted_proxies: Vec<Cidr> = Key {
            name: "trusted_proxies",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks of trusted proxies in front of this listener. Their `X-Forwarded-For`, `-Proto`, `-Host` \
                and `Forwarded` fields are trusted, and the client is the last address outside these networks. Fields \
                from all other peers are replaced.",
            why: "",
        };
        /// Limits of resources for clients.
        limits: ListenerLimits = Key {
            name: "limits",
            kind: Kind::Table(&LISTENER_LIMITS),
            absent: Absent::Means("its defaults"),
            help: "Limits for clients: connections, rates and the size of requests.",
            why: "",
        };
        /// Time limits for the client's side.
        timeouts: ListenerTimeouts = Key {
            name: "timeouts",
            kind: Kind::Table(&LISTENER_TIMEOUTS),
            absent: Absent::Means("from `[defaults.timeouts]`"),
            help: "Time limits for clients.",
            why: "",
        };
        /// Redirect of requests to HTTPS; `None` = off.
        redirect_https: Option<RedirectHttps> = Key {
            name: "redirect_https",
            kind: Kind::TableOrBool(&REDIRECT_HTTPS),
            absent: Absent::Means("off"),
            help: "Redirects every request to the same URL over HTTPS, with status 308. For the listener on port 80. \
                `true`: to port 443. A request that a trusted proxy received over HTTPS, as that proxy reports, is \
                routed instead.",
            why: "",
        };
        /// True if clients may use HTTP/2 without TLS.
        h2c: bool = H2C;
        /// Limits for clients that use HTTP/2.
        http2: Http2 = Key {
            name: "http2",
            kind: Kind::Table(&HTTP2),
            absent: Absent::Means("its defaults"),
            help: "HTTP/2 with clients, over TLS or with `h2c`.",
            why: "",
        };
        /// HTTP/3 with clients; `None` = off.
        http3: Option<Http3> = Key {
            name: "http3",
            kind: Kind::TableOrBool(&HTTP3),
            absent: Absent::Means("off"),
            help: "HTTP/3 with clients: QUIC at the same addresses, by UDP. Responses over TCP tell clients of it                 (`Alt-Svc`). Needs `tls`. `true`: with the defaults of the table.",
            why: "UDP is often closed in firewalls, so it is asked for.",
        };
        /// End of flows, with [`Mode::Udp`].
        udp: UdpFlows = Key {
            name: "udp",
            kind: Kind::Table(&UDP),
            absent: Absent::Means("its defaults"),
            help: "Lifetime of flows, with `mode = \"udp\"`.",
            why: "",
        };
        /// Header field that carries the request id to endpoints and clients; `None` = off.
        request_id: Option<RequestIdField> = Key {
            name: "request_id",
            kind: Kind::TableOrBool(&REQUEST_ID),
            absent: Absent::Means("off"),
            help: "Adds a field with the request's id, `X-Request-Id`, to forwarded requests and to their responses. \
                The access log and evenkeel's own responses show the same id. A value set by one of `trusted_proxies` \
                is kept (1 to 128 visible ASCII characters); any other value is replaced. `true`: with the defaults of \
                the table. Off: the client's field is forwarded unchanged.",
            why: "As in HAProxy and Caddy: applications that generate ids keep theirs.",
        };
        /// Effect on paths with several readings, for routes that do not set it.
        paths: Paths = PATHS;
        /// True if the paths of requests are matched without regard to case.
        ignore_case: bool = IGNORE_CASE;
        /// Effect on fields of requests with `_` in their names.
        underscores: Underscores = UNDERSCORES;
        /// True if forwarded requests carry a loop mark (RFC 8586) and returning requests are refused.
        detect_loops: bool = Key {
            name: "detect_loops",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Returns 508 if an endpoint sends a request back to a route that it has already passed. To detect \
                this, forwarded requests are marked with a `CDN-Loop` field (RFC 8586).",
            why: "A looping request circulates until connections run out. Set `false` if endpoints deliberately send a \
                client's request through this listener again, for example for another page.",
        };
        /// Detail in responses that evenkeel generates itself.
        errors: Errors = Key {
            name: "errors",
            kind: Kind::Choice(Errors::WORDS),
            absent: Absent::Default("\"terse\""),
            help: "Body of responses that evenkeel generates itself, such as a 503. `terse`: the status, its phrase, \
                and the request's id if there is an access log. `detailed`: also the reason, with names of pools and \
                addresses of endpoints; for development. The access log always has the reason (`reason`).",
            why: "Internal addresses and names help attackers, and clients have no use for them.",
        };
        /// Pages for evenkeel's own responses, for statuses without a page of the route.
        error_pages: Vec<ErrorPage> = ERROR_PAGES;
        /// Statuses of endpoints whose responses are replaced by a page.
        intercept: Vec<RangeInclusive<u16>> = INTERCEPT;
        /// Reports of the load to balancers in front; `None` = off.
        report_load: Option<ReportLoad> = Key {
            name: "report_load",
            kind: Kind::TableOrBool(&REPORT_LOAD),
            absent: Absent::Means("off"),
            help: "Reports the load to balancers in front. For an evenkeel that runs next to the application. `true`: \
                with the defaults of the table.",
            why: "",
        };
    }
}

/// Keys of a listener that apply to HTTP requests only, and so contradict `mode = "tcp"`.
pub(crate) const OF_REQUESTS: &[&str] = &[
    "trusted_proxies",
    "paths",
    "ignore_case",
    "underscores",
    "detect_loops",
    "errors",
    "error_pages",
    "intercept",
    "request_id",
    "report_load",
    "redirect_https",
    "h2c",
    "http2",
    "http3",
];

/// Keys of `limits` that apply to HTTP requests only.
pub(crate) const LIMITS_OF_REQUESTS: &[&str] =
    &["requests_per_address", "burst_per_address", "headers", "header_count", "requests_per_connection"];

table! {
    static LISTENER_LIMITS = "limits of [listener.NAME]",
        "Limits for clients: connections, rates and the size of requests.";

    /// `limits` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ListenerLimits {
        /// Most open client connections (flows with [`Mode::Udp`]), over all workers.
        connections: usize = Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 10_000_000 },
            absent: Absent::Default("50_000"),
            help: "Maximum open client connections, over all workers. With `mode = \"udp\"`: maximum flows; at the \
                limit, the flow that has been idle longest ends.",
            why: "Each connection may need a second descriptor upstream: together 100,000 of the 1,048,576 that the \
                service unit allows.",
        };
        /// Most open connections of a client address (IPv6: a /64), over all workers; 0 = no limit.
        connections_per_address: usize = Key {
            name: "connections_per_address",
            kind: Kind::Int { min: 0, max: 10_000_000 },
            absent: Absent::Default("0"),
            help: "Maximum open connections, or flows, of one client address (IPv6: one /64), over all workers; 0 = no \
                limit. Does not apply to proxies in front.",
            why: "A whole company or a proxy may share one address: the right number depends on your clients.",
        };
        /// Requests per second of a client address, over all workers; 0 = no limit.
        requests_per_address: f64 = Key {
            name: "requests_per_address",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            absent: Absent::Default("0"),
            help: "Maximum requests per second of one client address (IPv6: one /64), over all workers. Requests over \
                the limit get a 429. With `mode = \"udp\"`: new flows per second; flows over the limit are dropped. 0 \
                = no limit. Does not apply to proxies in front.",
            why: "Same as for `connections_per_address`.",
        };
        /// Bucket size of the rate limit: requests of an address that may arrive at once. At least 1 if
        /// there is a rate.
        burst_per_address: u32 = Key {
            name: "burst_per_address",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Means("one second of `requests_per_address`"),
            help: "Requests of one address that may arrive at once before its rate limit applies.",
            why: "",
        }, read burst, write write_burst;
        /// Largest request head (request line and header fields), bytes: 1 KiB to 128 KiB.
        headers: usize = Key {
            name: "headers",
            kind: Kind::Size { min: 1 << 10, max: 128 << 10, off: false },
            absent: Absent::Default("\"32KiB\""),
            help: "Largest head of a request: the request line and all header fields.",
            why: "Same as in NGINX, and the size of a read buffer here. Many applications accept less; Node.js accepts \
                16 KiB.",
        };
        /// Most header fields of a request.
        header_count: usize = Key {
            name: "header_count",
            kind: Kind::Int { min: 1, max: 256 },
            absent: Absent::Default("100"),
            help: "Maximum header fields of a request.",
            why: "Browsers send 15 to 20, and a chain of proxies adds some.",
        };
        /// Requests on a client connection before it is closed; 0 = no limit.
        requests_per_connection: u64 = Key {
            name: "requests_per_connection",
            kind: Kind::Int { min: 0, max: 1_000_000_000 },
            absent: Absent::Default("0"),
            help: "Maximum requests on one connection before it is closed; 0 = no limit.",
            why: "Closing costs the client a new handshake, and `client_idle` ends unused connections anyway.",
        };
    }
}

impl Listener {
    /// True if requests of the listener can take the route, or its sessions.
    pub(crate) fn serves(&self, route: &Route) -> bool {
        route.listeners.contains(&self.name) || route.listeners.is_empty() && self.mode == Mode::Http
    }
}

fn burst(limits: &Section) -> u32 {
    match limits.set("burst_per_address") {
        Some(_) => limits.number("burst_per_address"),
        None => usual_burst(limits.float("requests_per_address")),
    }
}

/// Default burst: a second of the rate.
fn usual_burst(rate: f64) -> u32 {
    // The key allows at most 1e6, so the cast cannot saturate.
    rate.ceil() as u32
}

fn write_burst(set: &ListenerLimits, _: &ListenerLimits, lines: &mut Lines) {
    if set.burst_per_address != usual_burst(set.requests_per_address) {
        lines.add("burst_per_address", set.burst_per_address.to_string());
    }
}

impl Listener {
    /// A listener with this name and address and defaults for everything else.
    pub fn new(name: &str, bind: SocketAddr) -> Listener {
        Listener { name: name.into(), bind: vec![bind], ..Listener::default() }
    }
}

/// Reads all listeners and reports the faults of each.
pub(crate) fn listeners(
    root: &Section,
    defaults: &Section,
    admin: Option<&Admin>,
    findings: &mut Findings,
) -> Vec<Arc<Listener>> {
    let named = root.named("listener");
    if named.is_empty() && !root.has("provider") && root.set("listener").is_none_or(|l| !l.is_broken()) {
        findings
            .add(Code::NothingToDo, root.span, "there is no listener: no request could come in")
            .help("add [listener.web] with bind = [\"127.0.0.1:8080\"]");
    }
    let mut bound = Bound::default();
    if let Some(bind) = admin.and_then(|admin| Some(admin.http.as_ref()?.bind)) {
        let on = On { tcp: true, udp: false, probes: false, by_kernel: false };
        bound.add(bind, on, root.section("admin").section("http").span_of("bind"), findings);
    }
    let one = |named: &Named| {
        let listener = one(named, defaults);
        let (tcp, udp) = (listener.mode.is_on_tcp(), listener.mode.is_on_udp() || listener.http3.is_some());
        let probes = listener.report_load.as_ref().is_some_and(|report| report.udp);
        let on = On { tcp, udp, probes, by_kernel: listener.plane.is_kernel() };
        for (formed, span) in named.section.formed_list("bind") {
            let Formed::Bind(addr) = formed else { continue };
            bound.add(addr, on, span, findings);
        }
        check(&named.section, listener.mode, findings);
        Arc::new(listener)
    };
    named.iter().map(one).collect()
}

fn one(Named { name, section, .. }: &Named, defaults: &Section) -> Listener {
    let timeouts = section.section("timeouts").over(&defaults.section("timeouts"));
    let listener = Listener::of(&section.over(defaults).with("timeouts", timeouts));
    // Only requests have paths.
    let is_http = listener.mode == Mode::Http;
    let paths = if is_http { listener.paths } else { Paths::default() };
    let ignore_case = is_http && listener.ignore_case;
    let underscores = if is_http { listener.underscores } else { Underscores::default() };
    Listener { name: name.as_str().into(), paths, ignore_case, underscores, ..listener }
}

fn check(section: &Section, mode: Mode, findings: &mut Findings) {
    zone::check(section, mode, findings);
    check_networks(section, "accept_proxy_protocol", findings);
    check_networks(section, "trusted_proxies", findings);
    udp::check(section, mode, findings);
    http3::check(section, mode, findings);
    tls::check(section, mode, findings);
    error_pages::check_listener(section, findings);
    request_id::check(section, findings);
}

/// Reports a trusted network that contains every address.
fn check_networks(section: &Section, key: &str, findings: &mut Findings) {
    for (formed, span) in section.formed_list(key) {
        let Formed::Network(cidr) = formed else { continue };
        if cidr.prefix() > 0 {
            continue;
        }
        findings
            .add(Code::TrustsAll, span, format!("\"{key}\" has every address: any client can say that it is another"))
            .help(format!("name the networks of your proxies instead of \"{cidr}\""));
    }
}
