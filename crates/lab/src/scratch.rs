//! Scratch folder for configurations, logs and sockets of an experiment, removed when the experiment ends.

use crate::error::{Result, While};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Folder under the system's temporary folder, removed on drop.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a new folder.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn new() -> Result<Scratch> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed); // only uniqueness matters
        let path = std::env::temp_dir().join(format!("evenkeel-lab-{}-{number}", std::process::id()));
        fs::create_dir(&path).or_say(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into the folder and returns its path.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content).or_say(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the system's temporary folder, which the system empties.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_goes_with_its_files() {
        let scratch = Scratch::new().expect("the temporary folder can be written");
        let file = scratch.write("a", "b").expect("so can a file in it");
        assert!(file.exists());
        drop(scratch);
        assert!(!file.exists());
    }
}
