//! Conversions judged by the original: random configurations of each program run in the program itself and, converted, in
//! evenkeel. Both answer the same requests before endpoints that show what reached them.
//!
//! Traefik has no program here: a model of its rules and middlewares, written from its documentation, takes its place.
//!
//! A difference is allowed only where the first list of the report names a line that causes it: all lines that it names
//! are taken out of the configuration, which is judged again. A request that the original refuses must not reach an
//! endpoint, whatever the report says. A configuration that fails is made as small as it fails.
//!
//! `EVENKEEL_JUDGE_CASES` is the number of configurations of each program (100), `EVENKEEL_JUDGE_SEED` the first seed (1),
//! `EVENKEEL_JUDGE_FINDINGS` the number of findings after which a run ends (10).
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

mod case;
mod client;
mod dice;
mod endpoints;
mod fixtures;
mod grammars;
mod originals;
mod ours;
mod rules;
mod run;
mod shrink;
mod traefik;
mod tree;
mod verdict;
mod yaml;
