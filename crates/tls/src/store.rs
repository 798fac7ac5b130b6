//! TLS configurations of a plan. All files are read before a plan is used, and reread when they change: new files apply
//! to the next handshake, and while they are invalid the old files stay in use.

use crate::challenges::Challenges;
use crate::clients::{self, Before, Expiry, Settings};
use crate::endpoints;
use crate::inspect::{SOON, day, now};
use crate::ocsp::Staple;
use crate::pair::FileError;
use crate::sessions::Sessions;
use evenkeel_config::plan::{ListenerTls, PoolTls};
use evenkeel_config::{Plan, Subject};
use rustls::server::ProducesTickets;
use rustls::{ClientConfig, ServerConfig};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Interval between warnings about certificates that expire soon, in seconds.
const DAY: i64 = 86_400;

/// Fault of a file of a listener or pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Section that names the file: `listener "web"` or `pool "api"`.
    pub owner: String,
    /// Section as data, for the status of the process.
    pub of: Subject,
    /// The fault, with the path of the file.
    pub error: FileError,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls of {}: {}", self.owner, self.error)
    }
}

impl std::error::Error for Problem {}

/// Handle to a configuration that is replaced when its files change.
#[derive(Debug)]
pub struct Current<T> {
    config: RwLock<Arc<T>>,
}

impl<T> Current<T> {
    fn new(config: Arc<T>) -> Current<T> {
        Current { config: RwLock::new(config) }
    }

    /// The configuration for the next handshake. The lock is held only to clone the `Arc`.
    pub fn get(&self) -> Arc<T> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn set(&self, config: Arc<T>) {
        *self.config.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = config;
    }
}

/// TLS of a listener or pool.
#[derive(Debug)]
struct Entry<S, T> {
    settings: S,
    current: Arc<Current<T>>,
    /// Hash of its files when they were last read.
    content: Mutex<[u8; 32]>,
}

impl<S: PartialEq, T> Entry<S, T> {
    /// True if it was made from equal settings and files.
    fn is_as(&self, settings: &S, content: &[u8; 32]) -> bool {
        self.settings == *settings && *self.content() == *content
    }

    fn content(&self) -> std::sync::MutexGuard<'_, [u8; 32]> {
        self.content.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// True if the files have changed since the last call.
    fn has_changed(&self, content: [u8; 32]) -> bool {
        std::mem::replace(&mut *self.content(), content) != content
    }
}

/// Keys that seal a listener's tickets.
type Keys = Mutex<Arc<dyn ProducesTickets>>;

/// A listener, its ticket keys, and the ACME files that it uses.
type OfListener = (Entry<Settings, ServerConfig>, Keys, Mutex<Vec<PathBuf>>);

/// TLS configurations of all listeners and pools of a plan.
#[derive(Debug, Default)]
pub struct Store {
    listeners: HashMap<Arc<str>, OfListener>,
    pools: HashMap<Arc<str>, Entry<PoolTls, ClientConfig>>,
    shown: Arc<Shown>,
    challenges: Arc<Challenges>,
}

/// State behind the metrics and warnings, shared by a store and its successors.
#[derive(Debug, Default)]
pub struct Shown {
    /// Expiry of certificates, by listener.
    pub(crate) expiries: RwLock<HashMap<Arc<str>, Vec<Expiry>>>,
    /// OCSP responses, by listener.
    staples: RwLock<HashMap<Arc<str>, Vec<Arc<Staple>>>>,
    /// Sessions of listeners that accept early data.
    sessions: RwLock<BTreeMap<Arc<str>, Arc<Sessions>>>,
    pub(crate) reloads: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Times of the last warnings about certificates that expire soon, in seconds since 1970, by listener, name and
    /// expiry.
    warned: Mutex<BTreeMap<Warned, i64>>,
}

/// Certificate of a listener: the listener, the name and the expiry.
type Warned = (Arc<str>, String, i64);

impl Shown {
    /// nextUpdate of OCSP responses by listener and name, in seconds since 1970; 0 if a response is not stapled. The
    /// earliest, if a name has several certificates.
    pub fn next_updates(&self) -> BTreeMap<(Arc<str>, String), i64> {
        let staples = self.staples.read().unwrap_or_else(PoisonError::into_inner);
        let mut first = BTreeMap::new();
        for (listener, staple) in staples.iter().flat_map(|(listener, all)| all.iter().map(move |one| (listener, one)))
        {
            let next_update = staple.next_update().unwrap_or(0);
            let at = first.entry((listener.clone(), staple.name.clone())).or_insert(next_update);
            *at = next_update.min(*at);
        }
        first
    }

    /// OCSP responses of a listener.
    fn staples(&self, listener: &str) -> Vec<Arc<Staple>> {
        self.staples.read().unwrap_or_else(PoisonError::into_inner).get(listener).cloned().unwrap_or_default()
    }

    /// Sessions of listeners that accept early data.
    pub fn sessions(&self) -> BTreeMap<Arc<str>, Arc<Sessions>> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Certificates of all listeners, each with the name of its listener.
    pub fn served(&self) -> Vec<(Arc<str>, Expiry)> {
        let expiries = self.expiries.read().unwrap_or_else(PoisonError::into_inner);
        let all =
            expiries.iter().flat_map(|(listener, all)| all.iter().map(move |one| (listener.clone(), one.clone())));
        all.collect()
    }

    /// Expiry of certificates by listener and name, in seconds since 1970. The earliest, if a name has several (RSA and
    /// ECDSA).
    pub fn expiries(&self) -> BTreeMap<(Arc<str>, String), i64> {
        let expiries = self.expiries.read().unwrap_or_else(PoisonError::into_inner);
        let mut first = BTreeMap::new();
        for (listener, expiry) in expiries.iter().flat_map(|(listener, all)| all.iter().map(move |one| (listener, one)))
        {
            let at = first.entry((listener.clone(), expiry.name.clone())).or_insert(expiry.not_after);
            *at = expiry.not_after.min(*at);
        }
        first
    }
}

impl Store {
    /// Reads all files that a plan names. Unchanged listeners and pools keep their handles, with tickets and sessions.
    ///
    /// # Errors
    /// The first file of each listener and pool that cannot be used. Nothing has changed then.
    pub fn next(&self, plan: &Plan) -> Result<Store, Vec<Problem>> {
        let mut store = Store { shown: self.shown.clone(), challenges: self.challenges.clone(), ..Store::default() };
        let (mut expiries, mut staples, mut wrong) = (HashMap::new(), HashMap::new(), Vec::new());
        for (at, listener) in plan.listeners.iter().enumerate() {
            let Some(settings) = Settings::of(listener, plan) else { continue };
            let content = content(&clients::files(&settings));
            let before = self.listeners.get(&listener.name);
            // Ticket keys from files that are no longer named must not be used any more; random keys are kept.
            let random = before.filter(|(entry, ..)| entry.settings.tls.ticket_keys.is_empty());
            let keys = random.map(|(_, keys, _)| keys_of(keys));
            let stapled = self.shown.staples(&listener.name);
            let state = Before { keys: keys.as_ref(), issued: &[], staples: &stapled };
            let made = match clients::make(&settings, &self.challenges, state) {
                Ok(made) => made,
                Err(error) => {
                    let owner = format!("listener \"{}\"", listener.name);
                    wrong.push(Problem { owner, of: Subject::Listener(at), error });
                    continue;
                }
            };
            expiries.insert(listener.name.clone(), made.expiries);
            // A listener that stays keeps the handle that its workers have.
            let (current, keys, stapled) = match before.filter(|(before, ..)| before.is_as(&settings, &content)) {
                Some((before, keys, _)) => (before.current.clone(), keys_of(keys), stapled),
                None => (Arc::new(Current::new(made.config)), made.keys, made.staples),
            };
            staples.insert(listener.name.clone(), stapled);
            let entry = Entry { settings, current, content: content.into() };
            store.listeners.insert(listener.name.clone(), (entry, keys.into(), made.issued.into()));
        }
        for (at, pool) in plan.pools.iter().enumerate() {
            let Some(tls) = &pool.tls else { continue };
            let content = content(&endpoints::files(tls));
            let before = self.pools.get(&pool.name).filter(|before| before.is_as(tls, &content));
            let current = match before {
                Some(before) => before.current.clone(),
                None => match endpoints::make(tls) {
                    Ok(config) => Arc::new(Current::new(config)),
                    Err(error) => {
                        let owner = format!("pool \"{}\"", pool.name);
                        wrong.push(Problem { owner, of: Subject::Pool(at), error });
                        continue;
                    }
                },
            };
            store.pools.insert(pool.name.clone(), Entry { settings: tls.clone(), current, content: content.into() });
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        *self.shown.expiries.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = expiries;
        *self.shown.staples.write().unwrap_or_else(PoisonError::into_inner) = staples;
        let (mut before, mut sessions) = (self.shown.sessions(), BTreeMap::new());
        for listener in plan.listeners.iter().filter(|l| l.http3.as_ref().is_some_and(|http3| http3.early_data)) {
            sessions.insert(listener.name.clone(), before.remove(&listener.name).unwrap_or_default());
        }
        *self.shown.sessions.write().unwrap_or_else(PoisonError::into_inner) = sessions;
        self.shown.warn(now());
        Ok(store)
    }

    /// Rereads files that have changed. Invalid files are logged and counted, and the old files stay in use.
    pub fn look(&self) {
        self.look_at(now());
    }

    pub(crate) fn look_at(&self, now: i64) {
        for (name, (entry, keys, issued)) in &self.listeners {
            let stapled = self.shown.staples(name);
            if !entry.has_changed(content(&clients::files(&entry.settings))) {
                stapled.iter().for_each(|staple| staple.look_at(name, now));
                continue;
            }
            let mut issued = issued.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let before = keys_of(keys);
            let before = Before { keys: Some(&before), issued: &issued, staples: &stapled };
            match clients::make(&entry.settings, &self.challenges, before) {
                Ok(made) => {
                    *issued = made.issued;
                    entry.current.set(made.config);
                    *keys.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = made.keys;
                    let mut expiries = self.shown.expiries.write().unwrap_or_else(|poisoned| poisoned.into_inner());
                    expiries.insert(name.clone(), made.expiries);
                    drop(expiries);
                    let mut staples = self.shown.staples.write().unwrap_or_else(PoisonError::into_inner);
                    staples.insert(name.clone(), made.staples);
                    drop(staples);
                    self.shown.warn(now);
                    self.shown.reloads.fetch_add(1, Relaxed);
                    tracing::info!(listener = %name, "certificates reloaded");
                }
                Err(error) => self.shown.refuse(&format!("listener \"{name}\""), &error),
            }
        }
        for (name, entry) in &self.pools {
            if !entry.has_changed(content(&endpoints::files(&entry.settings))) {
                continue;
            }
            match endpoints::make(&entry.settings) {
                Ok(config) => {
                    entry.current.set(config);
                    self.shown.reloads.fetch_add(1, Relaxed);
                    tracing::info!(pool = %name, "certificates reloaded");
                }
                Err(error) => self.shown.refuse(&format!("pool \"{name}\""), &error),
            }
        }
        self.shown.warn(now);
    }

    /// Listeners with TLS, and the handles to their configurations.
    pub fn listeners(&self) -> impl Iterator<Item = (&Arc<str>, &ListenerTls, &Arc<Current<ServerConfig>>)> {
        self.listeners.iter().map(|(name, (entry, ..))| (name, &entry.settings.tls, &entry.current))
    }

    /// Pools with TLS, and the handles to their configurations.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &PoolTls, &Arc<Current<ClientConfig>>)> {
        self.pools.iter().map(|(name, entry)| (name, &entry.settings, &entry.current))
    }

    /// True if there is no TLS, so that no file has to be watched.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.pools.is_empty()
    }

    /// Pending ACME challenges, to be answered by all listeners.
    pub fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// State behind the metrics.
    pub fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }
}

impl Shown {
    fn refuse(&self, owner: &str, error: &FileError) {
        self.refused.fetch_add(1, Relaxed);
        tracing::error!("tls of {owner}: keeping the previous certificates: {}; {}", error.what, error.help);
    }

    /// Warns of certificates that expire soon or have expired, of each once a day.
    fn warn(&self, now: i64) {
        for (listener, name, not_after) in self.to_warn_of(now) {
            let on = day(not_after);
            if not_after < now {
                tracing::error!(%listener, name, "certificate expired on {on}: clients refuse to connect");
            } else {
                tracing::warn!(%listener, name, "certificate expires on {on}");
            }
        }
    }

    fn to_warn_of(&self, now: i64) -> Vec<Warned> {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(listener, Expiry { name, not_after, .. })| (listener, name, not_after);
        let all: BTreeSet<Warned> = self.expiring(now).into_iter().map(of).collect();
        warned.retain(|one, _| all.contains(one));
        let is_due = |one: &Warned| warned.get(one).is_none_or(|at| now - at >= DAY);
        let due: Vec<Warned> = all.into_iter().filter(is_due).collect();
        warned.extend(due.iter().map(|one| (one.clone(), now)));
        due
    }

    /// Certificates that expire soon or have expired, with their listeners.
    fn expiring(&self, now: i64) -> Vec<(Arc<str>, Expiry)> {
        let expiries = self.expiries.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let all = expiries.iter().flat_map(|(listener, all)| all.iter().map(move |expiry| (listener, expiry)));
        let soon = all.filter(|(_, expiry)| expiry.not_after - now < SOON.as_secs() as i64);
        soon.map(|(listener, expiry)| (listener.clone(), expiry.clone())).collect()
    }
}

/// Hash of the contents of files. A missing file differs from any content.
fn content(files: &[PathBuf]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => {
                hash.update((bytes.len() as u64).to_be_bytes());
                hash.update(&bytes);
            }
            Err(_) => hash.update(u64::MAX.to_be_bytes()),
        }
    }
    hash.finalize().into()
}

fn keys_of(keys: &Keys) -> Arc<dyn ProducesTickets> {
    keys.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
