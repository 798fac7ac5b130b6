//! Texts of a configuration's files as last read, so that it can be loaded again.

use evenkeel_config::{Disk, Files, Machine, Outcome, check_from, load_from};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Files of a configuration at a given time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts {
    main: PathBuf,
    /// Contents by file; `None` if it could not be read, or was not text.
    pub files: BTreeMap<PathBuf, Option<String>>,
    /// Folders searched for includes.
    pub folders: BTreeSet<PathBuf>,
}

impl Texts {
    /// A configuration of this text alone, as if in the current folder.
    pub fn typed(name: &str, text: String) -> Texts {
        let main = PathBuf::from(name);
        Texts { files: [(main.clone(), Some(text))].into(), main, ..Texts::default() }
    }

    /// Reads a file with its includes, with environment variables expanded.
    pub fn read(main: &Path) -> (Outcome, Texts) {
        let disk = Watched::new(main, None);
        let outcome = load_from(&disk, main, &environment);
        (outcome, disk.seen.into_inner())
    }

    /// Reads this text instead of the file, with its includes, and checks the files it names on `machine`.
    pub fn with(main: &Path, text: &str, machine: &Machine) -> (Outcome, Texts) {
        let disk = Watched::new(main, Some(text));
        let outcome = check_from(&disk, main, &environment, machine);
        (outcome, disk.seen.into_inner())
    }

    /// Loads the configuration from these texts.
    pub fn load(&self) -> Outcome {
        load_from(self, &self.main, &environment)
    }

    /// Text of the main file; empty if it could not be read.
    pub fn text(&self) -> &str {
        self.files.get(&self.main).and_then(Option::as_deref).unwrap_or_default()
    }
}

impl Files for Texts {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.files.get(path).and_then(Option::as_ref);
        text.map(|text| text.clone().into_bytes()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let within = self.files.iter().filter(|(path, text)| text.is_some() && path.parent() == Some(directory));
        Ok(within.filter_map(|(path, _)| Some(path.file_name()?.to_str()?.to_string())).collect())
    }
}

/// The disk, with a record of everything that was read.
struct Watched<'a> {
    /// Text to use instead of the main file.
    instead: Option<&'a str>,
    seen: RefCell<Texts>,
}

impl<'a> Watched<'a> {
    fn new(main: &Path, instead: Option<&'a str>) -> Watched<'a> {
        Watched { instead, seen: RefCell::new(Texts { main: main.to_path_buf(), ..Texts::default() }) }
    }
}

impl Files for Watched<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut seen = self.seen.borrow_mut();
        let read = match self.instead {
            Some(text) if seen.main == path => Ok(text.as_bytes().to_vec()),
            _ => Disk.read(path),
        };
        let text = read.as_ref().ok().and_then(|bytes| String::from_utf8(bytes.clone()).ok());
        seen.files.insert(path.to_path_buf(), text);
        read
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.seen.borrow_mut().folders.insert(directory.to_path_buf());
        Disk.list(directory)
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
