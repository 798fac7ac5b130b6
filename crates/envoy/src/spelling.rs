//! Settings about spellings of paths and of names of fields, which become `paths` and `underscores` of the listener.

use crate::node::Node;
use evenkeel_config::plan::{Paths, Underscores};

/// Difference where only one of two settings for paths is on.
const HALF: &str = "a path gets a 400 if it is for another route in its normal form, which has slashes merged, segments `.` \
    and `..` resolved, and encoded letters decoded";

/// Reads the settings of a connection manager for paths that servers may read in several ways.
///
/// # Errors
/// A difference that is refused.
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
    Ok(paths)
}

/// Reads the setting of a protocol for fields with `_` in their names.
pub fn of_fields(options: &Node<'_>) -> Underscores {
    const REJECT_REQUEST: u64 = 1;
    const DROP_HEADER: u64 = 2;
    match options.number("headers_with_underscores_action") {
        REJECT_REQUEST => Underscores::Refuse,
        DROP_HEADER => Underscores::Drop,
        _ => Underscores::Keep,
    }
}
