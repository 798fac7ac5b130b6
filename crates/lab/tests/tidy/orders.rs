//! Orders of the proxy, whose files still move; those of all other crates are in their modules.

/// Rows by crate or folder, each from top to bottom.
#[rustfmt::skip] // a row is an order
pub const ORDERS: &[(&str, &[&str])] = &[
    ("proxy", &[
        "plan", "serve", "forward", "pipeline", "record", "tcp", "udp", "listener", "filters", "side", "load", "upstream", "http2", "body",
        "core", "observe", "matching", "peer", "cache", "encoder_memory", "resource", "threads",
    ]),
    ("proxy/body", &["downstream", "upstream", "framing", "message", "chain", "filter", "part", "fault", "response", "internal_redirect"]),
    ("proxy/cache", &["resource", "handover", "encodings", "filling", "outcome", "stream", "disk", "clock", "flights", "growing", "counts", "reasons", "of_late", "keys", "partner"]),
    ("proxy/core", &["handoff", "idle_limit", "linger"]),
    ("proxy/filters", &[
        "table", "access", "acme_challenge", "announcing", "answering", "auth", "client", "forwarded", "headers", "https_redirect", "limits", "load",
        "caching", "services", "loop_mark", "max_forwards", "policies", "request_id", "rewriting", "sticky", "trace", "template", "list", "row", "step",
        "filter", "exchange", "redirects", "states", "watched_files",
    ]),
    ("proxy/filters/answering", &["maintenance", "redirect", "respond", "error_pages", "internal_redirects"]),
    ("proxy/filters/auth", &["basic_auth", "passwords", "jwt", "token"]),
    ("proxy/filters/auth/passwords", &["users verifier", "credentials", "hash", "places", "networks", "results"]),
    ("proxy/filters/caching", &["trial", "cache collapse", "anew", "behind", "responses", "fetch", "rules"]),
    ("proxy/filters/headers", &["cookies", "request", "response", "changes", "conditions"]),
    ("proxy/filters/policies", &["bandwidth", "compress", "compress_body", "compressed", "preflight", "cors", "body_max", "host_groups"]),
    ("proxy/filters/load", &["field", "report"]),
    ("proxy/filters/rewriting", &["rewrite", "restore", "send_host"]),
    ("proxy/filters/services", &["forward_auth", "mirror", "copied"]),
    ("proxy/filters/template", &["lookups", "value lookup", "maps", "variables", "source", "parameters", "lines"]),
    ("proxy/forward", &["attempts", "attempt", "hedge", "attempt_end", "relay", "outgoing"]),
    ("proxy/http2", &["turn", "session stream", "arrived", "output"]),
    ("proxy/pipeline", &["response", "redirect", "route", "trailers", "websocket"]),
    ("proxy/record", &["ended", "access_line", "explanation", "export", "grpc"]),
    ("proxy/serve", &["connection", "h3", "h2", "h1_request", "h1_answer", "h1 h1_parts", "message", "internal", "open"]),
    ("proxy/listener", &[
        "admit", "probe_answers", "route_why", "secure", "client", "compiled rules", "handshakes",
        "per_route", "tls", "tls_route", "route", "candidates readings", "by_host", "paths", "route_id",
    ]),
    ("proxy/load", &["probe", "reports", "load_report"]),
    ("proxy/load/probe", &["http", "datagram", "outstanding"]),
    ("proxy/observe", &[
        "access_log", "explanations", "metrics", "request_id", "shown", "shown_cache", "numbers", "taps", "traces", "finished", "summary", "tries",
        "route_stats stats", "timing", "dropped_report", "end", "flow_end", "latency",
    ]),
    ("proxy/observe/access_log", &["template", "line", "names", "layout", "front", "figures", "quoted"]),
    ("proxy/observe/metrics", &["compression", "endpoints", "listeners", "pools", "reports", "udp", "modes", "used"]),
    ("proxy/peer", &[
        "admission", "per_address", "connection_states", "key_table", "forwarded", "hash_key", "min_rate",
        "address_text", "sender", "quic",
    ]),
    ("proxy/plan", &[
        "alone", "server", "secured", "tap", "shown_maps", "shown_routes", "look", "dry_run", "worker", "install", "parts", "accept installed",
    ]),
    ("proxy/plan/server", &["prepare", "sticky_key"]),
    ("proxy/side", &["copy", "send", "attempt", "fill", "request"]),
    ("proxy/tcp", &["lifetime", "record", "duplex"]),
    ("proxy/udp", &["listener", "table", "flow", "quic_id"]),
    ("proxy/upstream", &[
        "connections", "h1_endpoint", "session", "pick", "retries", "target", "pool", "idle", "probe_rate", "sessions", "marked",
        "rules", "hosts", "sticky", "stream", "link", "allowance", "waiting", "tls",
    ]),
    ("proxy/forward/attempt", &["on_stream", "moves"]),
    ("proxy/forward/relay", &["bytes", "parts", "fill", "decision", "tunnel"]),
];
