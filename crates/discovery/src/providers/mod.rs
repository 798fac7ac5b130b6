//! Providers of whole plans: a file, or a text applied over the API. Each offers a plan whenever it changes.
//! An offer may be invalid, and then has the errors.
//!
//! 1. [`wanted`]: offered plans with their origin, and [`Offers`](wanted::Offers), where providers put them.
//! 2. [`file`]: the provider `file`, with the [`texts`] of its files and a [`watch`] for changes. The provider `typed`
//!    is a text that replaces the file, over the API.
//! 3. [`revisions`]: the plans that were in use.

pub mod file;
pub mod revisions;
pub mod texts;
pub mod wanted;
pub mod watch;

use crate::lock::lock;
use evenkeel_config::Machine;
use file::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use texts::Texts;
use tokio::task::AbortHandle;
use wanted::{Offer, Offers, Provenance};
use watch::Folders;

/// Providers of a process, sharing one file.
pub struct Providers {
    file: Arc<Mutex<File>>,
    /// Machine that typed texts are checked against.
    machine: Box<dyn Machine + Send + Sync>,
    offers: Offers,
    watching: Option<Watching>,
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
    pub fn new(file: File, machine: impl Machine + Send + Sync + 'static) -> Providers {
        let file = Arc::new(Mutex::new(file));
        Providers { file, machine: Box::new(machine), offers: Offers::default(), watching: None }
    }

    /// Path of the main file; `None` if the configuration was typed.
    pub fn file(&self) -> Option<PathBuf> {
        lock(&self.file).path().map(Into::into)
    }

    /// Contents of the file when last read or written.
    pub fn texts(&self) -> Texts {
        lock(&self.file).texts().clone()
    }

    /// Reads the file again; `None` without one. `by` names who asked.
    pub fn reload(&self, by: &str) -> Option<Offer> {
        let mut file = lock(&self.file);
        file.path().is_some().then(|| file.offer(by))
    }

    /// Offers a text in place of the file, with the file's includes, checked on this machine. `by` names its
    /// author.
    pub fn typed(&self, text: &str, by: &str) -> Offer {
        let (outcome, texts) = lock(&self.file).with(text, &*self.machine);
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

    /// Starts or stops offering the file when it changes. Call it inside a tokio runtime, and after each
    /// plan, whose includes may be in other folders.
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
