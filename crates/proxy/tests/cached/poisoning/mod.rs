//! Attacks on the cache: an attacker and a victim ask one after the other, and each gets what it would get without the
//! other one. [`world`] has the proof, the other files the attacks.

mod cut;
mod fields;
mod flights;
mod methods;
mod replies;
mod urls;
mod users;
mod world;
