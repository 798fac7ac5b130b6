//! Keys of services and servers. Keys that a pool also has reuse the tables of the configuration.

use super::row::{DAY, H, MS, S, US, key, required, with_default};
use super::work_keys::WORK;
use evenkeel_config::tables::{self, Form, Kind, Table};

pub(super) static SERVICE: Table = Table {
    path: "[service.NAME]",
    help: "What answers one kind of request, and how requests are spread over it.",
    inherits: false,
    keys: &[
        required(
            "server",
            Kind::Tables(&SERVER),
            "[{ count = 10, sharing = 4 }]",
            "Who answers: groups of servers that are alike.",
        ),
        with_default(
            "work",
            Kind::TableOr { table: &WORK, key: "constant" },
            "{ exponential = \"10ms\" }",
            "What a request takes on one core that it has for itself, unless the server says.",
        ),
        with_default(
            "steps",
            Kind::List(&Kind::Text(Form::Name)),
            "[\"work\"]",
            "What one request does, in order: `work`, or the name of a service that it calls and waits for.",
        ),
        with_default(
            "response",
            Kind::Size { min: 0, max: 1 << 40 },
            "\"0B\"",
            "The size of an answer, for servers whose bandwidth is limited.",
        ),
        key("balance", Kind::Balance, "what is tried", "The algorithm here, whatever is tried elsewhere."),
        with_default(
            "balancers",
            Kind::IntOr { min: 1, max: 10_000, word: "callers" },
            "1",
            "Balancers that know nothing of each other; each request comes to one of them at random. `\"callers\"`: one beside \
             each server that calls (a sidecar), or one for all clients.",
        ),
        with_default(
            "workers",
            Kind::Int { min: 1, max: 1024 },
            "1",
            "Workers of each balancer; each request comes to one of them at random.",
        ),
        with_default(
            "probes",
            Kind::Bool,
            "false",
            "Whether servers answer probes, of algorithms that send some: `load_reports.probe` of a pool, which is off by default.",
        ),
        with_default("probe_loss", Kind::Number { min: 0.0, max: 1.0 }, "0", "The share of probes that get lost."),
        with_default(
            "probe_work",
            Kind::Duration { min: 0, max: S, off: false },
            "\"0s\"",
            "What a probe costs a server, as work.",
        ),
        with_default(
            "balancer_work",
            Kind::Duration { min: 0, max: S, off: false },
            "\"0s\"",
            "What a try costs a balancer beside a caller (`balancers = \"callers\"`), as work of that caller's server. Others have \
             processors of their own.",
        ),
        with_default(
            "balancer_probe_work",
            Kind::Duration { min: 0, max: S, off: false },
            "\"0s\"",
            "What a probe, sent and answered, costs a balancer beside a caller.",
        ),
        with_default("reports", Kind::Bool, "false", "Whether each answer carries the load of its server."),
        with_default(
            "board",
            Kind::Duration { min: 0, max: DAY, off: true },
            "\"off\"",
            "Every so often each balancer is told the load of each server.",
        ),
        with_default(
            "lag",
            Kind::Duration { min: 0, max: H, off: false },
            "\"0s\"",
            "From a server that joins or leaves to when a balancer knows it: each draws its own, from 0 to this.",
        ),
        with_default(
            "timeout",
            Kind::Duration { min: US, max: DAY, off: true },
            "\"off\"",
            "After which a try is given up.",
        ),
        key("queue", Kind::Table(&QUEUE), "its defaults", "Who waits when every server is at its limit."),
        key("retry", Kind::Table(&RETRY), "nothing", "Retries of failed requests."),
        key("health", Kind::Table(&HEALTH), "no checks", "Asks servers whether they are well."),
        key("outlier", Kind::TableOrWord { table: &OUTLIER, word: "off" }, "off", "Ejects servers that fail requests."),
        key(
            "slow_start",
            Kind::TableOr { table: &SLOW_START, key: "window" },
            "off",
            "Gives servers that join their share bit by bit.",
        ),
        key("panic", Kind::Table(&PANIC), "its defaults", "What happens when few servers are left."),
        key(
            "concurrency",
            Kind::TableOrWord { table: &CONCURRENCY, word: "adaptive" },
            "no such limit",
            "A limit of requests in flight at one server that follows its latency.",
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
    help: "Each balancer asks each server, again and again. A black hole fails the check.",
    inherits: false,
    keys: &[
        required(
            "interval",
            Kind::Duration { min: 10 * MS, max: DAY, off: false },
            "\"2s\"",
            "From one check of a server to the next.",
        ),
        with_default("fall", Kind::Int { min: 1, max: 1000 }, "3", "Failed checks in a row that take a server down."),
        with_default("rise", Kind::Int { min: 1, max: 1000 }, "2", "Passed checks in a row that bring it back."),
    ],
};

static RETRY: Table = Table {
    path: "retry of [service.NAME]",
    help: "What is tried again, as `retry` of a pool.",
    inherits: false,
    keys: tables::TRIES,
};

static OUTLIER: Table = as_in_a_pool("outlier of [service.NAME]", &tables::OUTLIER);
static SLOW_START: Table = as_in_a_pool("slow_start of [service.NAME]", &tables::SLOW_START);
static PANIC: Table = as_in_a_pool("panic of [service.NAME]", &tables::PANIC);
static CONCURRENCY: Table = as_in_a_pool("concurrency of [service.NAME]", &tables::CONCURRENCY);

static SERVER: Table = Table {
    path: "server of [service.NAME]",
    help: "Servers that are alike. At most one of `fifo` and `sharing`; without, each request is served as if alone.",
    inherits: false,
    keys: &[
        with_default("count", Kind::Int { min: 1, max: 100_000 }, "1", "How many."),
        key(
            "name",
            Kind::Text(Form::Name),
            "`s` and the number of the group",
            "What figures call them; with a number behind if there is more than one.",
        ),
        with_default("weight", Kind::Int { min: 0, max: 65_535 }, "1", "As configured at the balancers."),
        with_default(
            "in_flight_max",
            Kind::Int { min: 0, max: 1_000_000 },
            "0",
            "The limit that balancers hold; 0 = none.",
        ),
        key(
            "fifo",
            Kind::Int { min: 1, max: 10_000 },
            "see above",
            "So many requests at once; the others wait in order.",
        ),
        key(
            "sharing",
            Kind::Number { min: 0.01, max: 10_000.0 },
            "see above",
            "So many cores, which all requests share alike; none gets more than one.",
        ),
        key("work", Kind::TableOr { table: &WORK, key: "constant" }, "the service's", "What a request takes here."),
        key("machine", Kind::Text(Form::Name), "one of its own", "The machine that it is on, by name."),
        with_default(
            "threads",
            Kind::Int { min: 0, max: 1_000_000 },
            "0",
            "Requests that it takes in at once, working or waiting for others; 0 = any number.",
        ),
        with_default(
            "backlog",
            Kind::Int { min: 0, max: 1_000_000 },
            "0",
            "Requests that may wait for one of the `threads`; more are refused.",
        ),
        key("antagonists", Kind::Tables(&ANTAGONIST), "none", "Others that use its machine."),
        key("stalls", Kind::Tables(&STALL), "none", "Pauses: of a garbage collector, of a processor quota."),
        with_default(
            "bandwidth",
            Kind::Size { min: 0, max: 1 << 40 },
            "\"0B\"",
            "A second, at which answers leave one after another; 0 = at once.",
        ),
        key("faults", Kind::Tables(&FAULT), "none", "What is wrong with it, and when."),
        with_default("joins", Kind::Duration { min: 0, max: DAY, off: false }, "\"0s\"", "When it joins."),
        key(
            "leaves",
            Kind::Duration { min: 0, max: DAY, off: false },
            "never",
            "From when on it gets no new requests.",
        ),
        key("cold", Kind::Table(&COLD), "warm at once", "How it warms up after it joined."),
    ],
};

static ANTAGONIST: Table = Table {
    path: "antagonists of server of [service.NAME]",
    help: "The speed of the server is drawn anew after exponential times. Speeds multiply if there are more than one.",
    inherits: false,
    keys: &[
        required(
            "states",
            Kind::Tables(&STATE),
            "[{ speed = 0.4, share = 0.25 }, { speed = 1, share = 0.75 }]",
            "What is drawn. The shares sum to 1.",
        ),
        required(
            "mean",
            Kind::Duration { min: US, max: DAY, off: false },
            "\"2s\"",
            "From one draw to the next, on average.",
        ),
    ],
};

static STATE: Table = Table {
    path: "states of antagonists of server of [service.NAME]",
    help: "A speed and how likely it is.",
    inherits: false,
    keys: &[
        required("speed", Kind::Number { min: 0.0, max: 100.0 }, "0.4", "What the cores are multiplied by."),
        required("share", Kind::Number { min: 0.0, max: 1.0 }, "0.25", "Its probability."),
    ],
};

static STALL: Table = Table {
    path: "stalls of server of [service.NAME]",
    help: "It stalls by turns.",
    inherits: false,
    keys: &[
        required(
            "every",
            Kind::TableOr { table: &WORK, key: "constant" },
            "{ exponential = \"400ms\" }",
            "From the end of one to the start of the next.",
        ),
        required(
            "length",
            Kind::TableOr { table: &WORK, key: "constant" },
            "{ exponential = \"80ms\" }",
            "How long one takes.",
        ),
        with_default("speed", Kind::Number { min: 0.0, max: 1.0 }, "0", "The speed meanwhile."),
    ],
};

static FAULT: Table = Table {
    path: "faults of server of [service.NAME]",
    help: "A fault, for a while.",
    inherits: false,
    keys: &[
        with_default("from", Kind::Duration { min: 0, max: DAY, off: false }, "\"0s\"", "From here on."),
        key("until", Kind::Duration { min: 0, max: DAY, off: false }, "for good", "Until here."),
        required(
            "mode",
            Kind::Choice(&["black-hole", "fail-fast"]),
            "\"black-hole\"",
            "`black-hole`: it takes requests and never answers. `fail-fast`: it answers with errors.",
        ),
        with_default(
            "after",
            Kind::Duration { min: 0, max: H, off: false },
            "\"1ms\"",
            "With `fail-fast`: how long an error takes.",
        ),
    ],
};

static COLD: Table = Table {
    path: "cold of server of [service.NAME]",
    help: "Its speed rises in a straight line.",
    inherits: false,
    keys: &[
        with_default(
            "speed",
            Kind::Number { min: 0.001, max: 1.0 },
            "0.1",
            "At the start, as a share of its full speed.",
        ),
        required("window", Kind::Duration { min: 1, max: DAY, off: false }, "\"30s\"", "Until it is warm."),
    ],
};
