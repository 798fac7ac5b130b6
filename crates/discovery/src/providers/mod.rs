//! Providers of whole plans: a file, or what is typed. Each offers a plan whenever it wants another one than before; what is
//! offered may be wrong, and says then what is.
//!
//! 1. [`wanted`]: a plan that is wanted, and where it is from; [`Offers`](wanted::Offers): where providers put theirs.
//! 2. [`file`]: the provider `file`, by what [`texts`] files have and by [`watch`], whether one was touched. The provider `typed`
//!    is a text that takes the file's place, over the API.
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

/// The providers of a process.
pub struct Providers {
    file: Arc<Mutex<File>>,
    /// Machine on which typed texts are to run.
    machine: Box<dyn Machine + Send + Sync>,
    offers: Offers,
    watching: Option<Watching>,
}

/// The task that offers the file again when it changes.
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
    /// Creates the providers of a process that was started with this file. `machine`: has what typed plans name.
    pub fn new(file: File, machine: impl Machine + Send + Sync + 'static) -> Providers {
        let file = Arc::new(Mutex::new(file));
        Providers { file, machine: Box::new(machine), offers: Offers::default(), watching: None }
    }

    /// The file that names all others, if there is one.
    pub fn file(&self) -> Option<PathBuf> {
        lock(&self.file).path().map(Into::into)
    }

    /// Content of the file when it was read or written last.
    pub fn texts(&self) -> Texts {
        lock(&self.file).texts().clone()
    }

    /// Reads the file again, if there is one. `by`: who asks for it.
    pub fn reload(&self, by: &str) -> Option<Offer> {
        let mut file = lock(&self.file);
        file.path().is_some().then(|| file.offer(by))
    }

    /// Text instead of the file, beside its includes, checked on this machine. `by`: its author.
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

    /// Has the file say what these texts say: all of it, or what it said before.
    ///
    /// # Errors
    /// The file cannot be written, or was changed since it was read.
    pub fn save(&self, texts: &Texts) -> Result<(), String> {
        lock(&self.file).write(texts)
    }

    /// Offers the file by itself when it changes, if `watch`, or no longer. To be called inside an event loop, after each plan:
    /// what the file includes may lie elsewhere then.
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

    /// Returns the place where other providers put their offers.
    pub fn offers(&self) -> Offers {
        self.offers.clone()
    }

    /// Waits until a provider wants another plan. May be dropped and called again.
    pub async fn offered(&self) -> Offer {
        self.offers.next().await
    }
}
