//! Pages: the Markdown files of the repository that users read, with their blocks of code.

use std::fs;
use std::path::{Path, PathBuf};

/// Root folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Markdown file, by its path from the root.
pub struct Page {
    pub path: String,
    pub text: String,
}

/// Fenced block of a page, as of commands.
#[derive(Debug)]
pub struct Block {
    /// Page and line, for messages.
    pub place: String,
    /// Text behind the fence: the language, and more.
    pub info: String,
    pub text: String,
}

impl Page {
    /// Reads the pages at the root, and all under `docs`.
    pub fn all() -> Vec<Page> {
        let mut pages = Vec::new();
        read("", false, &mut pages);
        read("docs/", true, &mut pages);
        pages.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(pages.len() > 20, "only {} pages were found", pages.len());
        pages
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (index, line) in self.text.lines().enumerate() {
            if let Some(info) = line.strip_prefix("```") {
                open = !open;
                if open {
                    let place = format!("{}:{}", self.path, index + 1);
                    blocks.push(Block { place, info: info.to_string(), text: String::new() });
                }
            } else if let Some(block) = blocks.last_mut().filter(|_| open) {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
        assert!(!open, "{}: a block without an end", self.path);
        blocks
    }

    /// The text without its blocks, line by line, by number.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut fenced = false;
        self.text.lines().enumerate().filter_map(move |(index, line)| {
            if line.starts_with("```") {
                fenced = !fenced;
                return None;
            }
            (!fenced).then_some((index + 1, line))
        })
    }
}

fn read(folder: &str, deep: bool, pages: &mut Vec<Page>) {
    for entry in fs::read_dir(root().join(folder)).expect("the folder is there").flatten() {
        let path = format!("{folder}{}", entry.file_name().to_string_lossy());
        if path.ends_with(".md") {
            pages.push(Page { text: fs::read_to_string(entry.path()).expect("a text"), path });
        } else if deep && entry.path().is_dir() {
            read(&format!("{path}/"), true, pages);
        }
    }
}
