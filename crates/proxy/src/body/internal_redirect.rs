//! Internal redirects: another route answers a request, with the page of an error or for a path that an endpoint names.

use evenkeel_wire::head::Table;

/// Route that is to answer, and the changes to its response.
#[derive(Debug)]
pub struct InternalRedirect {
    pub to: To,
    pub changes: Changes,
}

/// Choice of the route: by its index, or by a path.
#[derive(Debug)]
pub enum To {
    /// Route with this index, for the page of an error. `target`: path and query, if not the client's.
    Page { route: usize, target: Option<Box<str>> },
    /// Internal route that matches this path and query, which an endpoint has named.
    Path(Box<str>),
}

/// Changes to the response of the route that answers.
#[derive(Debug, Default)]
pub struct Changes {
    /// Status for the client; `None` keeps the status of the response.
    pub status: Option<u16>,
    /// Fields that replace fields of the same name, except `Set-Cookie`, which is added.
    pub fields: Table,
}
