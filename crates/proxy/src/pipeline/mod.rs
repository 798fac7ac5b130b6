//! Decisions about a request between its head and its endpoint: [`route`].

pub mod route;
