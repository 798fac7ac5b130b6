//! Man pages of the program and of each command, from the arguments that clap parses. Packages contain them.

use crate::arguments::Arguments;
use crate::failure::Failure;
use clap::CommandFactory;
use std::path::Path;

/// Runs `evenkeel man`.
pub fn write(folder: &Path) -> Result<(), Failure> {
    let cannot = |error| Failure::running(format!("cannot write man pages to {}: {error}", folder.display()));
    clap_mangen::generate_to(Arguments::command(), folder).map_err(cannot)
}
