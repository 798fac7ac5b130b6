//! Stored responses on disk: the second tier of a cache, which outlives its process.
//!
//! The file is a ring of segments. Records are appended to the newest segment. Before the ring comes round, the oldest
//! segment is reclaimed, and the responses in use are written again. An index in memory has the place of each response,
//! at 24 bytes.
//!
//! - [`Disk`]: the tier as requests, purges and evictions see it. None of its methods for requests waits for the disk.
//! - `queue`: work for the `writer`, which owns the newest segment; `reads`: threads that read, and the requests that
//!   wait.
//! - `response`: a response at a place of the file.
//! - `index`: places of responses; `purges`: purges by prefix, by tag or of everything, against which responses are
//!   checked when they are read.
//! - `shared`: the state of all of these, and the stage of the tier.
//! - `history`: keys that left the memory, by which a full disk admits responses.
//! - `scan`: builds the index from the file while the proxy serves. Responses are found once it is done.
//! - `file`: the file, its lock and its room; `layout`: the places of segments; `clock`: the moments of records.
//!
//! **Purges** are records of the same log. A purge lies behind the responses that it covers, and a scan finds it for as
//! long as it finds them. A purge of a URL removes its responses from the index. Other purges are in a list until all
//! segments before them are reclaimed. Where a bound is exceeded, too much is purged, never too little: an unreadable
//! part of a file may have held a purge, so everything before it is dropped.
#![forbid(unsafe_code)]

// Order: tier, scan, reads, writer, response, shared, queue, index, history, purges, file, clock, counts, layout, failure
mod clock;
mod counts;
mod failure;
mod file;
mod history;
mod index;
mod layout;
mod purges;
mod queue;
mod reads;
mod response;
mod scan;
mod shared;
mod tier;
mod writer;

pub use clock::Clock;
pub use counts::Counts;
pub use failure::Failure;
pub use file::check;
pub use layout::{Admit, Options};
pub use queue::Ticket;
pub use reads::{AT_ONCE_MAX, Loaded, READ_MAX, Read};
pub use response::{MakeBody, plain_body};
pub use shared::Stage;
pub use tier::{Disk, Hidden, RETRY_EVERY};
