//! Rules, the files that they check, and their findings.

use std::fmt;
use std::fs;
use std::path::Path;

/// Text file, with its path from the root of the repository.
#[derive(Debug)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// Violation of a rule. Line 0 stands for the whole file.
pub struct Finding {
    path: String,
    line: usize,
    error: String,
    instead: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: error: {}; instead: {}", self.path, self.line, self.error, self.instead)
    }
}

/// Rule, with minimal trees that keep and break it.
pub struct Rule {
    pub name: &'static str,
    pub check: fn(&[File]) -> Vec<Finding>,
    pub kept_by: &'static [(&'static str, &'static str)],
    pub broken_by: &'static [(&'static str, &'static str)],
}

impl File {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, text)| (index + 1, text))
    }

    /// Lines with their numbers, except those of the test module at the end of the file.
    pub fn lines_outside_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        self.text[..tests].lines().enumerate().map(|(index, text)| (index + 1, text))
    }

    pub fn finding(&self, line: usize, error: impl Into<String>, instead: &'static str) -> Finding {
        Finding { path: self.path.clone(), line, error: error.into(), instead }
    }
}

/// Collects the text files under a folder, without build output.
pub fn tree(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot list {prefix}: {e}"));
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            let ours = !matches!(name.as_str(), "target" | "node_modules" | ".git" | "artifacts" | "corpus");
            if ours {
                tree(&entry.path(), &format!("{path}/"), files);
            }
        } else if name == "Makefile" || [".rs", ".toml", ".md", ".sh", ".py"].iter().any(|end| name.ends_with(end)) {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
            files.push(File { path, text });
        }
    }
}

pub fn sample(files: &[(&str, &str)]) -> Vec<File> {
    files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect()
}
