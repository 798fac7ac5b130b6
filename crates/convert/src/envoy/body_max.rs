//! `envoy.filters.http.buffer`: `body_max` of routes.

use super::behind::Behind;
use super::per_route::{Settings, settings};
use crate::ledger::Ledger;
use crate::tree::Node;

/// Adds the limit of a filter to the routes. False if it has none that can be read.
pub(super) fn read(filter: &Node, manager: &Node, routes: &mut [Behind<'_>], ledger: &mut Ledger) -> bool {
    let limit = |of: &Node, path: &str| of.at(path).and_then(Node::text).and_then(|text| text.parse::<u64>().ok());
    let Some(base) = limit(filter, "typed_config.max_request_bytes") else { return false };
    let name = filter.get("name").and_then(Node::text).unwrap_or_default();
    for route in routes {
        let most = match settings(manager, &route.host, Some(&route.label), name) {
            Settings::Same => Some(base),
            Settings::Off(line) => {
                ledger.carried(line);
                None
            }
            Settings::Other(table) => {
                table.carried(ledger);
                let is_off = table.get("disabled").and_then(Node::text) == Some("true");
                (!is_off).then(|| limit(table, "buffer.max_request_bytes").unwrap_or(base))
            }
        };
        let bound = route.filters.body_max.into_iter().chain(most).min();
        route.filters.body_max = bound;
    }
    let reason = "a request without a route gets a 404, however long its body is";
    ledger.changes(filter.line, reason, "");
    filter.carried(ledger);
    true
}
