//! Comparison of committed pages with what the tables generate, shared by the tests of several crates. `make
//! bless` runs every test with `committed` in its name with EVENKEEL_BLESS set, which writes the pages
//! instead.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Most lines of a difference that are shown.
const SHOWN: usize = 12;

/// Compares each text with the file at its path from the repository's root, and fails after all comparisons;
/// or writes the files that differ if EVENKEEL_BLESS is set.
pub fn same_as_committed(pages: &[(PathBuf, String)]) {
    let test = std::thread::current();
    assert!(test.name().is_some_and(|name| name.contains("committed")), "`make bless` finds its tests by that word");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut stale = String::new();
    for (path, text) in pages {
        let committed = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if committed == *text {
            continue;
        }
        if std::env::var_os("EVENKEEL_BLESS").is_some() {
            let path = root.join(path);
            path.parent().map_or(Ok(()), std::fs::create_dir_all).expect("a folder for it");
            std::fs::write(path, text).expect("it can be written");
        }
        let _ = write!(stale, "{}:\n{}", path.display(), difference(&committed, text));
    }
    assert!(
        stale.is_empty() || std::env::var_os("EVENKEEL_BLESS").is_some(),
        "not what is generated; `make bless` writes it:\n{stale}"
    );
}

/// The differing lines, between the common beginning and end.
fn difference(committed: &str, text: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (committed.lines().collect(), text.lines().collect());
    let above = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[above..], &new[above..]);
    let below = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let mut out = format!("@ line {}\n", above + 1);
    for (sign, lines) in [('-', &old[..old.len() - below]), ('+', &new[..new.len() - below])] {
        for line in lines.iter().take(SHOWN) {
            let _ = writeln!(out, "{sign}{line}");
        }
        if lines.len() > SHOWN {
            let _ = writeln!(out, "{sign}... and {} lines more", lines.len() - SHOWN);
        }
    }
    out
}
