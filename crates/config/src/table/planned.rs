//! Which keys are known but not read yet? They are named as such, and not taken for typos.

/// Table path and the keys that are planned in it.
pub(crate) const PLANNED: &[(&str, &[&str])] = &[
    ("[runtime]", &["state_dir"]),
    ("http of [admin]", &["token_file", "allow_write"]),
    ("[telemetry]", &["tracing"]),
    ("access_log of [telemetry]", &["sample"]),
    ("[listener.NAME]", &["protocols"]),
    ("limits of [listener.NAME]", &["h2_streams"]),
    ("[[route]]", &["split", "headers"]),
    ("match of [[route]]", &["method", "header"]),
    ("limits of [pool.NAME]", &["connections_per_endpoint"]),
];

/// Whether a later version will read this key.
pub(crate) fn is_planned(table: &str, key: &str) -> bool {
    PLANNED.iter().any(|(path, keys)| *path == table && keys.contains(&key))
}
