//! Configurations as `evenkeel check` reads them: with the environment and, unless they are for elsewhere, this machine.

use evenkeel_config::{Disk, Files, Machine, Outcome, Plan, Severity, check_from, load_from};
use evenkeel_kernel::with_planes;
use evenkeel_tls::with_tls;
use evenkeel_tokens::with_keys;
use std::io;
use std::path::Path;

/// Checks a file among others, with this machine or `elsewhere`.
pub fn outcome(files: &dyn Files, file: &Path, elsewhere: bool) -> Outcome {
    match elsewhere {
        true => load_from(files, file, &environment),
        false => check_from(files, file, &environment, &with_planes(with_keys(with_tls(Machine::this())))),
    }
}

/// Checks a changed text of a file, with this machine or `elsewhere`.
///
/// # Errors
/// The first error of the text.
pub fn changed(file: &Path, text: &str, elsewhere: bool) -> Result<Plan, String> {
    let Outcome { plan, diagnostics } = outcome(&Changed { file, text }, file, elsewhere);
    let first = || diagnostics.iter().find(|one| one.severity() == Severity::Error).or(diagnostics.first());
    plan.ok_or_else(|| first().map_or_else(|| "it cannot be read".to_string(), |one| one.message.clone()))
}

/// Files of the disk, of which one has another text.
struct Changed<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Files for Changed<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == self.file { Ok(self.text.as_bytes().to_vec()) } else { Disk.read(path) }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(directory)
    }
}

/// Looks up a variable of the environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
