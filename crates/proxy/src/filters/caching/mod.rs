//! Filter that answers requests with stored responses, and stores responses of endpoints ([`cache`]). The request to an
//! endpoint is a [`fetch`]. A body is kept while it passes ([`fill`]); a stale response that is served meanwhile is
//! validated [`behind`] the request. After a 304 for other content the response is fetched [`anew`]. [`trial`] predicts all that for a request that is only described.

mod anew;
mod behind;
pub mod cache;
mod fetch;
pub mod fill;
mod responses;
mod rules;
mod trial;
