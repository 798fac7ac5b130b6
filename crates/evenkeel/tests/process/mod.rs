//! A whole process with nothing to do, with a worker that is stuck, or with a standard error that nothing reads; commands whose
//! reader is gone.

mod following;
mod idle;
mod stuck;
mod unread;
