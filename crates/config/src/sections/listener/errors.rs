//! `errors` of a listener: the detail in responses that evenkeel generates itself. See [`Errors`].

use crate::table::words;

words! {
    /// Body of a response that does not come from an endpoint.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Errors {
        /// Status, reason phrase, and the request's id.
        #[default]
        Terse = "terse",
        /// Also the reason, with names of pools and addresses of endpoints.
        Detailed = "detailed",
    }
}
