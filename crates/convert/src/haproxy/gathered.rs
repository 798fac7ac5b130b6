//! Settings of a backend that several lines contribute to: checks, times, and settings that its servers share.

use super::lexer::Item;
use crate::ledger::{Ledger, Line};
use crate::model::{Draft, PoolKeys, Value};
use evenkeel_config::draft::KeyOf;
use evenkeel_config::plan::{HealthCheck, Pool};

/// Settings of a backend that come together from several lines.
#[derive(Default)]
pub(super) struct Gathered {
    pub is_tcp: bool,
    pub check: Option<Line>,
    pub kind: Option<(Line, Draft<HealthCheck>)>,
    pub unchecked: Option<Line>,
    pub http: Draft<HealthCheck>,
    pub expects: bool,
    pub check_timeout: Option<u64>,
    pub interval: Option<u64>,
    pub server_timeout: Option<(u64, Line)>,
    pub tunnel: Option<u64>,
    pub sticks: Option<Line>,
    pub has_balance: bool,
    /// Sends of a TCP check, each with the expected reply.
    pub exchanges: Vec<(String, Option<String>, Line)>,
    /// Values of the first server for settings that belong to the pool here.
    pub common: PoolKeys,
}

/// Notes a value that all endpoints of a pool share here. The first server's counts; others that differ are reported.
pub(super) fn common(
    key: KeyOf<Pool>,
    value: impl Into<Value>,
    line: Line,
    gathered: &mut Gathered,
    ledger: &mut Ledger,
) {
    let (mut probe, value) = (gathered.common.clone(), value.into());
    match probe.put(key, value.clone()) {
        Some(old) if old != value => {
            let reason = format!("{key} is a key of the pool: the value of its first server counts for all");
            ledger.changes(line, reason, "make a pool of the servers that differ");
        }
        _ => gathered.common = probe,
    }
}

/// Reports a value that is not of the kind that its directive takes.
pub(super) fn unreadable(item: &Item, ledger: &mut Ledger) {
    ledger.changes(item.line, "its value was not understood", "set the value by hand");
}
