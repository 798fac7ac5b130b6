//! Removal of everything that a stopped evenkeel has left in the kernel.

use crate::claim::is_claimed;
use crate::driver::Fault;
use crate::drivers;
use evenkeel_config::plan::{self, Plane as Mechanism};

/// True if a process in this network namespace forwards under the name of these settings.
pub fn is_in_use(settings: &plan::Kernel) -> bool {
    is_claimed(&settings.name)
}

/// Removes everything under the name of these settings. Returns for each mechanism that has a driver a description of
/// a description of the removed rules, `None` if there were none.
pub fn cleanup(settings: &plan::Kernel) -> Vec<(Mechanism, Result<Option<String>, Fault>)> {
    let one = |mechanism: Mechanism| -> Result<Option<String>, Fault> {
        let Some(mut driver) = drivers::of(mechanism, settings) else { return Ok(None) };
        let found = driver.found()?;
        // Also services without endpoints, which a driver may not find.
        driver.remove()?;
        Ok(found)
    };
    drivers::BUILT.iter().map(|mechanism| (*mechanism, one(*mechanism))).collect()
}
