//! The rules of a shared HTTP cache (RFC 9111), without I/O and without a clock: heads and a moment in, decisions out.
//! [`store`] keeps responses and knows no rules. A shell moves the bytes.
//!
//! An exchange passes these files in this order:
//!
//! 1. [`lookup`]: the wishes of the request, or the reason why it bypasses the cache. [`key`]: its key.
//! 2. [`vary`]: the choice among the responses under that key.
//! 3. [`decide`]: fresh, stale but served, or to be validated, and with which fields.
//! 4. [`answer`]: status, fields and slice of a stored response, with [`conditional`] and [`range`].
//! 5. [`storable`]: the [`reply`] of an endpoint becomes a [`stored::Stored`], or there is a [`refusal`].
//! 6. [`freshen`]: a 304 or a response to HEAD renews a stored response. [`invalidate`]: an unsafe request ends it.
//! 7. [`status`]: the `Cache-Status` of all that. [`tags`]: names by which purges select responses.
//!
//! [`record`] is the form in which stored responses and purges leave the process, for another process and for files.
//!
//! The smallest shell around them is the model of this crate's tests, `tests/model`.
#![forbid(unsafe_code)]

// Order: record, store, answer, conditional, status, decide, freshen, storable, range, tags, vary, lookup, stored,
// freshness, policy, age, reply, invalidate, key, refusal, syntax, moment
pub mod age;
pub mod answer;
pub mod conditional;
pub mod decide;
pub mod freshen;
pub mod freshness;
pub mod invalidate;
pub mod key;
pub mod lookup;
pub mod moment;
pub mod policy;
pub mod range;
pub mod record;
pub mod refusal;
pub mod reply;
pub mod status;
pub mod storable;
pub mod store;
pub mod stored;
pub mod syntax;
pub mod tags;
pub mod vary;
