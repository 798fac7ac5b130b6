//! Key of sticky sessions that the process makes itself, and keeps in a file. See [`read_or_make`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Length of a new key before it is written as text, in bytes: as long as the hash that signs.
const LENGTH: usize = 32;

/// Reads the key. Creates a missing key, with access for this user only.
///
/// # Errors
/// The file cannot be read or made, or all users may read it.
pub fn read_or_make(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => make(path)?,
        read => return checked(path, read?),
    }
    // Of two processes that make it at once, both use the key of the first.
    checked(path, fs::read(path)?)
}

/// Refuses a key that all users can read: they could choose endpoints. Its group may be the group of a volume.
fn checked(path: &Path, key: Vec<u8>) -> io::Result<Vec<u8>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    match mode & 0o007 {
        0 => Ok(key),
        _ => Err(io::Error::other(format!(
            "its mode is {mode:o}, and all users can read it: chmod 600 {}",
            path.display()
        ))),
    }
}

/// Makes the file as a whole: it never exists with a part of a key.
fn make(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Not by the id of the process: it is 1 in every container that shares the volume.
    let new = folder.join(format!(".sticky.key.{:016x}", u64::from_ne_bytes(evenkeel_tls::random()?)));
    let made = write(&new).and_then(|()| match fs::hard_link(&new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let _ = fs::remove_file(&new);
    made
}

fn write(new: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(new)?;
    let key: [u8; LENGTH] = evenkeel_tls::random()?;
    writeln!(file, "{}", STANDARD.encode(key))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("evenkeel-sticky-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_key_is_made_once_for_this_user_alone() {
        let folder = folder("once");
        let path = folder.join("state/sticky.key");
        let key = read_or_make(&path).expect("a key");
        assert!(key.trim_ascii_end().len() >= 40, "{} bytes", key.len());
        assert_eq!(read_or_make(&path).expect("the same key"), key);
        let mode = |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.join("state"))), (0o600, 0o700));
        assert_eq!(fs::read_dir(folder.join("state")).expect("a folder").count(), 1, "nothing else is left there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let wrong = read_or_make(&path).expect_err("all can read it").to_string();
        assert!(wrong.starts_with("its mode is 644"), "{wrong}");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn processes_that_make_it_at_once_have_one_key() {
        let folder = folder("race");
        let path = folder.join("sticky.key");
        let keys: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let one = |_| scope.spawn(|| read_or_make(&path).expect("a key"));
            let all: Vec<_> = (0..8).map(one).collect();
            all.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left there");
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
