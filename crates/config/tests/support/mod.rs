//! What the tests share: files under a directory, and texts that are committed.
// Each test uses a part of it.
#![allow(dead_code)]

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

/// Compares a text with the committed one, or commits it if EVENKEEL_BLESS is set.
pub fn same_as_committed(path: &Path, text: &str) {
    if std::env::var_os("EVENKEEL_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
        return;
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let at = committed.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        committed == text,
        "{} differs from line {}; to write it anew: EVENKEEL_BLESS=1 cargo test -p evenkeel-config\n\n{text}",
        path.display(),
        at.map_or(0, |line| line + 1)
    );
}
