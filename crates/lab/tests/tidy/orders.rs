//! Orders of crates and folders, from top to bottom: each file or folder may use itself and those below it.
//!
//! A row is named by its crate, or by a folder below its `src/`. `lib.rs` and `main.rs` stand above all, `mod.rs` with
//! its whole folder. Two names in one place, `"tasks waker_slot"`, are a thing and its part, which may use each other.
//! If a row or name is missing, tidy prints the order that the code has.

/// Rows by name, each from top to bottom.
#[rustfmt::skip] // a row is an order
pub const ORDERS: &[(&str, &[&str])] = &[
    ("acme", &["metrics", "issuer", "known", "schedule", "order", "pending", "account", "folder", "sender", "failed"]),
    ("admin", &["server", "process", "dashboard", "pages", "host", "api", "scrape", "exposition", "admission", "socket", "stalled", "numbers"]),
    ("balance", &["pools", "algorithms", "parts", "seam", "measurement", "endpoints", "machines", "structures"]),
    ("cache", &[
        "record", "store", "answer", "conditional", "status", "decide", "freshen", "storable", "range", "tags", "vary", "lookup", "stored", "freshness", "policy", "age", "reply",
        "invalidate", "key", "refusal", "syntax", "moment",
    ]),
    ("cache/record", &["purge", "response", "cursor", "frame"]),
    ("cache/store", &["browse", "restore", "shard eviction", "sketch", "slots", "item", "entry", "keys", "counts", "purge", "results", "object forms", "options"]),
    ("cache/syntax", &["directives", "entity_tag", "structured", "list", "date"]),
    ("cluster", &["conformance", "demo", "evenkeel", "load", "rig", "pods", "server", "slices", "objects", "contained"]),
    ("compress", &["response", "tags", "refusal", "media", "encoder", "accept", "coding"]),
    ("convert", &[
        "nginx", "haproxy", "traefik", "caddy", "envoy", "rewriting", "recognise", "reconcile", "template", "expression", "limits", "tree",
        "durations", "compression", "protection", "model", "ledger", "report",
    ]),
    ("config", &[
        "builder", "changes", "list", "load", "render", "tables", "reference", "schema", "root", "checks", "planes", "machine", "plan",
        "sections", "table", "foreign", "form", "nearest", "printable", "quantity", "tree", "diagnostic", "code", "secret",
        "source", "subject", "wildcard",
    ]),
    ("config/planes", &["page", "report", "policies", "algorithms"]),
    ("config/secret", &["masked", "names"]),
    ("config/table", &["algorithm", "values", "declare", "hiding", "reader", "secrets", "words", "field", "lines", "section", "balance", "row"]),
    ("discovery", &[
        "metrics", "providers", "following", "sources", "ask", "context", "engine", "cluster", "etcd", "xds", "grpc", "blocking", "registry",
        "backoff", "entries", "guard", "message", "polling", "out", "kept", "shared", "slices", "lock", "system",
    ]),
    ("discovery/providers/xds", &[
        "catalog", "plan", "listener", "route", "action", "cluster", "checks", "tls", "retry", "headers", "spelling", "order", "names", "matching",
        "wire", "schema",
    ]),
    ("discovery/xds", &["ads", "world delta", "session", "topics", "assignment", "consumer", "messages"]),
    ("discovery/etcd", &["members", "keys", "messages"]),
    ("disk", &["tier", "scan", "reads", "writer", "shared", "queue", "index", "purges", "file", "counts", "layout", "failure"]),
    ("dns", &[
        "server", "metrics", "worker", "tcp", "udp", "binding", "core", "answer",
        "records", "client", "rate", "cookie", "soa", "zone", "reply", "query", "pools", "stats",
    ]),
    ("draw", &["flow", "heatmap", "intervals", "phases", "panels", "share", "spark", "chart", "page", "axis", "number"]),
    ("evenkeel", &[
        "commands greeting", "arguments", "output", "reach", "serve", "asked_at", "signals", "watchdog", "notify", "offered", "upgrade",
        "window", "predictions", "registry", "asked", "configured", "in_use", "traces", "failure log",
    ]),
    ("fetch", &["lines", "client", "streams", "socket", "server", "fault"]),
    ("kernel", &[
        "plane", "explain worker", "prerequisites", "cleanup", "claim", "numbers", "blueprint", "ids", "drivers", "ebpf", "ipvs", "nftables", "conntrack",
        "sockets", "driver", "service", "netlink",
    ]),
    ("kernel/ipvs", &["lacks", "state", "masquerade", "steps", "table", "entry", "weights"]),
    ("kernel/nftables", &["feedback", "obstacles", "listing", "conditions", "ruleset", "transaction", "expressions", "family", "shares"]),
    ("kernel/netlink", &["generic", "batch", "socket", "events", "message", "attributes"]),
    ("kernel/ebpf", &["connect", "forward", "recount", "maps", "object", "ranges", "tables", "layout", "sys"]),
    ("kernel/ebpf/forward", &["sweep", "ends", "walk", "memory", "interfaces"]),
    ("lab", &[
        "experiments", "experiment", "setups", "balancers", "study", "load", "client", "worker", "endpoint", "bare",
        "strace", "certificates", "origin", "hosts", "machine", "procfs", "child", "scratch", "wire", "http", "stats", "rng",
        "report", "progress", "clock", "error", "requirements",
    ]),
    ("net", &[
        "workers", "inherit", "dial", "listen", "accept_pause", "datagrams", "tokio_io", "splice", "pages", "transport", "tls", "stream",
        "log_writer", "line_socket", "line_file", "total", "counter", "deadline", "buffer", "event_loop", "boxed", "clock",
    ]),
    ("net/event_loop", &["allowance", "rest", "alarm", "source", "reactor", "budget", "tasks waker_slot", "units", "task_waker", "remote_waker", "fake_clock kernel"]),
    ("peers", &["addresses", "trusting"]),
    ("proxy", &[
        "plan", "serve", "forward", "pipeline", "record", "tcp", "udp", "listener", "filters", "side", "load", "upstream", "http2", "body",
        "core", "observe", "peer", "cache", "encoder_memory", "threads",
    ]),
    ("proxy/body", &["downstream", "upstream", "framing", "message", "chain", "filter", "part", "fault", "response"]),
    ("proxy/cache", &["filling", "handover", "state", "encodings", "asked", "stream", "disk", "flights", "counts", "keys", "partner"]),
    ("proxy/core", &["handoff", "idle_limit", "linger"]),
    ("proxy/filters", &[
        "table", "access", "acme_challenge", "answering", "auth", "client", "forwarded", "headers", "hsts", "https_redirect", "limits", "load",
        "caching", "services", "loop_mark", "max_forwards", "policies", "request_id", "rewriting", "sticky", "trace", "template", "list", "row", "step",
        "filter", "exchange", "states",
    ]),
    ("proxy/filters/answering", &["maintenance", "redirect", "respond"]),
    ("proxy/filters/auth", &["basic_auth", "jwt", "token"]),
    ("proxy/filters/caching", &["trial", "cache", "behind", "responses", "fill", "rules"]),
    ("proxy/filters/headers", &["cookies", "request", "response", "changes"]),
    ("proxy/filters/policies", &["bandwidth", "compress", "compress_body", "compressed", "preflight", "cors", "body_max", "host_groups"]),
    ("proxy/filters/load", &["field", "report"]),
    ("proxy/filters/rewriting", &["rewrite", "restore", "send_host"]),
    ("proxy/filters/services", &["forward_auth", "mirror", "copied"]),
    ("proxy/filters/template", &["value", "variables", "source", "parameters", "lines"]),
    ("proxy/forward", &["attempts", "attempt", "hedge", "attempt_end", "relay", "outgoing"]),
    ("proxy/http2", &["turn", "session stream", "arrived", "output"]),
    ("proxy/pipeline", &["response", "route", "trailers", "websocket"]),
    ("proxy/record", &["access_line", "explanation", "export", "counters", "progress", "grpc"]),
    ("proxy/serve", &["connection", "h2", "h1_answer", "h1 h1_parts", "message", "open"]),
    ("proxy/listener", &[
        "admit", "probe_answers", "route_why", "secure", "client", "compiled rules", "error_pages", "handshakes",
        "per_route", "tls", "tls_route", "candidates route", "by_host", "criteria", "paths",
    ]),
    ("proxy/load", &["probe", "reports", "load_report"]),
    ("proxy/load/probe", &["http", "datagram", "outstanding"]),
    ("proxy/observe", &[
        "access_log", "explanations", "metrics", "request_id", "shown", "shown_cache", "shown_routes", "numbers", "taps", "traces", "finished", "summary", "tries",
        "route_stats stats", "timing", "dropped_report", "end", "flow_end", "latency",
    ]),
    ("proxy/observe/access_log", &["template", "line", "names", "layout", "front", "backwards", "quoted"]),
    ("proxy/observe/metrics", &["cache", "compression", "endpoints", "limits", "listeners", "pools", "reports", "udp", "modes", "used"]),
    ("proxy/peer", &[
        "admission", "per_address", "limits", "bandwidth", "key_table", "route_files", "access", "passwords", "watched_files", "forwarded", "hash_key", "min_rate",
        "address_text", "sender",
    ]),
    ("proxy/peer/passwords", &["users verifier", "credentials", "hash", "places", "networks", "results"]),
    ("proxy/plan", &[
        "alone", "server", "secured", "tap", "look", "dry_run", "worker", "install", "parts", "accept installed",
    ]),
    ("proxy/plan/server", &["prepare", "sticky_key"]),
    ("proxy/side", &["copy", "send", "attempt", "request"]),
    ("proxy/tcp", &["lifetime", "record", "duplex"]),
    ("proxy/udp", &["listener", "table", "flow"]),
    ("proxy/upstream", &[
        "connections", "h1_endpoint", "session", "pick", "retries", "target", "pool", "idle", "probe_rate", "sessions", "marked",
        "rules", "hosts", "sticky", "stream", "link", "allowance", "waiting", "tls",
    ]),
    ("runtime", &[
        "runtime", "lost", "metrics", "plane", "control", "check", "ledger", "generation", "membership", "splits", "snapshot", "pool",
        "history", "events", "journal", "orders",
    ]),
    ("sim", &[
        "builtin", "shadow", "report", "json", "text", "verdict", "results", "interval", "file", "experiment", "metric",
        "engine", "scenario", "planes", "run", "work",
    ]),
    ("tls", &[
        "metrics", "store", "endpoints", "clients", "inspect", "names", "ocsp", "tickets", "identity", "challenges", "authorities",
        "proof", "pair", "clock", "pem", "provider",
    ]),
    ("tokens", &["machine", "metrics", "follow", "fetch", "routes", "check", "cache", "verifier", "values", "source", "keys", "token", "claims", "refused"]),
    ("tower", &["balance builder", "endpoints", "future", "completion", "returns", "wakes", "clock", "error"]),
    ("view", &[
        "described", "events", "picks", "shadows", "tap", "timeline", "durations", "history", "latencies", "words", "status", "served",
        "cache", "config", "orders",
    ]),
    ("proxy/forward/attempt", &["on_stream", "moves"]),
    ("proxy/forward/relay", &["bytes", "parts", "decision", "tunnel"]),
    ("wire", &["endpoint_head", "proxy_protocol", "tls_hello", "h2", "http1", "grpc", "orca", "trace_context", "prefixes", "path", "host", "head"]),
    ("wire/h2", &[
        "send", "blocks", "receive", "connection settings", "streams", "event", "head", "flow", "flood", "frame", "hpack", "protocol",
    ]),
    ("wire/h2/hpack", &["encoder", "decoder", "table", "static_table", "huffman", "integer"]),
    ("wire/http1", &[
        "translate", "mend", "request", "response", "tolerance", "max_forwards", "fields", "tokens", "body", "chunked", "kind",
        "limits", "reject", "version",
    ]),
];
