//! Advice on a configuration: changes in order of effect, each with its evidence and a patch. Read the modules in this
//! order:
//!
//! 1. [`advice`]: a piece of advice as plain data, and its order.
//! 2. [`edit`]: changes to the text of a configuration; [`diff`]: these as patches.
//! 3. [`traffic`]: the facts of an access log; [`inputs`]: everything that advice is derived from.
//! 4. [`trial`]: simulations of two pools under the same requests.
//! 5. [`kinds`]: the kinds of advice, a file and a row for each.
//! 6. [`text`]: advice for people. Programs and pages get [`evenkeel_view::advice`].
#![forbid(unsafe_code)]

// Order: text, kinds, trial, inputs, traffic, advice, diff, edit
pub mod advice;
pub mod diff;
pub mod edit;
pub mod inputs;
pub mod kinds;
pub mod text;
pub mod traffic;
pub mod trial;

pub use advice::{Advice, Found};
pub use inputs::Inputs;
pub use kinds::advise;
