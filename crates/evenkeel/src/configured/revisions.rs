//! Which configurations has this process had, and how did they come? The latest are kept, so that one can be had again.

use crate::configured::texts::Texts;
use evenkeel_view::config::{self, Running};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept.
const KEPT: usize = 10;

/// A configuration that is, or was, in use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Revision {
    /// Its number.
    pub generation: u64,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// How it came: `start`, `reload`, `apply` or `rollback`.
    pub how: String,
    /// Who asked for it.
    pub by: String,
    /// A line for each difference to the one before.
    pub changes: Vec<String>,
    /// Whether it differs from what the file said when it was read or written last.
    pub differs: bool,
    /// What it was read of.
    pub texts: Arc<Texts>,
}

impl Revision {
    /// Without what is of the process alone.
    pub fn shown(&self) -> config::Revision {
        config::Revision {
            generation: self.generation,
            since_ms: self.since_ms,
            how: self.how.clone(),
            by: self.by.clone(),
            changes: self.changes.clone(),
        }
    }

    /// As that which runs. `file`: that of the process.
    pub fn running(&self, file: Option<String>) -> Running {
        Running {
            generation: self.generation,
            draining: 0,
            file,
            how: self.how.clone(),
            by: self.by.clone(),
            since_ms: self.since_ms,
            differs: self.differs,
        }
    }
}

/// Those of this process, for all who ask.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// The file that the process was started with.
    pub file: Option<PathBuf>,
    /// The latest is the last; there is one.
    kept: Arc<Mutex<VecDeque<Revision>>>,
}

impl Revisions {
    /// The first one.
    pub fn new(file: Option<PathBuf>, first: Revision) -> Revisions {
        Revisions { file, kept: Arc::new(Mutex::new([first].into())) }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Revision>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that runs.
    pub fn latest(&self) -> Revision {
        self.kept().back().cloned().expect("one is always kept")
    }

    /// All of them, the latest first.
    pub fn all(&self) -> Vec<Revision> {
        self.kept().iter().rev().cloned().collect()
    }

    /// This one.
    pub fn get(&self, generation: u64) -> Option<Revision> {
        self.kept().iter().find(|one| one.generation == generation).cloned()
    }

    /// The one before the one that runs.
    pub fn before(&self) -> Option<Revision> {
        self.kept().iter().rev().nth(1).cloned()
    }

    /// This one runs from now on.
    pub fn push(&self, revision: Revision) {
        let mut kept = self.kept();
        kept.push_back(revision);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// What runs is in the file.
    pub fn saved(&self) {
        let mut kept = self.kept();
        if let Some(latest) = kept.back_mut() {
            latest.differs = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept() {
        let one = |generation| Revision {
            generation,
            since_ms: 0,
            how: "start".into(),
            by: "a".into(),
            changes: Vec::new(),
            differs: true,
            texts: Arc::default(),
        };
        let revisions = Revisions::new(None, one(0));
        assert!(revisions.before().is_none());
        (1..=15).for_each(|generation| revisions.push(one(generation)));
        assert_eq!(revisions.latest().generation, 15);
        assert_eq!(revisions.before().map(|one| one.generation), Some(14));
        assert_eq!(
            revisions.all().iter().map(|one| one.generation).collect::<Vec<_>>(),
            (6..=15).rev().collect::<Vec<_>>()
        );
        assert_eq!((revisions.get(5).is_none(), revisions.get(6).is_some()), (true, true));
        revisions.saved();
        assert_eq!((revisions.latest().differs, revisions.get(14).map(|one| one.differs)), (false, Some(true)));
    }
}
