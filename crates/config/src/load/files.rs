//! Access to files: [`Files`], implemented by the disk and by tests and fuzzing, which touch none.

use crate::wildcard;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// File system operations that reading a configuration needs.
pub trait Files {
    /// Reads a whole file.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Lists the names of the files in a directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
}

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        // "" is the current directory, which `read_dir` does not know.
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            // Patterns are UTF-8, so a name that is not cannot match.
            if let (Ok(name), false) = (entry.file_name().into_string(), entry.path().is_dir()) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

impl Disk {
    /// Replaces a file atomically: readers see either the old content or the new, and at no time may more
    /// users read the new file than `mode` allows. `owner` is the user and group of the file, if it should
    /// not belong to this process.
    ///
    /// # Errors
    /// If the file cannot be written; the old file is then still in place.
    pub fn replace(path: &Path, content: &[u8], mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".new");
        let new = path.with_file_name(name);
        // Left by a crash. A link is removed itself; anything created here from now on is an error.
        let _ = std::fs::remove_file(&new);
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(content)?;
            let made = file.metadata()?;
            // A service may lack the permission to change owners.
            if let Some((user, group)) = owner.filter(|owner| *owner != (made.uid(), made.gid())) {
                fchown(&file, Some(user), Some(group))?;
            }
            // After chown, which clears permission bits.
            file.set_permissions(Permissions::from_mode(mode & 0o7777))?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()
        };
        write().inspect_err(|_| _ = std::fs::remove_file(&new))
    }
}

/// An empty file system, for texts that are not in files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files cannot be read here"))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files cannot be read here"))
    }
}

/// Files that an include names: the path itself or, if its last component has a `*` or `?`, the matches in sorted
/// order.
pub(crate) fn matching(files: &dyn Files, directory: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let path = directory.join(pattern);
    let Some(last) = path.file_name().and_then(|n| n.to_str()).filter(|n| n.contains(['*', '?'])).map(str::to_string)
    else {
        return Ok(vec![path]);
    };
    let parent = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut names = files.list(&parent)?;
    names.retain(|name| wildcard::matches(&last, name) && (!name.starts_with('.') || last.starts_with('.')));
    names.sort();
    Ok(names.into_iter().map(|name| parent.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_no_link_is_followed() {
        let folder = std::env::temp_dir().join(format!("evenkeel-replace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, victim) = (folder.join("a.toml"), folder.join("victim"));
        std::fs::write(&victim, "untouched").unwrap();
        for link in [".a.toml.new", "a.toml.new", "a.new"] {
            std::os::unix::fs::symlink(&victim, folder.join(link)).unwrap();
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        Disk::replace(&path, b"one", 0o600, None).unwrap();
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"one"[..], 0o600));
        Disk::replace(&path, b"two", 0o640, None).unwrap();
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"two"[..], 0o640));
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
        assert!(!std::fs::symlink_metadata(&path).unwrap().is_symlink());
        assert!(!folder.join(".a.toml.new").exists());
        assert!(Disk::replace(&folder.join("none/a"), b"", 0o600, None).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn star_stands_for_any_characters() {
        for (pattern, name, fits) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", true),
            ("*.toml", "a.toml.bak", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "axbxbxc", true),
            ("a*bc*c", "abc", false),
            ("*", "", true),
            ("ab", "ab", true),
            ("ab", "abc", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(wildcard::matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
