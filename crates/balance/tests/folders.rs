//! Does each folder of the crate import only from those above it in the list of `lib.rs`?

use std::fs;
use std::path::{Path, PathBuf};

/// The folders in the order of the list in `lib.rs`.
const ORDER: [&str; 8] = ["structures", "machines", "endpoints", "measurement", "seam", "parts", "algorithms", "pools"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn folders_import_in_their_order() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (at, folder) in ORDER.iter().enumerate() {
        let mut files = Vec::new();
        sources(&src.join(folder), &mut files);
        assert!(!files.is_empty(), "{folder} is not there");
        for file in files {
            let text = fs::read_to_string(&file).expect("UTF-8");
            // Tests of a module may look at what is made of it.
            let imports = text.split("#[cfg(test)]\nmod ").next().into_iter().flat_map(str::lines);
            for line in imports.filter(|line| !line.trim_start().starts_with("//")) {
                let later = ORDER[at + 1..].iter().find(|later| line.contains(&format!("crate::{later}")));
                assert_eq!(later, None, "{}: {line}", file.display());
            }
        }
    }
}

#[test]
fn every_folder_is_in_the_order() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in fs::read_dir(src).expect("the crate's sources") {
        let entry = entry.expect("an entry");
        if entry.path().is_dir() {
            assert!(ORDER.contains(&entry.file_name().to_str().expect("UTF-8")), "{:?}", entry.file_name());
        }
    }
}
