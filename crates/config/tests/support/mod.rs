//! Helpers shared by the tests: files below a directory.

use evenkeel_config::Files;
use std::io;
use std::path::Path;

/// Files below a directory, with names relative to it, so that no text contains a path of this machine.
pub struct Under(pub &'static str);

impl Files for Under {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(Path::new(self.0).join(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        evenkeel_config::Disk.list(&Path::new(self.0).join(directory))
    }
}
