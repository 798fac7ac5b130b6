//! x
use crate::{arguments::Demo, failure::Failure};
pub fn demo(_: &Demo) -> Result<(), Failure> {
    Ok(())
}
