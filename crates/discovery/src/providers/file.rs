//! The provider `file`: a configuration file with its includes, reread on request or when it changes. Also
//! holds a configuration typed at the start, which has no file.

use super::texts::Texts;
use super::wanted::{Offer, Provenance};
use evenkeel_config::{Disk, Machine, Outcome};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most symbolic links followed before they count as a loop; the kernel's own limit.
const LINKS_MAX: usize = 40;

/// Name shown for a configuration without a file.
const TYPED: &str = "(typed)";

/// A configuration file, or a text that was typed instead of a file.
#[derive(Debug)]
pub struct File {
    path: Option<PathBuf>,
    /// Contents of all files when last read.
    seen: Texts,
}

impl File {
    /// A file that is not read yet.
    pub fn new(path: &Path) -> File {
        File { path: Some(path.to_path_buf()), seen: Texts::default() }
    }

    /// A configuration of this text, without a path.
    pub fn typed(text: String) -> File {
        File { path: None, seen: Texts::typed(TYPED, text) }
    }

    /// Path of the main file; `None` if the configuration was typed.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the configuration, with environment variables expanded.
    pub fn read(&mut self) -> Outcome {
        let (outcome, seen) = self.look();
        self.seen = seen;
        outcome
    }

    /// Reads the configuration into an offer. `by` names who asked.
    pub(super) fn offer(&mut self, by: &str) -> Offer {
        let outcome = self.read();
        let provenance = Provenance {
            provider: "file".to_owned(),
            how: "reload".to_owned(),
            by: by.to_owned(),
            texts: Some(Arc::new(self.seen.clone())),
        };
        Offer { outcome, provenance }
    }

    /// Contents of all files when last read.
    pub fn texts(&self) -> &Texts {
        &self.seen
    }

    /// True if the file, or a file that it includes, differs from the texts last read.
    pub fn has_changed(&self) -> bool {
        self.path.is_some() && self.look().1 != self.seen
    }

    fn look(&self) -> (Outcome, Texts) {
        match &self.path {
            Some(path) => Texts::read(path),
            None => (self.seen.load(), self.seen.clone()),
        }
    }

    /// Outcome that this text would have in place of the file, with the same includes, on `machine`; and the
    /// texts read for it.
    pub fn with(&self, text: &str, machine: &Machine) -> (Outcome, Texts) {
        Texts::with(self.path().unwrap_or(Path::new(TYPED)), text, machine)
    }

    /// Writes the main file of these texts, atomically. Includes are not written, and must be as on disk.
    ///
    /// # Errors
    /// If the file cannot be written, it or an include has changed since it was read, or an include differs.
    pub fn write(&mut self, texts: &Texts) -> Result<(), String> {
        let file = self
            .path()
            .ok_or("the process was started without a configuration file; `evenkeel config show` prints one")?;
        if self.has_changed() {
            let file = file.display();
            return Err(format!(
                "{file}, or a file it includes, has changed since it was read; `evenkeel config diff` shows the changes"
            ));
        }
        let on_disk = &self.seen;
        let others = texts.files.iter().filter(|(path, _)| *path != file);
        let other: Vec<String> = others
            .filter(|(path, text)| on_disk.files.get(*path) != Some(text))
            .map(|(path, _)| path.display().to_string())
            .collect();
        if !other.is_empty() {
            let other = other.join(", ");
            return Err(format!(
                "{other} had different content when it was read, and only {} is written",
                file.display()
            ));
        }
        replace(file, texts.text()).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        self.seen = self.look().1;
        Ok(())
    }

    /// Folders in which changes are visible: the folders of all files, and of every symbolic link on the way, since
    /// links may be replaced.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let mut folders = BTreeSet::new();
        if self.path.is_some() {
            self.seen.files.keys().for_each(|file| on_the_way(file, &mut folders));
            self.seen.folders.iter().for_each(|folder| on_the_way(&folder.join("any"), &mut folders));
        }
        folders
    }
}

/// Atomically replaces the contents of a file, keeping mode and owner.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // A symbolic link stays a link.
    let file = fs::canonicalize(file)?;
    let before = fs::metadata(&file)?;
    Disk::replace(&file, text.as_bytes(), before.mode(), Some((before.uid(), before.gid())))
}

/// Adds the folder of a file, and of each symbolic link on the way to it.
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

        let mut source = File::new(&root.join("etc/a.toml"));
        let _ = source.read();
        assert_eq!(source.folders(), BTreeSet::from([root.join("etc"), root.join("etc/../v1")]));
        assert!(!source.has_changed());
        // The way in which Kubernetes updates a mounted ConfigMap.
        symlink("../v2", root.join("etc/next")).unwrap();
        fs::rename(root.join("etc/next"), root.join("etc/data")).unwrap();
        assert!(source.has_changed());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_was_read_is_had_again_and_written() {
        let root = std::env::temp_dir().join(format!("evenkeel-texts-{}", std::process::id()));
        fs::create_dir_all(root.join("conf.d")).unwrap();
        let pool = |port: u16| format!("[pool.web]\nendpoints = ['127.0.0.1:{port}']\n");
        let main =
            |port: u16| format!("[include]\nfiles = ['conf.d/*.toml']\n[listener.web]\nbind = ['127.0.0.1:{port}']\n");
        let (file, other) = (root.join("a.toml"), root.join("conf.d/b.toml"));
        fs::write(&file, main(1)).unwrap();
        fs::write(&other, pool(2)).unwrap();
        let mut source = File::new(&file);
        let first = source.read().plan.expect("a plan");
        let kept = source.texts().clone();
        let (outcome, proposed) = source.with(&main(3), &Machine::this());
        let proposal = outcome.plan.expect("a plan");
        assert_eq!(proposal.listeners[0].bind, ["127.0.0.1:3".parse().unwrap()]);
        assert!(!source.has_changed());
        source.write(&proposed).unwrap();
        assert!(!source.has_changed(), "it has written that itself");
        assert_eq!(fs::read_to_string(&file).unwrap(), main(3));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 2, "nothing is left beside it");
        fs::write(&other, pool(4)).unwrap();
        assert_eq!(kept.load().plan, Some(first), "whatever the disk says now");
        assert!(source.write(&kept).unwrap_err().contains("has changed since it was read"));
        let _ = source.read();
        assert!(source.write(&kept).unwrap_err().contains("b.toml had different content"));
        assert_eq!(fs::read_to_string(&file).unwrap(), main(3));
        fs::remove_dir_all(&root).unwrap();
        assert!(source.write(&proposed).is_err());
    }

    #[test]
    fn what_was_typed_is_in_no_file() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2']\n";
        let mut source = File::typed(text.to_owned());
        assert!(source.read().plan.is_some() && !source.has_changed() && source.folders().is_empty());
        assert_eq!(source.texts().text(), text);
        let (outcome, other) = source.with(&text.replace("127.0.0.1:2", "127.0.0.1:3"), &Machine::this());
        assert!(outcome.plan.is_some() && other.text().contains("127.0.0.1:3"));
        assert!(source.write(&other).unwrap_err().contains("without a configuration file"));
    }
}
