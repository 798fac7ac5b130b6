//! Which part of the endpoints does an instance use? [`Subset`], `subset` of a pool.

use crate::form::Form;
use crate::table::{Absent, Key, Kind, table};
use std::sync::Arc;

table! {
    pub(super) static SUBSET = "subset of [pool.NAME]",
        "The endpoints of a tier on a ring, of which each instance takes some from its own place on. Instances numbered \
        from 0 use each endpoint equally often, but for a few; an instance that is added or removed changes nothing for \
        the others, and an endpoint that is added or removed changes at most two endpoints of an instance.";

    /// `subset` of a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Subset {
        /// Endpoints to use of each tier.
        size: u32 = Key {
            name: "size",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Required("20"),
            help: "Endpoints to use of each tier.",
            why: "",
        };
        /// Which instance this is; `None` = the one of this host.
        instance: Option<Arc<str>> = Key {
            name: "instance",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the host's name"),
            help: "Which instance this is: a name with a number at its end counts as that number, any other by its hash.",
            why: "",
        };
    }
}
