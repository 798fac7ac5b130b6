//! What did the user ask for, and is it possible? Text in; a [`Plan`], or every error with its place, out.
#![forbid(unsafe_code)]

mod build;
mod code;
mod diagnostic;
mod env;
mod files;
mod form;
mod keys;
mod load;
mod nearest;
pub mod plan;
mod quantity;
mod read;
mod reference;
mod render;
mod schema;
mod source;
mod tree;
mod write;

pub use code::{Code, Severity};
pub use diagnostic::{Diagnostic, Range, Spot};
pub use env::Env;
pub use files::{Disk, Files, NoFiles};
pub use load::{Outcome, load, load_from, parse_str};
pub use plan::Plan;
pub use reference::{algorithms_reference, reference};
pub use render::{render_text, to_json};
pub use schema::schema;
pub use source::Position;
