//! How does a request get to an endpoint? A [`pool`] as one worker sees it: [`pick`] has a place at an endpoint, or waits for
//! one; [`sticky`] knows where a session was; [`connections`] has a connection there; [`retries`] says what may be tried again.

pub mod connections;
pub mod pick;
pub mod pool;
pub mod probe_rate;
pub mod retries;
pub mod sticky;
