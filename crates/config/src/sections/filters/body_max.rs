//! `body_max` of a route: the largest body of a request.

use crate::table::{Absent, Key, Kind};

/// The key `body_max` of routes.
pub(in crate::sections) const BODY_MAX: Key = Key {
    name: "body_max",
    kind: Kind::Size { min: 0, max: 1 << 40, off: true },
    absent: Absent::Default("\"off\""),
    help: "Maximum bytes of a request body. A request that states a larger length gets a 413 before its body is read. \
        A request without a length is ended when its body exceeds the limit.",
    why: "Applications know what they accept, and evenkeel buffers little of a body, whatever its length.",
};
