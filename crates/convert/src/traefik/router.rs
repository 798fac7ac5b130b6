//! Routers: requests of some entry points, and the service that gets them.

use crate::ledger::Line;
use crate::tree::Node;

/// A router with its entry points and its priority.
pub(super) struct Router<'n> {
    pub name: &'n str,
    pub line: Line,
    pub node: &'n Node,
    /// Entry points, `web` unless it names others.
    pub names: Vec<String>,
    pub priority: u64,
    pub is_tls: bool,
}
