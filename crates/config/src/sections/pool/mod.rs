//! `[pool.NAME]`: a group of endpoints, and everything about choosing among them. See [`Pool`]; subtables
//! have separate files.

// Order: discover, health, dialogue, http2, limits, load_reports, locality, endpoint, outlier, panic, queue, shadow,
// slow_start, sticky, subset, tls, tolerate
mod dialogue;
pub(crate) mod discover;
mod endpoint;
mod health;
mod http2;
mod limits;
mod load_reports;
mod locality;
mod outlier;
mod panic;
mod queue;
mod shadow;
mod slow_start;
mod sticky;
mod subset;
mod tls;
mod tolerate;

pub use endpoint::{Endpoint, Own, Resolve};
pub use health::{Check, HealthCheck};
pub use http2::{EndpointHttp2, EndpointProtocol};
pub use limits::{CONCURRENCY, PoolLimits};
pub use load_reports::{LoadReports, Probe};
pub use outlier::OUTLIER;
pub use panic::PANIC;
pub use queue::QUEUE;
pub use slow_start::SLOW_START;
pub use sticky::{Secret, Sticky};
pub use subset::Subset;
pub use tls::PoolTls;

pub(crate) use endpoint::{ENDPOINT_LIST, check as check_endpoints, endpoints, written as written_endpoints};
pub(crate) use limits::check as check_concurrency;
pub(crate) use load_reports::LOAD_PATH;
pub(crate) use outlier::{check as check_outlier, outlier};

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::sections::action::ACTIONS;
use crate::sections::discovery::Discovery;
use crate::sections::filters::headers::{
    self, POOL_REQUEST_HEADERS, POOL_RESPONSE_HEADERS, RequestHeaders, ResponseHeaders,
};
use crate::sections::resolver::Resolver;
use crate::sections::retry::{self, POOL_RETRY, Retry};
use crate::sections::timeouts::{POOL_TIMEOUTS, PoolTimeouts, check_order};
use crate::table::{Absent, Balance, Declared, Field, H, Key, Kind, Lines, Located, Named, S, Section, table, words};
use discover::{DISCOVER, Discover};
use endpoint::ENTRY;
use evenkeel_balance as balance;
use evenkeel_balance::algorithms;
use evenkeel_balance::eligible::{Locality, Panic};
use evenkeel_balance::explore;
use evenkeel_wire::http1::tolerance::Tolerated;
use evenkeel_wire::proxy_protocol::ProxyVersion;
use health::HEALTH;
use http2::ENDPOINT_HTTP2;
use limits::POOL_LIMITS;
use load_reports::LOAD_REPORTS;
use locality::{LOCALITY, OwnZone};
use std::sync::Arc;
use std::time::Duration;
use sticky::STICKY;
use subset::SUBSET;

table! {
    pub(crate) static POOL = "[pool.NAME]",
        "Group of equivalent endpoints, and the balancing of requests between them.";

    /// `[pool.NAME]`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Pool {
        /// Name of the pool, unique among pools.
        name: Arc<str>, rows [], read |_| "".into(), write |_, _, _| ();
        /// Balancing algorithm with its parameters.
        balance: Balance = Key {
            name: "balance",
            kind: Kind::Balance,
            absent: Absent::Means("the first algorithm of the algorithms page"),
            help: "Balancing algorithm: `\"NAME\"` or `{ NAME = { PARAMETER = VALUE } }`. `evenkeel algorithms` lists them.",
            why: "",
        }, write write_balance;
        /// Algorithms to compare with; they route nothing.
        shadow: Vec<Balance> = Key {
            name: "shadow",
            kind: Kind::List(&Kind::Balance),
            absent: Absent::Means("none"),
            help: "Algorithms to compare with `balance`. Workers record recent requests, and `evenkeel shadow` \
                predicts how each algorithm would have handled them. Shadows do not route requests. At most four, each \
                written like `balance`.",
            why: "",
        };
        /// Share of requests whose endpoint is drawn uniformly instead of picked; 0 = off.
        explore: f64 = Key {
            name: "explore",
            kind: Kind::Number { min: 0.0, max: explore::SHARE_MAX },
            absent: Absent::Default("0"),
            help: "Share of requests whose endpoint is drawn at random instead of picked: each endpoint that may get \
                the request has the same chance, whatever its weight. The access log has the `probability` of these \
                draws, from which other algorithms can be judged without a model. Requests of sessions (`sticky`) and \
                tries after the first are not explored; requests with a hash key are, so that this share of them misses \
                the endpoint of their key.",
            why: "Exploration costs latency where endpoints differ, so it is off. 0.02 gives 2,000 draws per 100,000 \
                requests.",
        };
        /// Endpoints in the order of the file, without duplicate names or addresses. Not empty, unless
        /// `discover` or `empty_status` is set.
        endpoints: Vec<Endpoint> = Key {
            name: "endpoints",
            kind: Kind::List(&ENTRY),
            absent: Absent::Means("none, but then `discover` or `empty_status` is required"),
            help: "The endpoints. A plain string is short for a table with that `addr`.",
            why: "",
        }, read endpoint::endpoints, write write_endpoints;
        /// Source of further endpoints; `None` = only `endpoints`.
        discover: Option<Discover> = Key {
            name: "discover",
            kind: Kind::Table(&DISCOVER),
            absent: Absent::Means("only `endpoints`"),
            help: "Finds more endpoints while evenkeel runs.",
            why: "",
        };
        /// True if endpoints must not be on this machine or its links.
        refuse_local: bool = Key {
            name: "refuse_local",
            kind: Kind::Bool,
            absent: Absent::Means("`true` for endpoints from Kubernetes, else `false`"),
            help: "Ignores endpoints at addresses of this machine and its links (loopback, link-local), and at \
                addresses that evenkeel itself listens on, even if a name resolves to them. For lists and names that \
                others may change. `local_networks` of `[discovery]` lists exceptions.",
            why: "An agent of Consul or Docker lists endpoints of its own machine.",
        };
        /// Protocol of the endpoints.
        protocol: EndpointProtocol = Key {
            name: "protocol",
            kind: Kind::Choice(EndpointProtocol::WORDS),
            absent: Absent::Default("\"http1\""),
            help: "Protocol of the endpoints. `\"h2\"`: HTTP/2, also without TLS (prior knowledge), as gRPC needs; \
                requests share connections, whatever protocol their clients use. `\"auto\"`: over TLS, the protocol \
                that the endpoint selects; otherwise HTTP/1.1.",
            why: "Every server supports HTTP/1.1, and it costs least between machines of one site.",
        };
        /// Settings of HTTP/2 with endpoints.
        http2: EndpointHttp2 = Key {
            name: "http2",
            kind: Kind::Table(&ENDPOINT_HTTP2),
            absent: Absent::Means("its defaults"),
            help: "HTTP/2 with endpoints, if `protocol` allows it.",
            why: "",
        };
        limits: PoolLimits = Key {
            name: "limits",
            kind: Kind::Table(&POOL_LIMITS),
            absent: Absent::Means("its defaults"),
            help: "Limits of each endpoint.",
            why: "",
        };
        /// Time limits for endpoints. Requests use the limits of their [`crate::plan::Route::timeouts`], which
        /// start from these.
        timeouts: PoolTimeouts = Key {
            name: "timeouts",
            kind: Kind::Table(&POOL_TIMEOUTS),
            absent: Absent::Means("from `[defaults.timeouts]`"),
            help: "Time limits for endpoints.",
            why: "",
        };
        /// Active health checks; `None` = off.
        health: Option<HealthCheck> = Key {
            name: "health",
            kind: Kind::Table(&HEALTH),
            absent: Absent::Means("no checks"),
            help: "Active health checks of the endpoints.",
            why: "",
        };
        /// Ejection based on the results of requests; `None` = off.
        outlier: Option<balance::outlier::Settings> = Key {
            name: "outlier",
            kind: Kind::TableOrWord { table: &OUTLIER, word: "off" },
            absent: Absent::Means("its defaults"),
            help: "Ejects endpoints that fail requests.",
            why: "",
        }, read outlier::outlier;
        /// Ramp for endpoints that are new or healthy again; `None` = full share at once.
        slow_start: Option<balance::slow_start::Settings> = Key {
            name: "slow_start",
            kind: Kind::TableOr { table: &SLOW_START, key: "window" },
            absent: Absent::Means("off"),
            help: "Raises the share of an endpoint gradually when it is new or healthy again.",
            why: "",
        };
        /// Behaviour when few endpoints are healthy.
        panic: Panic = Key {
            name: "panic",
            kind: Kind::Table(&PANIC),
            absent: Absent::Means("its defaults"),
            help: "Behaviour when few endpoints are healthy.",
            why: "",
        };
        /// Preference for endpoints in the local zone; `None` = all zones are equal.
        locality: Option<Locality>,
            rows [
                Key {
                    name: "locality",
                    kind: Kind::Table(&LOCALITY),
                    absent: Absent::Means("all zones are equal"),
                    help: "Prefers endpoints in the local zone.",
                    why: "",
                },
            ],
            read locality,
            write write_locality;
        /// Name behind the hash in [`Locality::zone`]; `Some` if and only if `locality` is.
        zone: Option<Arc<str>>, rows [], read zone, write |_, _, _| ();
        /// Part of the endpoints to use; `None` = all.
        subset: Option<Subset> = Key {
            name: "subset",
            kind: Kind::Table(&SUBSET),
            absent: Absent::Means("all endpoints"),
            help: "Uses and checks only a part of the endpoints. For many instances in front of many endpoints.",
            why: "",
        };
        /// Queue for requests when every endpoint is at its limit.
        queue: balance::queue::Settings = Key {
            name: "queue",
            kind: Kind::Table(&QUEUE),
            absent: Absent::Means("its defaults"),
            help: "Queue for requests when every endpoint is at its limit.",
            why: "",
        };
        /// Status of the response to a request while the pool has no endpoint at all; `None` = 503, and the pool
        /// must have `endpoints` or `discover`.
        empty_status: Option<u16> = Key {
            name: "empty_status",
            kind: Kind::Int { min: 400, max: 599 },
            absent: Absent::Means("503, but then the pool needs `endpoints` or `discover`"),
            help: "Status of evenkeel's response while the pool has no endpoints at all. If the pool has endpoints but \
                none may get requests, the status is 503. With this key, a pool needs no endpoints.",
            why: "",
        };
        /// Changes to fields on their way to the pool's endpoints, after the changes of the route.
        request_headers: RequestHeaders = POOL_REQUEST_HEADERS;
        /// Changes to fields of responses of the pool's endpoints, before the changes of the route.
        response_headers: ResponseHeaders = POOL_RESPONSE_HEADERS;
        /// Retries and hedging. Requests use the settings of their [`crate::plan::Route::retry`], which start from
        /// these.
        retry: Retry = Key {
            name: "retry",
            kind: Kind::Table(&POOL_RETRY),
            absent: Absent::Means("from `[defaults.retry]`"),
            help: "Retries and hedging.",
            why: "",
        };
        /// Session affinity by cookie; `None` = off.
        sticky: Option<Sticky> = Key {
            name: "sticky",
            kind: Kind::Table(&STICKY),
            absent: Absent::Means("off"),
            help: "Session affinity: a cookie keeps a client at the same endpoint.",
            why: "",
        };
        /// Use of load reports from endpoints; `None` = reports are ignored.
        load_reports: Option<LoadReports> = Key {
            name: "load_reports",
            kind: Kind::TableOrBool(&LOAD_REPORTS),
            absent: Absent::Means("off"),
            help: "Uses load reports from endpoints. They include the requests of all balancers. `true`: with the \
                defaults of the table.",
            why: "",
        };
        /// Protocol faults in responses that are repaired instead of refused.
        tolerate: Tolerated = Key {
            name: "tolerate",
            kind: Kind::List(&Kind::Choice(tolerate::FAULTS)),
            absent: Absent::Means("none"),
            help: "Protocol faults in responses of old servers to repair instead of returning a 502. \
                `chunk-size-padding`: white space after a chunk size. `bare-lf-head`: head lines that end in a bare \
                LF. `folded-fields`: fields continued on the next line. `duplicate-content-length`: the same length \
                stated more than once. `duplicate-chunked`: `Transfer-Encoding: chunked` stated more than once. \
                `identity`: `Transfer-Encoding: identity`.",
            why: "Parsers disagree about such responses, and attackers exploit that. The `reason` of the 502 in the \
                access log names the value to add here.",
        };
        /// TLS with endpoints; `None` = plaintext.
        tls: Option<PoolTls> = Key {
            name: "tls",
            kind: Kind::TableOrBool(&tls::TLS),
            absent: Absent::Means("off"),
            help: "TLS with endpoints. `true`: certificates must be valid for the host of the endpoint's address, and \
                issued by an authority in the system's trust store.",
            why: "",
        };
        /// PROXY protocol header sent on each connection; `None` = off.
        proxy_protocol: Option<ProxyVersion> = Key {
            name: "proxy_protocol",
            kind: Kind::Choice(PROXY_VERSIONS),
            absent: Absent::Default("\"off\""),
            help: "PROXY protocol header to send at the start of each connection, so that endpoints see the client's \
                address. Clients then never share connections.",
            why: "Endpoints that do not expect the header refuse every request.",
        };
        /// Source address of connections to endpoints. [`SpeakAs::Client`] only if no HTTP listener leads
        /// here.
        source: SpeakAs = Key {
            name: "source",
            kind: Kind::Choice(SpeakAs::WORDS),
            absent: Absent::Default("\"own\""),
            help: "Source address of connections to endpoints. `own`: an address of this machine. `client`: the \
                client's address. `client` needs CAP_NET_ADMIN or CAP_NET_RAW and a route back through this machine, \
                and works only for listeners with `mode = \"tcp\"`.",
            why: "`own` works everywhere.",
        };
        /// End of the TCP sessions of an endpoint that health checks or ejection take out.
        on_down: OnDown = Key {
            name: "on_down",
            kind: Kind::Choice(OnDown::WORDS),
            absent: Absent::Default("\"keep\""),
            help: "TCP sessions of an endpoint whose health checks fail, or that is ejected. `keep`: they continue. \
                `close`: they are reset within two seconds, so that clients connect to another endpoint, such as the new primary \
                of a database. Sessions of a drained endpoint always continue.",
            why: "A check may fail while sessions still work, and clients of most protocols retry badly.",
        };
        /// Idle time of a TCP session after which the kernel sends keep-alive probes to its peers; `None` =
        /// never.
        keepalive: Option<Duration>,
            rows [
                Key {
                    name: "tcp",
                    kind: Kind::Table(&TCP),
                    absent: Absent::Means("its defaults"),
                    help: "TCP sessions of listeners with `mode = \"tcp\"`, and upgraded connections.",
                    why: "",
                },
            ],
            read keepalive,
            write write_keepalive;
    }
}

table! {
    static TCP = "tcp of [pool.NAME]",
        "TCP sessions of listeners with `mode = \"tcp\"`, and upgraded connections.";

    /// `tcp` of a pool.
    #[derive(Clone, PartialEq)]
    struct Tcp {
        /// See [`Pool::keepalive`].
        keepalive: Option<Duration> = Key {
            name: "keepalive",
            kind: Kind::Duration { min: S, max: H, off: true },
            absent: Absent::Default("\"30s\""),
            help: "Idle time after which the kernel sends keep-alive probes to both peers of a session, at most 15 s \
                apart. A peer that leaves four probes unanswered is considered dead.",
            why: "Firewalls and address translators forget an idle connection after some minutes.",
        };
    }
}

words! {
    /// Source address of connections to endpoints.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SpeakAs {
        /// An address of this machine.
        #[default]
        Own = "own",
        /// The client's address, by a transparent socket (`IP_TRANSPARENT`).
        Client = "client",
    }
}

words! {
    /// Effect of an endpoint's failure on its TCP sessions.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OnDown {
        /// Sessions continue until a side ends them.
        #[default]
        Keep = "keep",
        /// A reset on both sides, as soon as a worker notices.
        Close = "close",
    }
}

words! {
    const PROXY_VERSIONS for "off" or ProxyVersion {
        V1 = "v1",
        V2 = "v2",
    }
}

/// Writes `balance` always: readers look for it first, and the default may change.
fn write_balance(set: &Pool, base: &Pool, lines: &mut Lines) {
    lines.add("balance", set.balance.write(&base.balance, &Kind::Balance));
}

fn write_endpoints(set: &Pool, _: &Pool, lines: &mut Lines) {
    if !set.endpoints.is_empty() {
        lines.add("endpoints", endpoint::written(&set.endpoints));
    }
}

fn own_zone(pool: &Section) -> Option<OwnZone> {
    pool.has("locality").then(|| OwnZone::of(&pool.section("locality")))
}

fn locality(pool: &Section) -> Option<Locality> {
    own_zone(pool).map(|own| own.hashed())
}

fn zone(pool: &Section) -> Option<Arc<str>> {
    own_zone(pool).map(|own| own.zone)
}

fn write_locality(set: &Pool, _: &Pool, lines: &mut Lines) {
    if let (Some(zone), Some(Locality { spill_at, .. })) = (&set.zone, set.locality) {
        let own = OwnZone { zone: zone.clone(), spill_at };
        lines.add("locality", own.lines(OwnZone::unset()).braces());
    }
}

fn keepalive(pool: &Section) -> Option<Duration> {
    Tcp::of(&pool.section("tcp")).keepalive
}

fn write_keepalive(set: &Pool, base: &Pool, lines: &mut Lines) {
    let [set, base] = [set, base].map(|pool| Tcp { keepalive: pool.keepalive });
    if set != base {
        lines.add("tcp", set.lines(&base).braces());
    }
}

impl Pool {
    /// A pool of this name with defaults for everything else, and no endpoints.
    pub fn new(name: &str) -> Pool {
        Pool { name: name.into(), ..Pool::default() }
    }
}

/// Reads all pools and reports the faults of each.
pub(crate) fn pools(
    root: &Section,
    defaults: &Section,
    resolver: &Resolver,
    servers: &Discovery,
    findings: &mut Findings,
) -> Vec<Arc<Pool>> {
    let named = root.named("pool");
    // Routes may respond by themselves.
    let own = || ACTIONS.iter().map(|key| key.name).filter(|name| !["pool", "split"].contains(name));
    let responds = |route: &&Section| own().any(|name| route.has(name));
    let is_needed = !root.has("provider") && !root.sections("route").iter().any(responds);
    if named.is_empty() && is_needed && root.set("pool").is_none_or(|p| !p.is_broken()) {
        findings
            .add(Code::NothingToDo, root.span, "there is no pool: no request could be answered")
            .help("add [pool.web] with endpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\"]");
    }
    let one = |named: &Named| {
        let pool = one(named, defaults, resolver, servers);
        check(named, &pool, findings);
        Arc::new(pool)
    };
    named.iter().map(one).collect()
}

fn one(Named { name, section, .. }: &Named, defaults: &Section, resolver: &Resolver, servers: &Discovery) -> Pool {
    let inherit = |whole: Section, table| whole.with(table, section.section(table).over(&defaults.section(table)));
    let whole = ["timeouts", "retry"].into_iter().fold(section.clone(), inherit);
    let mut pool = Pool { name: name.as_str().into(), ..Pool::of(&whole) };
    if let Some(discover) = &mut pool.discover {
        discover.start_from(resolver, &servers.servers, section);
    }
    pool
}

fn check(Named { name, span, section }: &Named, pool: &Pool, findings: &mut Findings) {
    endpoint::check(section, findings);
    discover::check(section, findings);
    if !["endpoints", "discover", "empty_status"].iter().any(|key| section.has(key)) {
        findings
            .add(Code::Missing, *span, format!("[pool.{name}] has no \"endpoints\""))
            .help("add endpoints = [\"127.0.0.1:8081\", \"127.0.0.1:8082\"], or \"discover\" to find them");
    }
    let usable = |e: &Endpoint| e.weight > 0 && !e.drain;
    if pool.discover.is_none() && !pool.endpoints.is_empty() && !pool.endpoints.iter().any(usable) {
        findings
            .add(
                Code::NoTraffic,
                *span,
                format!("no endpoint of pool \"{name}\" may get traffic: all have weight 0 or drain"),
            )
            .help("give at least one of them a weight above 0, and do not drain it");
    }
    let timeouts = section.section("timeouts");
    check_order(&timeouts, findings);
    retry::check(&section.section("retry"), &timeouts, &pool.retry, pool.timeouts.request, findings);
    check_probes(section, pool, findings);
    locality::check(section, &pool.endpoints, findings);
    health::check(section, name, findings);
    http2::check(section, pool.protocol, findings);
    outlier::check(section, findings);
    slow_start::check(section, pool.balance.algorithm, findings);
    shadow::check(section, pool, findings);
    queue::check(section, pool.timeouts.request, findings);
    sticky::check(section, pool.balance.algorithm, findings);
    tls::check(section, name, findings);
    headers::check_of_pool(section, findings);
    limits::check(&section.section("limits").section("concurrency"), findings);
}

/// Reports an algorithm that needs load probes in a pool that sends none.
fn check_probes(section: &Section, pool: &Pool, findings: &mut Findings) {
    let Some((balance, span)) = section.balance("balance") else { return };
    let is_broken = section.set("load_reports").is_some_and(Located::is_broken);
    let sends = pool.load_reports.as_ref().is_some_and(|reports| reports.probe != Probe::Off);
    if !balance.algorithm.needs.probes || is_broken || sends {
        return;
    }
    let fit: Vec<_> = algorithms::ALL.iter().filter(|a| !a.needs.probes).map(|a| a.name).collect();
    let message = format!("\"{}\" needs probes, and the pool sends none", balance.algorithm.name);
    let finding = findings.add(Code::PlaneLacks, span, message);
    if let Some(set) = section.set("load_reports") {
        finding.see("what it does about reports is here", set.span);
    }
    finding.help(format!(
        "add load_reports = {{ probe = \"udp\" }} if its endpoints answer probes; without probes: {}",
        fit.join(", ")
    ));
}
