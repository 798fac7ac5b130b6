//! What tests share: files under a directory.

use evenkeel_config::Files;
use std::io;
use std::path::Path;

/// The files under a directory, by names relative to it, so that no text has the path of a machine in it.
pub struct Under(pub &'static str);

impl Files for Under {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(Path::new(self.0).join(path))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        evenkeel_config::Disk.list(&Path::new(self.0).join(directory))
    }
}
