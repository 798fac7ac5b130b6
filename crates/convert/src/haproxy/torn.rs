//! Files of values that HAProxy compares by another method than a rule names. All uses of a file by text within a value, at
//! its end or between separators share a list, which has the method and the flags of the first use in the file.

use super::lexer::Section;
use super::samples::{called, split};
use evenkeel_config::Files;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Files of a machine, without those that are used by several methods.
pub(super) struct Sole<'f> {
    files: &'f dyn Files,
    torn: BTreeSet<PathBuf>,
}

impl<'f> Sole<'f> {
    pub fn new(files: &'f dyn Files, sections: &[Section]) -> Sole<'f> {
        let mut uses: BTreeMap<(&str, String), BTreeSet<(String, bool)>> = BTreeMap::new();
        for words in sections.iter().flat_map(|section| &section.items).map(|item| &item.words) {
            for (at, word) in words.iter().enumerate() {
                let maps = split(word).into_iter().map(called).filter_map(|(name, argument)| {
                    let file = argument?.split(',').next()?;
                    Some((name.strip_prefix("map_")?.trim_end_matches("_str").to_string(), file))
                });
                let lists =
                    (word == "-f").then(|| (method(&words[..at]), words.get(at + 1).map_or("", String::as_str)));
                for (method, file) in maps.map(|(method, file)| ((method, false), file)).chain(lists) {
                    let is_listed = matches!(&*method.0, "sub" | "end" | "dir" | "dom");
                    let kind = if is_listed { "list".to_string() } else { method.0.clone() };
                    uses.entry((file, kind)).or_default().insert(method);
                }
            }
        }
        let torn =
            uses.into_iter().filter(|(_, methods)| methods.len() > 1).map(|((file, _), _)| file.into()).collect();
        Sole { files, torn }
    }
}

/// Method and case of the test that ends before its file.
fn method(words: &[String]) -> (String, bool) {
    let from = words.iter().rposition(|word| word == "{" || word == "!{" || word == "acl").unwrap_or_default();
    let words = &words[from..];
    let named = words.windows(2).find(|pair| pair[0] == "-m").map(|pair| pair[1].clone());
    let ends = ["beg", "end", "sub", "reg", "dir", "dom"];
    let is_of = |end: &&str| words.iter().any(|word| called(word).0.ends_with(&format!("_{end}")));
    let method = named.or_else(|| ends.into_iter().find(is_of).map(str::to_string));
    (method.unwrap_or_else(|| "str".to_string()), words.iter().any(|word| word == "-i"))
}

impl Files for Sole<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if self.torn.contains(path) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.files.read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.files.list(folder)
    }
}

/// True for a file that is used by several methods.
pub(super) fn is_torn(file: &str, files: &dyn Files) -> bool {
    files.read(Path::new(file)).is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
}
