//! The files that `convert` reads.

use crate::commands::check::STDIN;
use crate::failure::{Failure, reason};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Ends of names of files that Traefik reads from a folder.
const DYNAMIC: [&str; 3] = ["toml", "yaml", "yml"];

/// Name of all files together.
pub fn name(files: &[PathBuf]) -> String {
    files.iter().map(|file| shown(file)).collect::<Vec<_>>().join(", ")
}

fn shown(file: &Path) -> String {
    if is_stdin(file) { STDIN.to_string() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Names and texts of the files, and of those in folders, in the order of their names. Comments in other encodings than UTF-8
/// do not matter.
///
/// # Errors
/// A file or folder cannot be read, or a folder has no file of Traefik.
pub fn read(files: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let mut texts = Vec::new();
    for file in files {
        for file in within(file)? {
            let mut bytes = Vec::new();
            let read = match is_stdin(&file) {
                true => io::stdin().lock().read_to_end(&mut bytes).map(drop),
                false => std::fs::read(&file).map(|read| bytes = read),
            };
            read.map_err(|error| cannot(&file, &error))?;
            texts.push((shown(&file), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(texts)
}

/// The file, or the files of Traefik in a folder and the folders in it.
fn within(file: &Path) -> Result<Vec<PathBuf>, Failure> {
    if is_stdin(file) || !file.is_dir() {
        return Ok(vec![file.to_path_buf()]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![file.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| cannot(&folder, &error))?;
        for entry in entries.filter_map(Result::ok) {
            let is_dynamic = entry.path().extension().is_some_and(|end| DYNAMIC.iter().any(|known| end == *known));
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false if is_dynamic => files.push(entry.path()),
                false => {}
            }
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(Failure::running(format!("{} has no file of Traefik (.toml, .yaml or .yml)", file.display()))),
        false => Ok(files),
    }
}

fn cannot(file: &Path, error: &io::Error) -> Failure {
    Failure::running(format!("cannot read {}: {}", shown(file), reason(error)))
}
