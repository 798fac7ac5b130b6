//! History of the plans of this process, with their origin. The latest plans are kept for a rollback.

use super::merge::Origins;
use super::texts::Texts;
use super::wanted::{Offer, Provenance, Wanted};
use crate::lock::lock;
use evenkeel_config::{Diagnostic, Outcome, Plan};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

/// Number of revisions kept.
const KEPT: usize = 10;

/// A plan that is, or was, in use.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Number of its generation.
    pub generation: u64,
    /// Start of its use, in milliseconds since 1970.
    pub since_ms: u64,
    /// The plan with its origin.
    pub wanted: Wanted,
    /// The wanted plan with the pieces that other providers have added.
    pub merged: Arc<Plan>,
    /// Origins of the added pieces.
    pub origins: Origins,
    /// Differences to the previous plan, a line each.
    pub changes: Vec<String>,
    /// True if it differs from the file when that was last read or written.
    pub differs: bool,
    pub warnings: Vec<Diagnostic>,
}

/// A revision in the form in which a process passes it to the next. Its text gives the plan, and may contain secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handed {
    generation: u64,
    since_ms: u64,
    how: String,
    by: String,
    changes: Vec<String>,
    differs: bool,
    texts: Arc<Texts>,
}

impl Revision {
    /// Text of the plan, if it was read from a text.
    pub fn text(&self) -> Option<&str> {
        self.wanted.provenance.texts.as_ref().map(|texts| texts.text())
    }

    /// The plan as a configuration file, with the origin of each piece that is not of the file.
    pub fn to_toml(&self) -> String {
        self.merged.to_toml_by_origin(&|table, name| self.origins.of_table(table, name))
    }

    /// Offers the plan again, after a provider other than the file has put something. `by` names it.
    pub fn again(self, by: &str) -> Offer {
        let Offer { outcome, provenance } = self.offer(by);
        Offer { outcome, provenance: Provenance { how: "push".to_owned(), ..provenance } }
    }

    /// Offers the plan again, as a rollback. `by` names who asked.
    pub fn offer(self, by: &str) -> Offer {
        let Wanted { plan, provenance } = self.wanted;
        let outcome = Outcome { plan: Some(Plan::clone(&plan)), diagnostics: self.warnings };
        let (how, by) = ("rollback".to_owned(), by.to_owned());
        Offer { outcome, provenance: Provenance { how, by, ..provenance } }
    }

    /// Form for the next process. A plan without a text is written as text.
    pub fn handed(&self) -> Handed {
        let Wanted { plan, provenance: Provenance { provider, how, by, texts } } = self.wanted.clone();
        let written = || Arc::new(Texts::typed(&format!("({provider})"), plan.to_toml_with_secrets()));
        let texts = texts.unwrap_or_else(written);
        let Revision { generation, since_ms, changes, differs, .. } = self.clone();
        Handed { generation, since_ms, how, by, changes, differs, texts }
    }
}

impl Handed {
    /// Reads the plan from its texts.
    pub fn load(&self) -> Outcome {
        self.texts.load()
    }

    /// The first revision of this process, with the plan read by [`load`](Self::load).
    pub fn first(self, plan: Arc<Plan>) -> Revision {
        let Handed { since_ms, how, by, changes, differs, texts, .. } = self;
        let provenance = Provenance { provider: "typed".to_owned(), how, by, texts: Some(texts) };
        let (merged, origins, warnings) = (plan.clone(), Origins::default(), Vec::new());
        let wanted = Wanted { plan, provenance };
        Revision { generation: 0, since_ms, wanted, merged, origins, changes, differs, warnings }
    }
}

/// Revisions of this process, shared by all clones.
#[derive(Clone, Debug)]
pub struct Revisions {
    /// File that the process was started with.
    pub file: Option<PathBuf>,
    /// Never empty; the latest revision is the last.
    kept: Arc<Mutex<VecDeque<Revision>>>,
}

impl Revisions {
    /// A history with its first revision.
    pub fn new(file: Option<PathBuf>, first: Revision) -> Revisions {
        Revisions { file, kept: Arc::new(Mutex::new([first].into())) }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Revision>> {
        lock(&self.kept)
    }

    /// The revision of the current plan.
    pub fn latest(&self) -> Revision {
        self.kept().back().cloned().expect("one is always kept")
    }

    /// All revisions, the latest first.
    pub fn all(&self) -> Vec<Revision> {
        self.kept().iter().rev().cloned().collect()
    }

    /// Revision by number; `None` if it is not kept.
    pub fn get(&self, generation: u64) -> Option<Revision> {
        self.kept().iter().find(|one| one.generation == generation).cloned()
    }

    /// The revision before the current revision.
    pub fn before(&self) -> Option<Revision> {
        self.kept().iter().rev().nth(1).cloned()
    }

    /// Adds the revision that is current from now on.
    pub fn push(&self, revision: Revision) {
        let mut kept = self.kept();
        kept.push_back(revision);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// Records that the first revision runs with the pieces that other providers had added in the previous process.
    pub fn resumed(&self, merged: Arc<Plan>, origins: Origins) {
        if let Some(latest) = self.kept().back_mut() {
            (latest.merged, latest.origins) = (merged, origins);
        }
    }

    /// Records that the current revision was written to the file.
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
    use evenkeel_config::plan::{Endpoint, Listener, Pool, Secret, Sticky};

    /// A revision of a provider without a text.
    fn revision(secret: Secret) -> Revision {
        let at = |port| ([127, 0, 0, 1], port).into();
        let sticky = Some(Sticky { secret, ..Sticky::default() });
        let pool = Pool { endpoints: vec![Endpoint::at(at(2))], sticky, ..Pool::new("web") };
        let plan = Plan::builder().listener(Listener::new("web", at(1))).pool(pool).build("test").plan;
        let [provider, how, by] = ["test", "start", "a"].map(str::to_owned);
        let provenance = Provenance { provider, how, by, texts: None };
        let merged = Arc::new(plan.expect("it is possible"));
        let wanted = Wanted { plan: merged.clone(), provenance };
        let (origins, changes, warnings) = (Origins::default(), Vec::new(), Vec::new());
        Revision { generation: 7, since_ms: 5, wanted, merged, origins, changes, differs: true, warnings }
    }

    #[test]
    fn a_plan_without_a_text_is_handed_over_as_it_is_with_its_secrets() {
        let revision = revision(Secret::Inline("${not a variable} \"".into()));
        let json = serde_json::to_string(&revision.handed()).expect("texts and numbers can be written");
        let handed: Handed = serde_json::from_str(&json).expect("it was written so");
        let plan = Arc::new(handed.load().plan.expect("it is possible"));
        assert_eq!(plan, revision.wanted.plan);
        let first = handed.first(plan);
        assert_eq!((first.generation, first.since_ms, first.differs), (0, 5, true));
        let rolled = first.offer("b");
        assert_eq!(rolled.outcome.plan.as_ref(), Some(&*revision.wanted.plan));
        assert_eq!((&*rolled.provenance.how, &*rolled.provenance.by), ("rollback", "b"));
    }

    #[test]
    fn the_latest_are_kept() {
        let one = |generation| Revision { generation, ..revision(Secret::File("/none".into())) };
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
