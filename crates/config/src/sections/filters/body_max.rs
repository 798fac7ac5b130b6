//! `body_max` of a route: the largest body of a request.

use crate::table::{Absent, Key, Kind};

/// The key `body_max` of routes.
pub(in crate::sections) const BODY_MAX: Key = Key {
    name: "body_max",
    kind: Kind::Size { min: 0, max: 1 << 40, off: true },
    absent: Absent::Default("\"off\""),
    help: "Most bytes of the body of a request. One that states more is answered 413 before its body is read; \
        one without a length is ended when it exceeds them.",
    why: "Applications know what they accept; evenkeel buffers little of a body, whatever its length.",
};
