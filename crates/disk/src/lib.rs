//! Stored responses on disk: the second tier of a cache, which outlives its process.
//!
//! The file is a ring of segments. Records are appended to the newest one; before the ring comes round, the oldest segment is
//! reclaimed, and what was read from it since it was written is written again. An index in memory has the place of each
//! response, 24 bytes for one.
//!
//! - [`Disk`]: the tier as requests, purges and evictions see it. Nothing of it waits for the disk.
//! - `queue`: work for the `writer`, which owns the newest segment; `reads`: threads that read, and the requests that wait.
//! - `index`: places of responses; `purges`: those by prefix, tag or of everything, which responses are checked against when
//!   they are read.
//! - `shared`: the state of all of these, and the stage that the tier is in.
//! - `scan`: the index from the file, beside serving. Responses are found once it is done.
//! - `file`: the file, its lock and its room; `layout`: where segments are.
//!
//! **Purges** are records of the same log: they are behind what they were meant for, and are found by a scan for as long as
//! that can be found. A purge of a URL takes its responses out of the index, the others are in a list until all segments
//! before them are reclaimed. Where a bound is exceeded, too much is purged, never too little: so after a part of a file that
//! cannot be read, as it may have been a purge, all that is older is dropped.
#![forbid(unsafe_code)]

// Order: tier, scan, reads, writer, shared, queue, index, purges, file, counts, layout, failure
mod counts;
mod failure;
mod file;
mod index;
mod layout;
mod purges;
mod queue;
mod reads;
mod scan;
mod shared;
mod tier;
mod writer;

pub use counts::Counts;
pub use failure::Failure;
pub use file::check;
pub use layout::Options;
pub use queue::Ticket;
pub use reads::{Loaded, READ_MAX, Read};
pub use shared::Stage;
pub use tier::{Disk, Hidden, RETRY_EVERY};
