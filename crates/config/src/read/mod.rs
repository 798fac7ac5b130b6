//! Does the text fit the tables? The tree is read against [`crate::keys`], every misfit is reported, and what fits
//! becomes typed values.

mod balance;
mod section;
mod table;
mod value;

pub(crate) use balance::kind_of;
pub(crate) use section::{Located, Value};
pub use section::{Named, Section};
pub(crate) use table::Reader;
