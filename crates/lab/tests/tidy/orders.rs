//! Orders of crates and folders, from top to bottom: each file or folder may use itself and those below it.
//!
//! A row is named by its crate, or by a folder below its `src/`. `lib.rs` and `main.rs` stand above all, `mod.rs` with its whole
//! folder. Two names in one place, `"tasks waker_slot"`, are a thing and its part, which may use each other. Where a row or a
//! name is missing, tidy prints the order that the code has.

/// The rows, by name.
#[rustfmt::skip] // a row is an order
pub const ORDERS: &[(&str, &[&str])] = &[
    ("acme", &["metrics", "issuer", "known", "schedule", "order", "pending", "account", "folder", "sender", "failed"]),
    ("admin", &["server", "process", "dashboard", "pages", "host", "api", "exposition", "admission", "socket", "stalled", "numbers"]),
    ("balance", &["pools", "algorithms", "parts", "seam", "measurement", "endpoints", "machines", "structures"]),
    ("config", &[
        "tables", "changes", "list", "builder", "load", "render", "reference", "schema",
        "root", "checks", "machine", "plan", "sections", "table", "foreign", "form",
        "nearest", "printable", "quantity", "tree", "diagnostic", "masked", "code", "source",
    ]),
    ("config/table", &["algorithm", "values", "declare", "reader", "planned", "secrets", "words", "field", "lines", "section", "balance", "row"]),
    ("discovery", &[
        "providers", "metrics", "following", "sources", "context", "polling", "out", "kept", "ask", "message", "system", "lock",
    ]),
    ("dns", &[
        "server", "metrics", "worker", "tcp", "udp", "binding", "core", "answer",
        "records", "client", "rate", "cookie", "soa", "zone", "reply", "query", "pools", "stats",
    ]),
    ("draw", &["flow", "heatmap", "intervals", "phases", "panels", "share", "spark", "chart", "page", "axis", "number"]),
    ("evenkeel", &[
        "commands greeting", "arguments", "output", "reach", "serve", "signals", "watchdog", "notify", "offered", "upgrade",
        "window", "predictions", "registry", "asked", "configured", "traces", "failure log",
    ]),
    ("lab", &[
        "experiments", "balancers", "bare", "evenkeel", "experiment", "strace", "worker", "study", "hosts", "progress", "report",
        "stats", "client load", "endpoint", "clock", "machine", "origin", "child", "procfs", "rng", "scratch", "wire", "http",
        "error requirements",
    ]),
    ("net", &[
        "workers", "inherit", "dial", "listen", "accept_pause", "datagrams", "tokio_io", "splice", "transport", "tls", "stream",
        "log_writer", "line_socket", "line_file", "total", "counter", "deadline", "buffer", "event_loop", "boxed", "clock",
    ]),
    ("net/event_loop", &["rest", "alarm", "source", "reactor", "budget", "tasks waker_slot", "units", "task_waker", "remote_waker", "fake_clock kernel"]),
    ("proxy", &["plan", "http", "tcp", "udp", "listener", "load", "upstream", "http2", "core", "observe", "peer"]),
    ("proxy/core", &["handoff", "idle_limit", "linger"]),
    ("proxy/http2", &["turn", "session stream", "message", "part", "arrived"]),
    ("proxy/listener", &[
        "secure", "admit", "route_why", "probe_answers", "client", "rules", "compiled", "error_pages", "per_route",
        "mark", "tls_route", "handshakes", "tls", "route", "by_host",
    ]),
    ("proxy/load", &["probe", "reports", "load_report"]),
    ("proxy/load/probe", &["http", "datagram", "outstanding"]),
    ("proxy/observe", &[
        "metrics", "shown", "numbers", "traces", "trace", "taps", "watched", "explaining", "access_log",
        "route_stats stats", "flow_end", "dropped_report", "request_id", "end",
    ]),
    ("proxy/observe/access_log", &["template", "line", "names", "noted", "front", "backwards", "quoted"]),
    ("proxy/observe/metrics", &["endpoints", "listeners", "pools", "reports", "udp", "modes"]),
    ("proxy/peer", &["admission", "per_address", "forwarded", "hash_key", "min_rate", "address_text"]),
    ("proxy/plan", &["alone", "server", "tap", "look", "worker", "secured", "install", "parts", "accept installed"]),
    ("proxy/plan/server", &["prepare"]),
    ("proxy/tcp", &["lifetime", "record", "duplex"]),
    ("proxy/udp", &["listener", "table", "flow"]),
    ("proxy/upstream", &[
        "connections", "session", "pick", "retries", "pool", "sessions", "rules", "sticky", "idle", "probe_rate",
        "stream", "link", "allowance", "waiting", "tls",
    ]),
    ("runtime", &[
        "runtime", "lost", "metrics", "plane", "restart", "generation", "membership", "control", "check", "snapshot", "pool", "history",
        "events", "orders", "journal",
    ]),
    ("sim", &[
        "builtin", "shadow", "report", "json", "text", "verdict", "results", "interval", "file", "experiment", "metric",
        "engine", "scenario", "run", "work",
    ]),
    ("tls", &[
        "metrics", "store", "endpoints", "clients", "inspect", "names", "ocsp", "tickets", "identity", "challenges", "authorities",
        "proof", "pair", "clock", "pem", "provider",
    ]),
    ("tower", &["balance builder", "endpoints", "future", "completion", "returns", "wakes", "clock", "error"]),
    ("view", &[
        "words", "timeline", "latencies", "history", "status", "config", "orders", "events", "picks", "described", "shadows",
        "served", "tap",
    ]),
    ("wire", &["proxy_protocol", "tls_hello", "h2", "http1", "grpc", "orca", "trace_context", "head"]),
    ("wire/h2", &[
        "send", "blocks", "receive", "connection settings", "streams", "event", "head", "flow", "flood", "frame", "hpack", "protocol",
    ]),
    ("wire/h2/hpack", &["encoder", "decoder", "table", "static_table", "huffman", "integer"]),
    ("wire/http1", &[
        "translate", "mend", "request", "response", "tolerance", "reply", "max_forwards", "fields", "tokens", "body", "chunked", "kind",
        "limits", "reject", "version",
    ]),
];
