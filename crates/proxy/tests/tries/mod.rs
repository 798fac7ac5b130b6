//! Requests that are sent more than once: retries and hedges.

mod hedging;
mod retries;
