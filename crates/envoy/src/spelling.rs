//! Settings about spellings of paths, which become `paths` of the listener, and of names of fields, which no listener of
//! a plan has. There a rejection is refused: its operator relies on it. The others are noted, see [`Node::note`].

use crate::node::Node;
use evenkeel_config::plan::Paths;

/// Reason for which a rejection is refused. No criterion of a route is about names of fields, so no route can refuse them.
const PASSES: &str = "REJECT_REQUEST has no counterpart, and such requests would pass";

/// Difference where only one of two settings for paths is on.
const HALF: &str = "a path gets a 400 if it is for another route in its normal form, which has slashes merged, segments `.` \
    and `..` resolved, and encoded letters decoded";

/// Reads the settings of a connection manager. Returns the setting for paths that servers may read in several ways.
///
/// # Errors
/// The setting that rejects requests.
pub fn of_requests(manager: &Node<'_>) -> Result<Paths, String> {
    const KEEP_UNCHANGED: u64 = 1;
    const REJECT_REQUEST: u64 = 2;
    let (resolves, merges) = (manager.wrapped("normalize_path") == Some(1), manager.flag("merge_slashes"));
    let normalises = resolves || merges;
    let is_half = manager.is_of_file() && resolves != merges;
    if is_half {
        let field = if resolves { "normalize_path" } else { "merge_slashes" };
        manager.refuse(field, HALF)?;
    }
    let paths = match manager.number("path_with_escaped_slashes_action") {
        0 | KEEP_UNCHANGED if !normalises => Paths::AsSent,
        // A normal form may reach a route that Envoy does not choose, and the path as sent may pass a refusal.
        0 | KEEP_UNCHANGED if is_half => Paths::Refuse,
        REJECT_REQUEST => {
            // Escaped slashes that lead to no other route pass, unless a reader of files adds routes that refuse them.
            if !manager.is_of_file() {
                manager.note("path_with_escaped_slashes_action");
            }
            Paths::Refuse
        }
        _ => Paths::Normalise,
    };
    manager.node("common_http_protocol_options").map_or(Ok(()), of_fields)?;
    Ok(paths)
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
