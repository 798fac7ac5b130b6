//! `subset` of a pool: the part of the endpoints that an instance uses. See [`Subset`].

use crate::form::Form;
use crate::table::{Absent, Key, Kind, table};
use std::sync::Arc;

table! {
    pub(super) static SUBSET = "subset of [pool.NAME]",
        "The part of the endpoints that this instance uses. The endpoints of a tier form a ring, and each instance \
        uses `size` endpoints from its position on. Instances numbered from 0 use all endpoints almost equally often; \
        adding or removing an instance changes nothing for the others, and adding or removing an endpoint changes at \
        most two endpoints of an instance.";

    /// `subset` of a pool.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Subset {
        /// Number of endpoints to use from each tier.
        size: u32 = Key {
            name: "size",
            kind: Kind::Int { min: 1, max: 65_535 },
            absent: Absent::Required("20"),
            help: "Number of endpoints to use from each tier.",
            why: "",
        };
        /// Name of this instance; `None` = the host name.
        instance: Option<Arc<str>> = Key {
            name: "instance",
            kind: Kind::Text(Form::Label),
            absent: Absent::Means("the host name"),
            help: "Name of this instance. A name that ends in a number counts as that number; any other name is \
                hashed.",
            why: "",
        };
    }
}
