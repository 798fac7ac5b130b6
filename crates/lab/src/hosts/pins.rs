//! Pins of programs in the kernel, which outlive the process and the network namespace they are for.

use super::left::{PREFIX, left_behind};
use crate::error::{Result, While};
use std::fs;
use std::path::Path;

const PINS: &str = "/sys/fs/bpf";

/// Name of objects that an evenkeel of this lab makes in the kernel.
pub fn kernel_name() -> String {
    format!("{PREFIX}-{}-kernel", std::process::id())
}

/// Removes the pins that an evenkeel of this lab left when it was killed.
pub fn remove_pins() {
    // An evenkeel that ended by itself has removed them.
    let _ = fs::remove_dir_all(Path::new(PINS).join(format!("evenkeel-{}", kernel_name())));
}

/// Removes the pins of labs that no longer run.
///
/// # Errors
/// They cannot be removed.
pub fn sweep() -> Result<()> {
    for name in left_behind(Path::new(PINS)) {
        let folder = Path::new(PINS).join(name);
        fs::remove_dir_all(&folder).or_say(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}
