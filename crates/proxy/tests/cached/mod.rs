//! The cache of routes, over real connections of both protocols.

mod basics;
mod compress;
