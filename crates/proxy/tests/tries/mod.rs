//! A request that is sent more than once: tried again, or hedged.

mod hedging;
mod retries;
