//! Where do requests come in? [`Listener`], `[listener.NAME]`; tables below it have files of their own.

mod bound;
mod errors;
mod http2;
mod mode;
mod report_load;
mod request_id;
mod tls;
mod udp;
mod zone;

pub use errors::Errors;
pub use http2::Http2;
pub use mode::Mode;
pub use report_load::ReportLoad;
pub use request_id::RequestIdField;
pub use tls::{Certificate, ClientAuth, ClientAuthMode, ListenerTls, Protocol, UnknownName};
pub use udp::UdpFlows;
pub use zone::{ClientLocality, NameServer, Record, RecordKind, Zone};

use super::admin::Admin;
use super::error_pages::{self, ERROR_PAGES, ErrorPage};
use super::timeouts::{LISTENER_TIMEOUTS, ListenerTimeouts};
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::{Cidr, Form, Formed};
use crate::table::{Absent, Declared, Key, Kind, Lines, Named, Section, table};
use bound::{Bound, On};
use http2::{H2C, HTTP2};
use report_load::REPORT_LOAD;
use request_id::REQUEST_ID;
use std::net::SocketAddr;
use std::sync::Arc;
use udp::UDP;
use zone::ZONE;

table! {
    pub(crate) static LISTENER = "[listener.NAME]",
        "Addresses on which clients are served.";

    /// `[listener.NAME]`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Listener {
        /// Unique among listeners.
        name: Arc<str>, rows [], read |_| "".into(), write |_, _, _| ();
        /// At least one; no address is bound twice in a plan for the same transport. No port is 0.
        bind: Vec<SocketAddr> = Key {
            name: "bind",
            kind: Kind::List(&Kind::Text(Form::Bind)),
            absent: Absent::Required(r#"["127.0.0.1:8080"]"#),
            help: "The addresses. `[::]` takes IPv4 too.",
            why: "",
        };
        /// What is spoken here.
        mode: Mode = Key {
            name: "mode",
            kind: Kind::Choice(Mode::WORDS),
            absent: Absent::Default("\"http\""),
            help: "What is spoken here: HTTP, whose requests are balanced; anything over TCP, whose connections are balanced; \
                   anything over UDP, whose flows are; or DNS, over UDP and TCP, whose answers are.",
            why: "",
        };
        /// The pool for everything that no route of this listener takes, except for DNS: there is a route of the
        /// listener's name to it.
        pool: Option<Arc<str>> = Key {
            name: "pool",
            kind: Kind::Text(Form::Name),
            absent: Absent::Means("none: routes say where to"),
            help: "The pool for everything that no other route to this listener takes. With `mode = \"http\"` it is as a route \
                   that names the listener and matches nothing else.",
            why: "",
        };
        /// How TLS is spoken with clients; `None` = it is not.
        tls: Option<ListenerTls> = Key {
            name: "tls",
            kind: Kind::Table(&tls::TLS),
            absent: Absent::Means("off"),
            help: "TLS with clients.",
            why: "",
        };
        /// What is answered to resolvers; there if, and only if, DNS is spoken.
        zone: Option<Zone> = Key {
            name: "zone",
            kind: Kind::Table(&ZONE),
            absent: Absent::Means("none"),
            help: "The names to answer for, with `mode = \"dns\"`.",
            why: "",
        };
        /// Peers that must start each connection with a PROXY protocol header; all others must not. Empty = none.
        accept_proxy_protocol: Vec<Cidr> = Key {
            name: "accept_proxy_protocol",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks of load balancers in front that begin each connection with a PROXY protocol header, version 1 \
                   or 2. From these networks it is required, from all others it is an error.",
            why: "",
        };
        /// Peers whose `X-Forwarded-For` and its like are believed. Empty = none.
        trusted_proxies: Vec<Cidr> = Key {
            name: "trusted_proxies",
            kind: Kind::List(&Kind::Text(Form::Network)),
            absent: Absent::Means("none"),
            help: "Networks of proxies in front whose `X-Forwarded-For`, `-Proto`, `-Host` and `Forwarded` are believed: the \
                   client is the last address that is in none of these networks. From all others they are replaced.",
            why: "",
        };
        /// What a client may use up.
        limits: ListenerLimits = Key {
            name: "limits",
            kind: Kind::Table(&LISTENER_LIMITS),
            absent: Absent::Means("its defaults"),
            help: "What clients may use up.",
            why: "",
        };
        /// How long a client may take.
        timeouts: ListenerTimeouts = Key {
            name: "timeouts",
            kind: Kind::Table(&LISTENER_TIMEOUTS),
            absent: Absent::Means("those of `[defaults.timeouts]`"),
            help: "How long clients may take.",
            why: "",
        };
        /// Whether requests without TLS are sent to where it is spoken.
        redirect_https: bool = Key {
            name: "redirect_https",
            kind: Kind::Bool,
            absent: Absent::Default("false"),
            help: "Answers every request 308: the same place over TLS, at port 443. For the listener at port 80.",
            why: "",
        };
        /// Whether clients may speak HTTP/2 without TLS.
        h2c: bool = H2C;
        /// What clients of HTTP/2 may use up.
        http2: Http2 = Key {
            name: "http2",
            kind: Kind::Table(&HTTP2),
            absent: Absent::Means("its defaults"),
            help: "HTTP/2 with clients, where it is spoken.",
            why: "",
        };
        /// When flows end, with [`Mode::Udp`].
        udp: UdpFlows = Key {
            name: "udp",
            kind: Kind::Table(&UDP),
            absent: Absent::Means("its defaults"),
            help: "When flows end, with `mode = \"udp\"`.",
            why: "",
        };
        /// By which field endpoints and clients learn the id of a request; `None` = they do not.
        request_id: Option<RequestIdField> = Key {
            name: "request_id",
            kind: Kind::TableOrBool(&REQUEST_ID),
            absent: Absent::Means("off"),
            help: "Gives each request that goes on a field with its id, `X-Request-Id`, and the response to it too: the id that \
                   the access log and answers of evenkeel have. A field that one of `trusted_proxies` has set is taken over \
                   (1 to 128 visible ASCII characters), any other is replaced. Off: the client's field goes on as it is. \
                   `true`: with its defaults.",
            why: "As with HAProxy and Caddy: applications that make ids of their own keep them.",
        };
        /// Whether requests that go on are marked, and refused when they come back.
        detect_loops: bool = Key {
            name: "detect_loops",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Answers 508 to a request that comes in here by a route by which it has come before, as an endpoint leads \
                   back. Requests that go on are marked with a field `CDN-Loop` (RFC 8586) for that.",
            why: "Such a request goes round until connections run out. `false` is for endpoints that send the request of a \
                  client on to this listener again, for another page.",
        };
        /// What clients read in the answers that evenkeel makes itself.
        errors: Errors = Key {
            name: "errors",
            kind: Kind::Choice(Errors::WORDS),
            absent: Absent::Default("\"terse\""),
            help: "What clients read in the answers that evenkeel makes itself, as a 503. `terse`: the status, its phrase, and \
                   the id of the request, if there is an access log. `detailed`: why, with names of pools and addresses of \
                   endpoints, for development. The access log has the reason (`reason`) either way.",
            why: "Addresses and names of the inside are no business of clients, and help attackers.",
        };
        /// What clients see in the place of a line of text, where no page of the route is for the status.
        error_pages: Vec<ErrorPage> = ERROR_PAGES;
        /// How balancers in front learn its load; `None` = they do not.
        report_load: Option<ReportLoad> = Key {
            name: "report_load",
            kind: Kind::TableOrBool(&REPORT_LOAD),
            absent: Absent::Means("off"),
            help: "Reports the load to balancers in front: for an evenkeel that runs beside the application. \
                   `true`: with its defaults.",
            why: "",
        };
    }
}

/// Keys of a listener that only speak of requests: they contradict `mode = "tcp"`.
pub(crate) const OF_REQUESTS: &[&str] = &[
    "trusted_proxies",
    "detect_loops",
    "errors",
    "error_pages",
    "request_id",
    "report_load",
    "redirect_https",
    "h2c",
    "http2",
];

/// Keys of a listener's limits that only speak of requests.
pub(crate) const LIMITS_OF_REQUESTS: &[&str] =
    &["requests_per_address", "burst_per_address", "headers", "header_count", "requests_per_connection"];

table! {
    static LISTENER_LIMITS = "limits of [listener.NAME]",
        "What clients may use up.";

    /// `limits` of a listener.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ListenerLimits {
        /// Open client connections, all workers together.
        connections: usize = Key {
            name: "connections",
            kind: Kind::Int { min: 1, max: 10_000_000 },
            absent: Absent::Default("50_000"),
            help: "Open connections of clients, all workers together. With `mode = \"udp\"` flows, of which the one that is \
                   idle longest ends when there are so many.",
            why: "Each may need a second descriptor upstream: 100 000 of the 1 048 576 that the service unit allows.",
        };
        /// Open connections of one client address, all workers together; 0 = no limit.
        connections_per_address: usize = Key {
            name: "connections_per_address",
            kind: Kind::Int { min: 0, max: 10_000_000 },
            absent: Absent::Default("0"),
            help: "Open connections, or flows, of one client address (of IPv6 one /64), all workers together; 0 = no \
                   limit. Proxies in front have none.",
            why: "A whole company, or a proxy, may be behind one address: the right number depends on the clients.",
        };
        /// Requests a second of one client address, all workers together; 0 = no limit.
        requests_per_address: f64 = Key {
            name: "requests_per_address",
            kind: Kind::Number { min: 0.0, max: 1e6 },
            absent: Absent::Default("0"),
            help: "Requests a second of one client address (of IPv6 one /64), all workers together; the rest get a 429. \
                   With `mode = \"udp\"` new flows, the rest of which are dropped. 0 = no limit. Proxies in front have none.",
            why: "As for `connections_per_address`.",
        };
        /// Requests of one address that may come at once: the size of its bucket. At least 1 if there is a rate.
        burst_per_address: u32 = Key {
            name: "burst_per_address",
            kind: Kind::Int { min: 1, max: 1_000_000 },
            absent: Absent::Means("what `requests_per_address` allows in a second"),
            help: "Requests of one address that may come at once before its rate limits them.",
            why: "",
        }, read burst, write write_burst;
        /// Bytes of a request's head (request line and header fields): 1 KiB to 32 KiB.
        headers: usize = Key {
            name: "headers",
            kind: Kind::Size { min: 1 << 10, max: 32 << 10 },
            absent: Absent::Default("\"16KiB\""),
            help: "Bytes of the head of a request: its first line and its header fields.",
            why: "What Node.js takes and a buffer of HAProxy holds; half of what one read buffer holds here.",
        };
        /// Header fields of a request.
        header_count: usize = Key {
            name: "header_count",
            kind: Kind::Int { min: 1, max: 256 },
            absent: Absent::Default("100"),
            help: "Header fields of a request.",
            why: "Browsers send 15 to 20, and a chain of proxies adds some.",
        };
        /// Requests on one client connection before it is closed; 0 = no limit.
        requests_per_connection: u64 = Key {
            name: "requests_per_connection",
            kind: Kind::Int { min: 0, max: 1_000_000_000 },
            absent: Absent::Default("0"),
            help: "Requests on one connection before it is closed; 0 = no limit.",
            why: "Closing costs clients a new handshake, and connections leave by `client_idle` anyway.",
        };
    }
}

fn burst(limits: &Section) -> u32 {
    match limits.set("burst_per_address") {
        Some(_) => limits.number("burst_per_address"),
        None => usual_burst(limits.float("requests_per_address")),
    }
}

/// The burst of listeners that set none: what the rate allows in a second.
fn usual_burst(rate: f64) -> u32 {
    // A cast of what is below 2^32, which the row of the rate is far from.
    rate.ceil() as u32
}

fn write_burst(set: &ListenerLimits, _: &ListenerLimits, lines: &mut Lines) {
    if set.burst_per_address != usual_burst(set.requests_per_address) {
        lines.add("burst_per_address", set.burst_per_address.to_string());
    }
}

impl Listener {
    /// A listener of this name at an address, otherwise as a table that sets nothing.
    pub fn new(name: &str, bind: SocketAddr) -> Listener {
        Listener { name: name.into(), bind: vec![bind], ..Listener::default() }
    }
}

/// The listeners of a file, and what is wrong with each.
pub(crate) fn listeners(
    root: &Section,
    defaults: &Section,
    admin: Option<&Admin>,
    findings: &mut Findings,
) -> Vec<Arc<Listener>> {
    let named = root.named("listener");
    if named.is_empty() && root.set("listener").is_none_or(|l| !l.is_broken()) {
        findings
            .add(Code::NothingToDo, root.span, "there is no listener: no request could come in")
            .help("add [listener.web] with bind = [\"127.0.0.1:8080\"]");
    }
    let mut bound = Bound::default();
    if let Some(bind) = admin.and_then(|admin| Some(admin.http.as_ref()?.bind)) {
        let on = On { tcp: true, udp: false, probes: false };
        bound.add(bind, on, root.section("admin").section("http").span_of("bind"), findings);
    }
    let one = |named: &Named| {
        let listener = one(named, defaults);
        let (tcp, udp) = (listener.mode.is_on_tcp(), listener.mode.is_on_udp());
        let on = On { tcp, udp, probes: listener.report_load.as_ref().is_some_and(|report| report.udp) };
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
    Listener { name: name.as_str().into(), ..Listener::of(&section.clone().with("timeouts", timeouts)) }
}

fn check(section: &Section, mode: Mode, findings: &mut Findings) {
    zone::check(section, mode, findings);
    check_networks(section, "accept_proxy_protocol", findings);
    check_networks(section, "trusted_proxies", findings);
    udp::check(section, mode, findings);
    tls::check(section, mode, findings);
    error_pages::check(section, findings);
    request_id::check(section, findings);
}

/// Reports networks that every client is in, and that would be believed.
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
