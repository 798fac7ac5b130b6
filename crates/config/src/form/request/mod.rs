//! Forms of parts of requests: paths and their patterns, hosts and fields for endpoints, and values with variables.

pub(super) mod field_name;
pub(super) mod path;
pub(super) mod path_parts;
pub(super) mod pieces;
pub(super) mod regex;
pub(super) mod send_host;
pub(super) mod template;
