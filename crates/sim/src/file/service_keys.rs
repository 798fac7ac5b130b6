//! Keys of services and servers. Keys that a pool also has reuse the tables of the configuration.

use super::row::{DAY, H, MS, S, US, key, required, with_default};
use super::work_keys::WORK;
use crate::planes;
use evenkeel_config::tables::{self, Form, Kind, Table};

pub(super) static SERVICE: Table = Table {
    path: "[service.NAME]",
    help: "Servers for one kind of request, and the balancing in front of them.",
    inherits: false,
    keys: &[
        required("server", Kind::Tables(&SERVER), "[{ count = 10, sharing = 4 }]", "Groups of identical servers."),
        with_default(
            "work",
            Kind::TableOr { table: &WORK, key: "constant" },
            "{ exponential = \"10ms\" }",
            "Work of a request on an otherwise idle core, unless the server overrides it.",
        ),
        with_default(
            "steps",
            Kind::List(&Kind::Text(Form::Name)),
            "[\"work\"]",
            "Steps of a request, in order: `work`, or the name of a service that it calls and waits for.",
        ),
        with_default(
            "response",
            Kind::Size { min: 0, max: 1 << 40, off: false },
            "\"0B\"",
            "Size of a response, for servers with limited bandwidth.",
        ),
        key(
            "balance",
            Kind::Balance,
            "the policy under test",
            "Algorithm of this service, instead of the policies under test.",
        ),
        with_default(
            "balancers",
            Kind::IntOr { min: 1, max: 10_000, word: "callers" },
            "1",
            "Independent balancers; each request reaches one of them at random. `\"callers\"`: one balancer next to \
             each calling server (a sidecar; with a `plane` of the kernel, one per machine), or one for all clients.",
        ),
        key(
            "plane",
            Kind::Choice(planes::NAMES),
            "balancers without cost and without a link",
            "Plane that balances, with its [cost](#costs-of-planes): the kernel by eBPF or nftables, or evenkeel as a \
             proxy of HTTP or TCP. Balancers that are not next to callers are then machines: requests and responses \
             pass through a machine, over a `link` on each side, and wait for its processors. An algorithm or a key \
             that the plane [does not support](planes.md) is an error. Approximations are simulated as if they were \
             exact.",
        ),
        key(
            "balancer_cores",
            Kind::Int { min: 1, max: 1024 },
            "as many as `workers`",
            "Processors of each balancer that has a `plane` and is not next to a caller.",
        ),
        with_default(
            "workers",
            Kind::Int { min: 1, max: 1024 },
            "1",
            "Workers of each balancer; each request reaches one of them at random.",
        ),
        with_default(
            "probes",
            Kind::Bool,
            "false",
            "True if servers answer probes, for algorithms that send probes. Corresponds to `load_reports.probe` of a \
            pool, which is off by default.",
        ),
        with_default("probe_loss", Kind::Number { min: 0.0, max: 1.0 }, "0", "Share of probes that get lost, 0 to 1."),
        with_default(
            "probe_work",
            Kind::Duration { min: 0, max: S, off: false },
            "\"0s\"",
            "Cost of a probe for a server, as work.",
        ),
        key(
            "balancer_work",
            Kind::Duration { min: 0, max: S, off: false },
            "the cost of the `plane`, `\"0s\"` without one",
            "Cost of a try for a balancer. Next to a caller (`balancers = \"callers\"`), it is work of that caller's \
             server; otherwise work of the balancer's own processors, which exist only with a `plane`.",
        ),
        with_default(
            "balancer_probe_work",
            Kind::Duration { min: 0, max: S, off: false },
            "\"0s\"",
            "Cost of a probe and its answer for a balancer next to a caller.",
        ),
        with_default("reports", Kind::Bool, "false", "True if each response carries the load of its server."),
        with_default(
            "board",
            Kind::Duration { min: 0, max: DAY, off: true },
            "\"off\"",
            "Interval at which each balancer learns the load of each server.",
        ),
        with_default(
            "lag",
            Kind::Duration { min: 0, max: H, off: false },
            "\"0s\"",
            "Maximum time until a balancer learns that a server joins or leaves. Each balancer draws a time from 0 to \
            this.",
        ),
        with_default(
            "timeout",
            Kind::Duration { min: US, max: DAY, off: true },
            "\"off\"",
            "Time after which a try is aborted.",
        ),
        key("queue", Kind::Table(&QUEUE), "its defaults", "Queue of requests when every server is at its limit."),
        key("retry", Kind::Table(&RETRY), "nothing", "Retries of failed requests."),
        key("health", Kind::Table(&HEALTH), "no checks", "Health checks of the servers."),
        key("outlier", Kind::TableOrWord { table: &OUTLIER, word: "off" }, "off", "Ejects servers that fail requests."),
        key(
            "slow_start",
            Kind::TableOr { table: &SLOW_START, key: "window" },
            "off",
            "Raises the share of joining servers gradually.",
        ),
        key("panic", Kind::Table(&PANIC), "its defaults", "Behaviour when few servers are healthy."),
        key(
            "concurrency",
            Kind::TableOrWord { table: &CONCURRENCY, word: "adaptive" },
            "no such limit",
            "Limit of requests in flight per server that adapts to its latency.",
        ),
    ],
};

/// Table of a pool under another path.
const fn as_in_a_pool(path: &'static str, of_pool: &'static Table) -> Table {
    Table { path, help: of_pool.help, inherits: false, keys: of_pool.keys }
}

static QUEUE: Table = as_in_a_pool("queue of [service.NAME]", &tables::QUEUE);

static HEALTH: Table = Table {
    path: "health of [service.NAME]",
    help: "Periodic checks of each server by each balancer. A black hole fails its checks.",
    inherits: false,
    keys: &[
        required(
            "interval",
            Kind::Duration { min: 10 * MS, max: DAY, off: false },
            "\"2s\"",
            "Time from one check of a server to the next.",
        ),
        with_default(
            "fall",
            Kind::Int { min: 1, max: 1000 },
            "3",
            "Consecutive failed checks that mark a server as down.",
        ),
        with_default(
            "rise",
            Kind::Int { min: 1, max: 1000 },
            "2",
            "Consecutive passed checks that mark a server as up again.",
        ),
    ],
};

static RETRY: Table = Table {
    path: "retry of [service.NAME]",
    help: "Retries, with the keys of `retry` of a pool.",
    inherits: false,
    keys: tables::TRIES,
};

static OUTLIER: Table = as_in_a_pool("outlier of [service.NAME]", &tables::OUTLIER);
static SLOW_START: Table = as_in_a_pool("slow_start of [service.NAME]", &tables::SLOW_START);
static PANIC: Table = as_in_a_pool("panic of [service.NAME]", &tables::PANIC);
static CONCURRENCY: Table = as_in_a_pool("concurrency of [service.NAME]", &tables::CONCURRENCY);

static SERVER: Table = Table {
    path: "server of [service.NAME]",
    help: "Identical servers. At most one of `fifo` and `sharing`; without either, each request is served as if alone.",
    inherits: false,
    keys: &[
        with_default("count", Kind::Int { min: 1, max: 100_000 }, "1", "Number of servers."),
        key(
            "name",
            Kind::Text(Form::Name),
            "`s` and the number of the group",
            "Name in figures, followed by a number if there is more than one server.",
        ),
        with_default("weight", Kind::Int { min: 0, max: 65_535 }, "1", "Weight at the balancers."),
        with_default(
            "in_flight_max",
            Kind::Int { min: 0, max: 1_000_000 },
            "0",
            "Limit that balancers apply; 0 = no limit.",
        ),
        key(
            "fifo",
            Kind::Int { min: 1, max: 10_000 },
            "see above",
            "Requests served at a time; the others wait in order.",
        ),
        key(
            "sharing",
            Kind::Number { min: 0.01, max: 10_000.0 },
            "see above",
            "Number of cores that all requests share equally; no request gets more than one core.",
        ),
        key(
            "work",
            Kind::TableOr { table: &WORK, key: "constant" },
            "the service's",
            "Work of a request at this server.",
        ),
        key("machine", Kind::Text(Form::Name), "a separate machine", "Name of the machine of the server."),
        with_default(
            "threads",
            Kind::Int { min: 0, max: 1_000_000 },
            "0",
            "Requests accepted at a time, working or waiting for other services; 0 = any number.",
        ),
        with_default(
            "backlog",
            Kind::Int { min: 0, max: 1_000_000 },
            "0",
            "Requests that may wait for one of the `threads`; more are refused.",
        ),
        key("antagonists", Kind::Tables(&ANTAGONIST), "none", "Antagonists: other users of its machine."),
        key(
            "neighbours",
            Kind::Tables(&NEIGHBOUR),
            "none",
            "Programs whose threads share its cores with requests, at times.",
        ),
        key("stalls", Kind::Tables(&STALL), "none", "Stalls, as by a garbage collector or a CPU quota."),
        with_default(
            "bandwidth",
            Kind::Size { min: 0, max: 1 << 40, off: false },
            "\"0B\"",
            "Bytes per second at which responses leave one after another; 0 = unlimited.",
        ),
        key("faults", Kind::Tables(&FAULT), "none", "Faults, each with its time."),
        with_default("joins", Kind::Duration { min: 0, max: DAY, off: false }, "\"0s\"", "Time at which it joins."),
        key(
            "leaves",
            Kind::Duration { min: 0, max: DAY, off: false },
            "never",
            "Time from which the server gets no new requests.",
        ),
        key("cold", Kind::Table(&COLD), "warm at once", "Warm-up after the server joins."),
    ],
};

static ANTAGONIST: Table = Table {
    path: "antagonists of server of [service.NAME]",
    help: "The server's speed is redrawn after exponential times. Speeds of several antagonists multiply.",
    inherits: false,
    keys: &[
        required(
            "states",
            Kind::Tables(&STATE),
            "[{ speed = 0.4, share = 0.25 }, { speed = 1, share = 0.75 }]",
            "States to draw from. The shares sum to 1.",
        ),
        required(
            "mean",
            Kind::Duration { min: US, max: DAY, off: false },
            "\"2s\"",
            "Mean time from one draw to the next.",
        ),
    ],
};

static STATE: Table = Table {
    path: "states of antagonists of server of [service.NAME]",
    help: "A speed and its probability.",
    inherits: false,
    keys: &[
        required("speed", Kind::Number { min: 0.0, max: 100.0 }, "0.4", "Factor of the cores."),
        required("share", Kind::Number { min: 0.0, max: 1.0 }, "0.25", "Probability of the state."),
    ],
};

static NEIGHBOUR: Table = Table {
    path: "neighbours of server of [service.NAME]",
    help: "Another program on the same cores: while it works, each of its threads gets as much as a request.",
    inherits: false,
    keys: &[
        required("threads", Kind::Int { min: 1, max: 10_000 }, "2", "Threads that want to run while it works."),
        required("busy", Kind::Duration { min: US, max: DAY, off: false }, "\"1s\"", "Mean time for which it works."),
        required(
            "idle",
            Kind::Duration { min: US, max: DAY, off: false },
            "\"1s\"",
            "Mean time for which it does not.",
        ),
    ],
};

static STALL: Table = Table {
    path: "stalls of server of [service.NAME]",
    help: "Recurring stalls.",
    inherits: false,
    keys: &[
        required(
            "every",
            Kind::TableOr { table: &WORK, key: "constant" },
            "{ exponential = \"400ms\" }",
            "Time from the end of a stall to the start of the next.",
        ),
        required(
            "length",
            Kind::TableOr { table: &WORK, key: "constant" },
            "{ exponential = \"80ms\" }",
            "Duration of a stall.",
        ),
        with_default("speed", Kind::Number { min: 0.0, max: 1.0 }, "0", "Speed during a stall, 0 to 1."),
    ],
};

static FAULT: Table = Table {
    path: "faults of server of [service.NAME]",
    help: "A temporary fault.",
    inherits: false,
    keys: &[
        with_default("from", Kind::Duration { min: 0, max: DAY, off: false }, "\"0s\"", "Start."),
        key("until", Kind::Duration { min: 0, max: DAY, off: false }, "for good", "End."),
        required(
            "mode",
            Kind::Choice(&["black-hole", "fail-fast"]),
            "\"black-hole\"",
            "`black-hole`: accepts requests and never responds. `fail-fast`: returns errors.",
        ),
        with_default(
            "after",
            Kind::Duration { min: 0, max: H, off: false },
            "\"1ms\"",
            "With `fail-fast`: time until an error is returned.",
        ),
    ],
};

static COLD: Table = Table {
    path: "cold of server of [service.NAME]",
    help: "Warm-up with linearly rising speed.",
    inherits: false,
    keys: &[
        with_default(
            "speed",
            Kind::Number { min: 0.001, max: 1.0 },
            "0.1",
            "Speed at the start, as a share of the full speed.",
        ),
        required("window", Kind::Duration { min: 1, max: DAY, off: false }, "\"30s\"", "Duration of the warm-up."),
    ],
};
