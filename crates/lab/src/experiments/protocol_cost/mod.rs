//! Cost of a request over HTTP/1.1, TCP, HTTP/2, HTTP/3, gRPC and TLS: CPU time, system calls and idle memory of evenkeel,
//! HAProxy, NGINX and Envoy, each with a worker on a separate core, in front of the same endpoints.

// Order: measure, idle, proxy, cases, grpc
mod cases;
mod grpc;
mod idle;
mod measure;
pub mod proxy;

use self::cases::{Case, Work};
use self::measure::{Costs, Endpoints};
use crate::balancers::{self, Back, KINDS, OURS};
use crate::certificates::Certificates;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::machine::{self, Cores};
use crate::origin::Origin;
use crate::study::grid::{self, Grid};
use crate::study::topology::{column, even, node};
use crate::study::{self, Options};
use clap::{ArgMatches, Args, Command, FromArgMatches};

pub use self::grpc::{NAME as ENDPOINT, arguments as endpoint_arguments, run as run_endpoint};

/// Experiment `proxy-cost`: HTTP/1.1.
pub static HTTP: Experiment = Experiment {
    name: "proxy-cost",
    summary: "CPU time, syscalls and idle memory per request, beside HAProxy and NGINX",
    docs: "Starts each proxy with one worker, pinned to one core, in front of the same two endpoints; load generators and \
endpoints have the other cores. Each is set up at its best and checked to pass answers on byte for byte. CPU time per \
request is user plus system time of the proxy's worker over the requests answered: on a busy machine it holds within a \
few percent, while requests per second only inform. The loop is closed, so nothing here is about \
latency.

HAProxy cannot write an access log to a file: it keeps a ring that it sends over TCP to the lab, the cheapest way it \
has that loses no line. NGINX and evenkeel write a file through a buffer. haproxy-splice is HAProxy with splice-response.

HAPROXY_BIN, a command of several words if need be, measures another HAProxy beside the installed one.",
    args: |command| arguments(command, "haproxy,haproxy-splice,nginx,varnish"),
    run: |matches| run(&HTTP, "What does a request of HTTP/1.1 cost?", matches, cases::HTTP),
};

/// Experiment `l4-cost`: TCP sessions.
pub static TCP: Experiment = Experiment {
    name: "l4-cost",
    summary: "CPU time, syscalls and idle memory of TCP sessions, beside HAProxy and NGINX",
    docs: "As proxy-cost, but the proxies pass connections on without reading what is in them: evenkeel with mode = \
\"tcp\", HAProxy with mode tcp (haproxy-splice: with splice-response), NGINX with its \
stream module. The clients and the endpoints still speak HTTP, so that the same load generators count exchanges.

`bare` is no proxy but a relay of the lab's own that makes the calls of a session and does nothing else: what it costs is \
the kernel's, and how far a proxy can be below another on this machine.",
    args: |command| arguments(command, "haproxy,haproxy-splice,nginx,bare"),
    run: |matches| run(&TCP, "What does a session of TCP cost?", matches, cases::TCP),
};

/// Experiment `h2-cost`: HTTP/2 and gRPC.
pub static H2: Experiment = Experiment {
    name: "h2-cost",
    summary: "CPU time per request of HTTP/2 and gRPC, and idle memory, beside HAProxy, NGINX, Varnish and Envoy",
    docs: "As proxy-cost: each proxy has one worker on one core, load and endpoints have the others, and what is compared is \
the CPU time of the proxy's processes over the requests answered. The load is h2load's. Endpoints are an NGINX that speaks \
HTTP/1.1 and HTTP/2, and one of the lab's own for gRPC. Before it is measured, each proxy must pass answers on byte for byte, \
in the protocol meant.

A proxy that cannot do what a case asks for, or that fails in it, has no figure, and the report has the reason. `scripts/setup.sh bench` \
installs Envoy.",
    args: |command| arguments(command, "haproxy,nginx,varnish,envoy"),
    run: |matches| run(&H2, "What do HTTP/2 and gRPC cost?", matches, cases::H2),
};

/// Experiment `h3-cost`: HTTP/3.
pub static H3: Experiment = Experiment {
    name: "h3-cost",
    summary: "CPU time and syscalls per request of HTTP/3, and idle memory, beside HAProxy, NGINX and Envoy",
    docs: "As h2-cost, with a load of the lab's own: a thread with clients on the state machine of quinn, each at a socket of its \
own, that receive and send with the offloads of the kernel. They offer TLS_AES_128_GCM_SHA256 first, as browsers do, and X25519; no \
session is resumed. In the case of a connection for each request the client closes it with the response, at once.

nginx-gso is NGINX with quic_gso, which is off by default.",
    args: |command| arguments(command, "haproxy,nginx,nginx-gso,envoy"),
    run: |matches| run(&H3, "What does a request of HTTP/3 cost?", matches, cases::H3),
};

/// Experiment `tls-cost`: TLS handshakes and HTTPS.
pub static TLS: Experiment = Experiment {
    name: "tls-cost",
    summary: "CPU time of handshakes and of HTTPS, and idle memory, beside HAProxy, NGINX and Envoy",
    docs: "As h2-cost. Handshakes are made by clients of the lab's own, which offer X25519 first, as every proxy here can do it, and know whether a session was \
resumed: in the cases of full handshakes none may be, and where tickets are meant, all but the first of each client must be. \
On kept connections the load is wrk's. The certificates are made at the start.

A connection for each request includes connecting and closing: the time is that of the whole, not of the handshake alone.",
    args: |command| arguments(command, "haproxy,nginx,envoy"),
    run: |matches| run(&TLS, "What do TLS and its handshakes cost?", matches, cases::TLS),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Cases to run, by name.
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
    /// Duration of a run in seconds. Defaults to 3, with --quick to 1, with --full to 8.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: Option<u64>,
    /// List the cases and exit.
    #[arg(long)]
    list: bool,
}

/// Names of all proxies except evenkeel.
fn rivals() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.name).filter(|name| *name != OURS).collect()
}

/// Adds the arguments. `against`: default proxies to compare with.
fn arguments(command: Command, against: &'static str) -> Command {
    let known: Vec<&str> = rivals();
    let help =
        format!("Proxies beside evenkeel, of {}. One that is not installed is named, and left out", known.join(", "));
    Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value(against).help(help))
}

fn run(experiment: &Experiment, title: &'static str, matches: &ArgMatches, all: &'static [Case]) -> Result<()> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string()))?;
    if arguments.list {
        all.iter().for_each(|case| println!("{:<32} {}", case.name, case.about));
        return Ok(());
    }
    let (options, cases) = (&arguments.study, grid::choose(all, &arguments.only, |case| case.name)?);
    let (proxies, versions) = balancers::find(options, &[rivals(), vec![balancers::OTHER]].concat())?;
    let cores = Cores::divide()?;
    machine::allow_files(50_000);
    let secured = cases.iter().any(|case| case.front.is_tls());
    let certificates = secured.then(Certificates::make).transpose()?;
    let calls = cases.iter().any(|case| case.back == Back::Grpc);
    let endpoints = Endpoints { files: Origin::start()?, grpc: calls.then(grpc::Endpoint::start).transpose()? };
    let costs = Costs {
        cases: &cases,
        proxies: &proxies,
        endpoints: &endpoints,
        certificates: certificates.as_ref(),
        seconds: arguments.seconds.unwrap_or_else(|| options.seconds()),
        core: cores.proxy,
    };
    let told: Vec<grid::Case> = cases.iter().map(|case| case.told()).collect();
    let things = proxies.iter().map(|proxy| proxy.name.to_owned()).collect();
    let grid = Grid::run(things, &told, options.rounds(), &costs)?;
    let mut found = grid.found(title, topology(&cases), "haproxy", experiment.docs, versions);
    found.method.push(format!("The proxy ran on core {}, load and endpoints on {:?}.", cores.proxy, cores.load));
    study::present(&found, options)?;
    grid.check()
}

fn topology(cases: &[&Case]) -> String {
    let mut loads: Vec<&str> = Vec::new();
    for case in cases {
        let load = match case.work {
            Work::Streams(_) => "h2load",
            Work::Kept(_) | Work::Distinct(_) | Work::Keyed(_) => "wrk",
            Work::Closed(_) => "ab",
            Work::Http3(_) | Work::Handshakes(_) | Work::Idle(_) => "the lab",
        };
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    even(&[
        column("load", [node(loads.join(", "), "the other cores")]),
        column("proxy", [node("one of several", "a core of its own")]),
        column("endpoints", (1..=2).map(|n| node(format!("endpoint {n}"), "the other cores"))),
    ])
}
