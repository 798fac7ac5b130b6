//! Places that keys come from, shared by the routes that name them: a file, or a URL that a task fetches.

use crate::keys::{KeySet, SET_MAX};
use evenkeel_balance::published::{Published, Reader};
use evenkeel_config::plan::{Jwt, KeySource};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Settings of a place. Routes with equal settings share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub at: KeySource,
    pub ca: Option<PathBuf>,
    pub refresh: Duration,
}

impl Settings {
    pub fn of(jwt: &Jwt) -> Settings {
        Settings { at: jwt.keys.clone(), ca: jwt.ca.clone(), refresh: jwt.refresh }
    }
}

/// Keys that workers use; none until the first fetch.
#[derive(Debug)]
pub struct Keys(pub Option<KeySet>);

/// A place of keys, and the keys as they are now.
#[derive(Debug)]
pub struct Source {
    settings: Settings,
    keys: Published<Keys>,
    looked: Mutex<Looked>,
    /// True from a token with an unknown key until the next fetch.
    is_asked: AtomicBool,
    pub(crate) asked: Notify,
    pub(crate) counts: Counts,
}

/// Numbers of a source that is a URL.
#[derive(Debug, Default)]
pub struct Counts {
    pub fetched: AtomicU64,
    pub failed: AtomicU64,
    /// Number of keys that can be used.
    pub keys: AtomicU64,
    /// Time of the last fetch that succeeded, in seconds since 1970; 0 before.
    pub fetched_at: AtomicI64,
}

/// State of the file as it was when it was looked at, and when it was read.
#[derive(Debug, Default)]
struct Looked {
    seen: Option<Stamp>,
    read: Option<Stamp>,
}

/// Identity and state of a file, or the error of looking at it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Result<(u64, u64, u64, i64, i64), io::ErrorKind>);

impl Source {
    /// A place with its keys: keys of a file are read, keys of a URL are to be fetched.
    ///
    /// # Errors
    /// The file cannot be read, or has no keys that can be used.
    pub fn new(settings: Settings) -> Result<Source, String> {
        let (mut looked, keys) = (Looked::default(), Keys(settings.path().map(read).transpose()?));
        looked.read = settings.path().map(Stamp::of);
        looked.seen = looked.read.clone();
        Ok(Source {
            settings,
            keys: Published::new(keys),
            looked: looked.into(),
            is_asked: AtomicBool::new(false),
            asked: Notify::new(),
            counts: Counts::default(),
        })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// URL of the keys; `None` for a file.
    pub fn url(&self) -> Option<&Arc<str>> {
        match &self.settings.at {
            KeySource::Url(url) => Some(url),
            KeySource::File(_) => None,
        }
    }

    /// The keys as a worker sees them.
    pub fn reader(&self) -> Reader<Keys> {
        self.keys.reader()
    }

    /// True if there are no keys yet.
    pub fn is_empty(&self) -> bool {
        self.keys.current().0.is_none()
    }

    /// Replaces the keys, for all workers at once.
    pub(crate) fn publish(&self, keys: KeySet) {
        self.counts.keys.store(keys.len() as u64, Relaxed);
        keys.passed_over().iter().for_each(|why| tracing::warn!(keys = %self.settings.at, "{why}: it is not used"));
        self.keys.publish(Keys(Some(keys)));
    }

    /// Asks for a fetch, as a token names a key that is not in the set. Costs a load if that was asked for already.
    pub(crate) fn ask(&self) {
        if self.url().is_some() && !self.is_asked.load(Relaxed) && !self.is_asked.swap(true, Relaxed) {
            self.asked.notify_one();
        }
    }

    /// A fetch begins, so that keys that are not in its answer may be asked for again.
    pub(crate) fn begin(&self) {
        self.is_asked.store(false, Relaxed);
    }

    /// Reads the file again if it has changed and then stayed the same between two calls: writers that write
    /// piecemeal are faster. Of a wrong file nothing is used, and the keys of before stay. Blocks.
    pub fn look(&self) {
        let Some(path) = self.settings.path() else { return };
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Some(Stamp::of(path));
        let is_settled = looked.seen == stamp;
        looked.seen.clone_from(&stamp);
        if !is_settled || looked.read == stamp {
            return;
        }
        match read(path) {
            Ok(keys) => {
                self.publish(keys);
                tracing::info!(file = %path.display(), "keys of tokens reloaded");
            }
            Err(error) => tracing::error!("keeping the previous keys of tokens: {error}"),
        }
        looked.read = stamp;
    }
}

impl Settings {
    fn path(&self) -> Option<&Path> {
        match &self.at {
            KeySource::File(path) => Some(path),
            KeySource::Url(_) => None,
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let metadata = fs::metadata(path).map_err(|error| error.kind());
        Stamp(metadata.map(|m| (m.dev(), m.ino(), m.len(), m.ctime(), m.ctime_nsec())))
    }
}

fn read(path: &Path) -> Result<KeySet, String> {
    let text = bytes(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    KeySet::read(&text, true).map_err(|why| format!("{} has no keys: {why}", path.display()))
}

/// Reads a file, and a byte more than a set may have.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(SET_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
