//! What do clients read in the answers that evenkeel makes itself? [`Errors`].

use crate::table::words;

words! {
    /// What the body of an answer says that no endpoint has given.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Errors {
        /// The status, its phrase, and the id of the request.
        #[default]
        Terse = "terse",
        /// The reason too, with names of pools and addresses of endpoints.
        Detailed = "detailed",
    }
}
