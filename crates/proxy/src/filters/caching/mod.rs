//! Filter that answers requests with stored responses, and stores responses of endpoints ([`cache`]). The request to an
//! endpoint is a [`fetch`]. The body of a response that is to be stored is read by a separate task
//! ([`relay`](crate::forward::relay)); a stale response that is served meanwhile is validated [`behind`] the request. After a 304 for other content the response is fetched [`anew`]. [`trial`] predicts all that for a request that is only described.

mod anew;
mod behind;
pub mod cache;
mod collapse;
mod fetch;
mod responses;
mod rules;
mod trial;
