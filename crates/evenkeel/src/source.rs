//! Where does the configuration come from, and does it say something else by now? A file, and what it includes.

use evenkeel_balance::endpoint::stable_hash;
use evenkeel_config::{Disk, Files, Outcome, load_from};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Links that are followed before they count as a circle; the kernel's own limit.
const LINKS_MAX: usize = 40;

/// A configuration file.
#[derive(Debug)]
pub struct Source {
    file: PathBuf,
    seen: Seen,
}

/// What was there when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Each file with the hash of what it said; `None` if it could not be read.
    files: BTreeMap<PathBuf, Option<u64>>,
    /// Folders in which files were looked for.
    folders: BTreeSet<PathBuf>,
}

/// The disk, and what was asked of it.
#[derive(Default)]
struct Watched(RefCell<Seen>);

impl Files for Watched {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let read = Disk.read(path);
        let hash = read.as_ref().ok().map(|bytes| stable_hash(bytes));
        self.0.borrow_mut().files.insert(path.to_path_buf(), hash);
        read
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.0.borrow_mut().folders.insert(directory.to_path_buf());
        Disk.list(directory)
    }
}

impl Source {
    /// This file, which is not read yet.
    pub fn new(file: &Path) -> Source {
        Source { file: file.to_path_buf(), seen: Seen::default() }
    }

    /// The file that names all others.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads it, with its environment.
    pub fn read(&mut self) -> Outcome {
        let (outcome, seen) = self.look();
        self.seen = seen;
        outcome
    }

    /// Whether it, or what it includes, says something else than when it was read.
    pub fn has_changed(&self) -> bool {
        self.look().1 != self.seen
    }

    fn look(&self) -> (Outcome, Seen) {
        let disk = Watched::default();
        let outcome = load_from(&disk, &self.file, &|name| std::env::var(name).ok());
        (outcome, disk.0.into_inner())
    }

    /// The folders in which a change shows: those of the files, and those of every link on the way to them, as a link may
    /// be exchanged for another.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::new();
        self.seen.files.keys().for_each(|file| on_the_way(file, &mut folders));
        self.seen.folders.iter().for_each(|folder| on_the_way(&folder.join("any"), &mut folders));
        folders
    }
}

/// The folder of a file and of each link on the way to it.
fn on_the_way(file: &Path, folders: &mut BTreeSet<PathBuf>) {
    let mut path = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    for _ in 0..LINKS_MAX {
        let link = path.ancestors().collect::<Vec<_>>().into_iter().rev().find_map(|part| {
            let to = std::fs::read_link(part).ok()?;
            Some((part.to_path_buf(), to))
        });
        let Some((link, to)) = link else { break };
        let folder = link.parent().unwrap_or(Path::new("/")).to_path_buf();
        let rest = path.strip_prefix(&link).unwrap_or(Path::new("")).to_path_buf();
        path = if rest.as_os_str().is_empty() { folder.join(to) } else { folder.join(to).join(rest) };
        folders.insert(folder);
    }
    folders.extend(path.parent().map(Path::to_path_buf));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_is_looked_for_where_it_stands_and_where_it_leads() {
        let root = std::env::temp_dir().join(format!("evenkeel-source-{}", std::process::id()));
        for folder in ["etc", "v1", "v2"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("v1/a.toml"), "x = 1").unwrap();
        fs::write(root.join("v2/a.toml"), "x = 2").unwrap();
        symlink("../v1", root.join("etc/data")).unwrap();
        symlink("data/a.toml", root.join("etc/a.toml")).unwrap();

        let mut source = Source::new(&root.join("etc/a.toml"));
        let _ = source.read();
        assert_eq!(source.folders(), BTreeSet::from([root.join("etc"), root.join("etc/../v1")]));
        assert!(!source.has_changed());
        // As Kubernetes changes a mounted ConfigMap.
        symlink("../v2", root.join("etc/next")).unwrap();
        fs::rename(root.join("etc/next"), root.join("etc/data")).unwrap();
        assert!(source.has_changed());
        fs::remove_dir_all(&root).unwrap();
    }
}
