//! Settings about spellings of paths and of names of fields, which no listener of a plan has. A rejection is refused: its
//! operator relies on it. The others are noted, see [`Node::note`].

use crate::node::Node;

/// Reason for which a rejection is refused.
const PASSES: &str = "REJECT_REQUEST has no counterpart, and such requests would pass";

/// Reads the settings of a connection manager.
///
/// # Errors
/// The setting that rejects requests.
pub fn of_requests(manager: &Node<'_>) -> Result<(), String> {
    const KEEP_UNCHANGED: u64 = 1;
    const REJECT_REQUEST: u64 = 2;
    match manager.number("path_with_escaped_slashes_action") {
        0 | KEEP_UNCHANGED => {}
        REJECT_REQUEST => manager.refuse("path_with_escaped_slashes_action", PASSES)?,
        _ => manager.note("path_with_escaped_slashes_action"),
    }
    manager.node("common_http_protocol_options").map_or(Ok(()), of_fields)
}

/// Reads the settings of the protocol of a listener or a cluster.
///
/// # Errors
/// The setting that rejects requests.
pub fn of_fields(options: &Node<'_>) -> Result<(), String> {
    const ALLOW: u64 = 0;
    const REJECT_REQUEST: u64 = 1;
    match options.number("headers_with_underscores_action") {
        ALLOW => {}
        REJECT_REQUEST => options.refuse("headers_with_underscores_action", PASSES)?,
        _ => options.note("headers_with_underscores_action"),
    }
    Ok(())
}
