//! The source `file`: endpoints from a file that is polled instead of watched. A single syscall per poll notices
//! renames, replaced links and changes on network file systems alike.

use crate::kept::Answer;
use crate::out::Out;
use crate::polling::{Look, Pace, poll};
use evenkeel_config::{endpoint_list, render_text};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between polls. A file must stay unchanged for this long before it is read again: writers that write
/// piecemeal are faster.
const EVERY: Duration = Duration::from_millis(500);

/// Largest list, in bytes. A list of 10,000 endpoints has about a million.
const FILE_MAX: u64 = 16 << 20;

/// Identity and state of a file, or the error of looking at it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Result<(u64, u64, u64, i64, i64), io::ErrorKind>);

struct List {
    path: PathBuf,
    /// State of the file at the last poll.
    seen: Option<Stamp>,
    /// State when last read, and true if the contents were valid.
    read: Option<(Stamp, bool)>,
}

/// Follows the list in a file, forever.
pub(super) async fn run(path: PathBuf, out: Out) -> ! {
    let pace = Pace { min: EVERY, max: EVERY, retry: EVERY, retry_max: EVERY, spread: 0.1 };
    poll(List { path, seen: None, read: None }, pace, out).await
}

impl Look for List {
    async fn look(&mut self) -> Answer {
        self.now()
    }
}

impl List {
    fn now(&mut self) -> Answer {
        let stamp = Stamp::of(&self.path);
        let settled = self.seen.replace(stamp.clone()).is_none_or(|seen| seen == stamp);
        match &self.read {
            Some((read, good)) if *read == stamp => return if *good { Answer::Same } else { Answer::Nothing },
            _ if !settled => return Answer::Nothing,
            _ => {}
        }
        let list = read(&self.path);
        // The file is being written, so the contents may be incomplete.
        if Stamp::of(&self.path) != stamp {
            return Answer::Nothing;
        }
        self.read = Some((stamp, list.is_ok()));
        match list {
            Ok(endpoints) => Answer::List(endpoints.into()),
            Err(why) => Answer::Failed(why),
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let metadata = fs::metadata(path).map_err(|error| error.kind());
        Stamp(metadata.map(|m| (m.dev(), m.ino(), m.len(), m.ctime(), m.ctime_nsec())))
    }
}

fn read(path: &Path) -> Result<Vec<evenkeel_config::plan::Endpoint>, String> {
    let name = path.display().to_string();
    let cannot = |error: io::Error| format!("cannot read {name}: {error}");
    // Opening a pipe would wait for its other end.
    if !fs::metadata(path).map_err(cannot)?.is_file() {
        return Err(format!("{name} is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes)).map_err(cannot)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(format!("{name} is larger than {} MiB", FILE_MAX >> 20));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))?;
    endpoint_list(&name, &text).map_err(|diagnostics| render_text(&diagnostics, false).trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("evenkeel-list-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("the temporary folder can be written");
            Folder(path)
        }

        fn list(&self, name: &str) -> List {
            List { path: self.0.join(name), seen: None, read: None }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn names(answer: Answer) -> Vec<String> {
        match answer {
            Answer::List(list) => list.endpoints.iter().map(|e| e.name.to_string()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_that_is_renamed_into_place_is_read_when_it_stays() {
        let folder = Folder::new("rename");
        fs::write(folder.0.join("a.json"), r#"["10.0.0.1:1"]"#).unwrap();
        let mut list = folder.list("a.json");
        assert_eq!(names(list.now()), ["10.0.0.1:1"]);
        assert_eq!(list.now(), Answer::Same);
        fs::write(folder.0.join("b.json"), r#"["10.0.0.2:1"]"#).unwrap();
        fs::rename(folder.0.join("b.json"), folder.0.join("a.json")).unwrap();
        assert_eq!(list.now(), Answer::Nothing, "it may be written right now");
        assert_eq!(names(list.now()), ["10.0.0.2:1"]);
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_another_list() {
        // The way in which Kubernetes updates a mounted ConfigMap.
        let folder = Folder::new("link");
        for (version, addr) in [("v1", "10.0.0.1:1"), ("v2", "10.0.0.2:1")] {
            fs::create_dir(folder.0.join(version)).unwrap();
            fs::write(folder.0.join(version).join("a.toml"), format!("endpoints = ['{addr}']")).unwrap();
        }
        symlink("v1", folder.0.join("data")).unwrap();
        symlink("data/a.toml", folder.0.join("a.toml")).unwrap();
        let mut list = folder.list("a.toml");
        assert_eq!(names(list.now()), ["10.0.0.1:1"]);
        symlink("v2", folder.0.join("next")).unwrap();
        fs::rename(folder.0.join("next"), folder.0.join("data")).unwrap();
        assert_eq!(list.now(), Answer::Nothing);
        assert_eq!(names(list.now()), ["10.0.0.2:1"]);
    }

    #[test]
    fn a_list_that_is_being_written_is_not_read() {
        let folder = Folder::new("write");
        let path = folder.0.join("a.toml");
        fs::write(&path, "endpoints = ['10.0.0.1:1', '10.0.0.2:1']").unwrap();
        let mut list = folder.list("a.toml");
        assert_eq!(names(list.now()).len(), 2);
        // A valid list, but incomplete.
        for part in ["", "[[endpoints]]\naddr = '10.0.0.3:1'\n", "[[endpoints]]\naddr = '10.0.0.3:1'\n[[endpoints]]\n"]
        {
            fs::write(&path, part).unwrap();
            assert_eq!(list.now(), Answer::Nothing);
        }
        fs::write(&path, "[[endpoints]]\naddr = '10.0.0.3:1'\n[[endpoints]]\naddr = '10.0.0.4:1'\n").unwrap();
        assert_eq!(list.now(), Answer::Nothing);
        assert_eq!(names(list.now()), ["10.0.0.3:1", "10.0.0.4:1"]);
    }

    #[test]
    fn a_list_that_is_wrong_or_gone_is_told_of_once() {
        let folder = Folder::new("wrong");
        let mut list = folder.list("a.json");
        let Answer::Failed(why) = list.now() else { panic!("there is no file") };
        assert!(why.contains("a.json: No such file"), "{why}");
        assert_eq!(list.now(), Answer::Nothing);
        fs::write(folder.0.join("a.json"), r#"["10.0.0.1:1", "10.0.0.2"]"#).unwrap();
        assert_eq!(list.now(), Answer::Nothing);
        let Answer::Failed(why) = list.now() else { panic!("it is wrong") };
        assert!(why.contains("it has no port"), "{why}");
        assert_eq!(list.now(), Answer::Nothing);
    }
}
