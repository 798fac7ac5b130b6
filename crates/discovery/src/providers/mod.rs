//! Providers of whole plans: a file, or a text applied over the API. Each offers a plan whenever it changes.
//! An offer may be invalid, and then has the errors.
//!
//! 1. [`wanted`]: offered plans with their origin, and [`Offers`](wanted::Offers), where providers put them.
//! 2. [`file`]: the provider `file`, with the [`texts`] of its files and a [`watch`] for changes. The provider `typed`
//!    is a text that replaces the file, over the API.
//! 3. [`parts`]: pieces that providers add to the plan of the file, and [`merge`](merge::merge), which joins all of
//!    them to a plan. [`remote`] starts and ends these providers.
//! 4. [`revisions`]: the plans that were in use.

// Order: file, remote, kubernetes, revisions, merge, wanted, texts, watch, xds, parts
pub mod file;
#[cfg(feature = "kubernetes")]
mod kubernetes;
pub mod merge;
pub mod parts;
mod remote;
pub mod revisions;
pub mod texts;
pub mod wanted;
pub mod watch;
#[cfg(feature = "xds")]
mod xds;

use crate::context::Context;
use crate::following::Discovery;
use crate::lock::lock;
use evenkeel_config::{Machine, Plan};
use file::File;
use merge::{Merged, Unwanted, merge};
use parts::{Part, Parts, Settled};
use remote::Remote;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use texts::Texts;
use tokio::task::AbortHandle;
use wanted::{Offer, Offers, Provenance};
use watch::Folders;

/// Name of the process before, as a provider.
const BEFORE: &str = "before";

/// Providers of a process. They share a file.
pub struct Providers {
    file: Arc<Mutex<File>>,
    /// Machine that typed texts are checked against.
    machine: Machine,
    offers: Offers,
    watching: Option<Watching>,
    /// Parts of the providers other than the file.
    parts: Parts,
    remote: Remote,
    /// Part of these providers in the previous process, until each of them has put a part.
    before: Option<Arc<Part>>,
    /// Connections that sources of endpoints have, too.
    shared: Context,
}

/// Task that offers the file again when it changes.
struct Watching {
    folders: Folders,
    task: AbortHandle,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Providers {
    /// Providers of a process that was started with this file. Typed plans are checked against `machine`.
    pub fn new(file: File, machine: Machine) -> Providers {
        let file = Arc::new(Mutex::new(file));
        let (offers, parts) = (Offers::default(), Parts::default());
        let remote = Remote::default();
        Providers { file, machine, offers, watching: None, parts, remote, before: None, shared: Context::default() }
    }

    /// Shares connections with the sources of endpoints: a control plane is asked over a single stream for both.
    pub fn share(&mut self, discovery: &Discovery) {
        self.shared = discovery.shared();
    }

    /// Serves the pieces that the previous process had from its providers, until the providers of this process have put
    /// their parts.
    pub fn resume(&mut self, base: &Plan, merged: &Plan) {
        self.before = Some(Arc::new(merge::added(base, merged)));
    }

    /// Starts the providers of a plan, and ends those that it does not have. Call it inside a tokio runtime.
    pub fn follow_remote(&mut self, plan: &Plan) {
        self.remote.follow(plan, &self.parts, &self.shared);
    }

    /// Waits until a provider other than the file has put something. Cancel safe.
    pub async fn contributed(&self) {
        self.parts.changed().await;
    }

    /// Parts of the providers other than the file, shared with this.
    pub fn parts(&self) -> Parts {
        self.parts.clone()
    }

    /// True if every provider of a plan has put its part, even if it is empty.
    pub fn is_complete(&self, plan: &Plan) -> bool {
        let all = self.parts.all();
        let is_there = |name| all.iter().any(|(provider, number, _)| *provider == name && *number > 0);
        remote::of(plan).into_iter().all(is_there)
    }

    /// Merges the plan of the file with the parts of the other providers, without unwanted pieces. If the plan is
    /// impossible for a reason that cannot be attributed, pieces that differ from the `running` plan are left out
    /// first. Also returns the number of each part in it.
    pub fn merge(&mut self, base: &Plan, unwanted: &Unwanted, running: &Plan) -> (Merged, Vec<(&'static str, u64)>) {
        let wanted = remote::of(base);
        let all: Vec<_> = self.parts.all().into_iter().filter(|(provider, ..)| wanted.contains(provider)).collect();
        if self.is_complete(base) {
            self.before = None;
        }
        let numbers = all.iter().map(|(provider, number, _)| (*provider, *number)).collect();
        let mut parts: Vec<_> = all.into_iter().map(|(provider, _, part)| (provider, part)).collect();
        parts.extend(self.before.clone().map(|before| (BEFORE, before)));
        (merge(base, &parts, unwanted, running), numbers)
    }

    /// Tells the providers that a merged plan is in use.
    pub fn settle(&self, merged: &Merged, numbers: &[(&'static str, u64)]) {
        for (provider, number) in numbers {
            let refused = merged.refused.get(provider).cloned().unwrap_or_default();
            self.parts.settle(provider, Settled { number: *number, refused });
        }
    }

    /// Path of the main file; `None` if the configuration was typed.
    pub fn file(&self) -> Option<PathBuf> {
        lock(&self.file).path().map(Into::into)
    }

    /// Contents of the file when last read or written.
    pub fn texts(&self) -> Texts {
        lock(&self.file).texts().clone()
    }

    /// Reads the file again; `None` without a file. `by` names who asked.
    pub fn reload(&self, by: &str) -> Option<Offer> {
        let mut file = lock(&self.file);
        file.path().is_some().then(|| file.offer(by))
    }

    /// Offers a text in place of the file, with the file's includes, checked on this machine. `by` names its
    /// author.
    pub fn typed(&self, text: &str, by: &str) -> Offer {
        let (outcome, texts) = lock(&self.file).with(text, &self.machine);
        let provenance = Provenance {
            provider: "typed".to_owned(),
            how: "apply".to_owned(),
            by: by.to_owned(),
            texts: Some(Arc::new(texts)),
        };
        Offer { outcome, provenance }
    }

    /// Writes the main file of these texts, atomically. Includes are not written, and must be as on disk.
    ///
    /// # Errors
    /// If the file cannot be written, it or an include has changed since it was read, or an include differs.
    pub fn save(&self, texts: &Texts) -> Result<(), String> {
        lock(&self.file).write(texts)
    }

    /// Starts or stops offering the file when it changes. Call it inside a tokio runtime, and after each plan, since
    /// the includes of a plan may be in other folders.
    pub fn follow(&mut self, watch: bool) {
        if !watch {
            self.watching = None;
            return;
        }
        if self.watching.is_none() {
            match watch::start() {
                Ok((folders, mut touched)) => {
                    let (file, offers) = (self.file.clone(), self.offers.clone());
                    let task = tokio::spawn(async move {
                        loop {
                            touched.next().await;
                            let mut file = lock(&file);
                            if file.has_changed() {
                                offers.put(file.offer("the file changed"));
                            }
                        }
                    });
                    self.watching = Some(Watching { folders, task: task.abort_handle() });
                }
                Err(error) => tracing::error!(%error, "cannot watch the configuration files"),
            }
        }
        if let Some(watching) = &self.watching {
            watching.folders.add(&lock(&self.file).folders());
        }
    }

    /// Place for the offers of other providers.
    pub fn offers(&self) -> Offers {
        self.offers.clone()
    }

    /// Waits for the next offer. Cancel safe.
    pub async fn offered(&self) -> Offer {
        self.offers.next().await
    }
}
