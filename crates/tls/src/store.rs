//! What does a plan need of TLS, now? Everything is read before a plan is used, and files are looked at again while it is: new
//! ones are used from the next handshake on, and while they are wrong, the old ones stay.

use crate::challenges::Challenges;
use crate::clients::{self, Before, Expiry, Settings};
use crate::endpoints;
use crate::inspect::{SOON, day, now};
use crate::ocsp::Staple;
use crate::pair::FileError;
use evenkeel_config::Plan;
use evenkeel_config::plan::{ListenerTls, PoolTls};
use rustls::server::ProducesTickets;
use rustls::{ClientConfig, ServerConfig};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How often it is warned of certificates that expire soon, in seconds.
const DAY: i64 = 86_400;

/// Why the files of a listener or a pool cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `listener "web"`, `pool "api"`.
    pub owner: String,
    /// What is wrong.
    pub error: FileError,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls of {}: {}", self.owner, self.error)
    }
}

impl std::error::Error for Problem {}

/// What is used for the next handshake, and when that was made.
#[derive(Debug)]
pub struct Current<T> {
    config: RwLock<Arc<T>>,
}

impl<T> Current<T> {
    fn new(config: Arc<T>) -> Current<T> {
        Current { config: RwLock::new(config) }
    }

    /// For the next handshake. The lock is held for as long as a count takes.
    pub fn get(&self) -> Arc<T> {
        self.config.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn set(&self, config: Arc<T>) {
        *self.config.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = config;
    }
}

/// One listener or pool.
#[derive(Debug)]
struct Entry<S, T> {
    settings: S,
    current: Arc<Current<T>>,
    /// Of its files.
    content: Mutex<[u8; 32]>,
}

impl<S: PartialEq, T> Entry<S, T> {
    /// Whether it was made of these settings and these files.
    fn is_as(&self, settings: &S, content: &[u8; 32]) -> bool {
        self.settings == *settings && *self.content() == *content
    }

    fn content(&self) -> std::sync::MutexGuard<'_, [u8; 32]> {
        self.content.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether the files have changed since they were looked at.
    fn has_changed(&self, content: [u8; 32]) -> bool {
        std::mem::replace(&mut *self.content(), content) != content
    }
}

/// What tickets of a listener are sealed by.
type Keys = Mutex<Arc<dyn ProducesTickets>>;

/// A listener, the keys of its tickets, and the files that it uses of an authority.
type OfListener = (Entry<Settings, ServerConfig>, Keys, Mutex<Vec<PathBuf>>);

/// All of a plan.
#[derive(Debug, Default)]
pub struct Store {
    listeners: HashMap<Arc<str>, OfListener>,
    pools: HashMap<Arc<str>, Entry<PoolTls, ClientConfig>>,
    shown: Arc<Shown>,
    challenges: Arc<Challenges>,
}

/// What metrics show.
#[derive(Debug, Default)]
pub struct Shown {
    /// By listener.
    pub(crate) expiries: RwLock<HashMap<Arc<str>, Vec<Expiry>>>,
    /// OCSP responses by listener.
    staples: RwLock<HashMap<Arc<str>, Vec<Arc<Staple>>>>,
    pub(crate) reloads: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// When it was last warned of certificates that expire soon, seconds since 1970.
    warned: AtomicI64,
}

impl Shown {
    /// The nextUpdate of OCSP responses by listener and name, in seconds since 1970; 0 if one is not stapled. For a name with several
    /// certificates, the earliest.
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

    /// Certificates of all listeners, each with the name of its listener.
    pub fn served(&self) -> Vec<(Arc<str>, Expiry)> {
        let expiries = self.expiries.read().unwrap_or_else(PoisonError::into_inner);
        let all =
            expiries.iter().flat_map(|(listener, all)| all.iter().map(move |one| (listener.clone(), one.clone())));
        all.collect()
    }

    /// When the certificates of all listeners expire: listener, name, and seconds since 1970. Of several for one name, as of RSA and
    /// ECDSA, the one that expires first.
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
    /// Reads all that a plan names. What is as it was in the plan before goes on, with its tickets and sessions.
    ///
    /// # Errors
    /// The first file that cannot be used; then nothing has changed.
    pub fn next(&self, plan: &Plan) -> Result<Store, Problem> {
        let mut store = Store { shown: self.shown.clone(), challenges: self.challenges.clone(), ..Store::default() };
        let (mut expiries, mut staples) = (HashMap::new(), HashMap::new());
        for listener in &plan.listeners {
            let Some(settings) = Settings::of(listener, plan) else { continue };
            let owner = || format!("listener \"{}\"", listener.name);
            let content = content(&clients::files(&settings));
            let before = self.listeners.get(&listener.name);
            // Keys of files that are named no longer are not used any more.
            let random = before.filter(|(entry, ..)| entry.settings.tls.ticket_keys.is_empty());
            let keys = random.map(|(_, keys, _)| keys_of(keys));
            let stapled = self.shown.staples(&listener.name);
            let state = Before { keys: keys.as_ref(), issued: &[], staples: &stapled };
            let made =
                clients::make(&settings, &self.challenges, state).map_err(|error| Problem { owner: owner(), error })?;
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
        for pool in &plan.pools {
            let Some(tls) = &pool.tls else { continue };
            let content = content(&endpoints::files(tls));
            let before = self.pools.get(&pool.name).filter(|before| before.is_as(tls, &content));
            let current = match before {
                Some(before) => before.current.clone(),
                None => {
                    let owner = format!("pool \"{}\"", pool.name);
                    let config = endpoints::make(tls).map_err(|error| Problem { owner, error })?;
                    Arc::new(Current::new(config))
                }
            };
            store.pools.insert(pool.name.clone(), Entry { settings: tls.clone(), current, content: content.into() });
        }
        *self.shown.expiries.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = expiries;
        *self.shown.staples.write().unwrap_or_else(PoisonError::into_inner) = staples;
        self.shown.warn(now());
        Ok(store)
    }

    /// Reads the files that have changed since; wrong ones are told of in the log, and the old ones stay.
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
            let before = Before { keys: Some(&keys_of(keys)), issued: &issued, staples: &stapled };
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
                    tracing::info!(listener = %name, "certificates were read again");
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
                    tracing::info!(pool = %name, "certificates were read again");
                }
                Err(error) => self.shown.refuse(&format!("pool \"{name}\""), &error),
            }
        }
        if now - self.shown.warned.load(Relaxed) >= DAY {
            self.shown.warn(now);
        }
    }

    /// What each listener that speaks TLS shakes hands by.
    pub fn listeners(&self) -> impl Iterator<Item = (&Arc<str>, &ListenerTls, &Arc<Current<ServerConfig>>)> {
        self.listeners.iter().map(|(name, (entry, ..))| (name, &entry.settings.tls, &entry.current))
    }

    /// What each pool that speaks TLS shakes hands by.
    pub fn pools(&self) -> impl Iterator<Item = (&Arc<str>, &PoolTls, &Arc<Current<ClientConfig>>)> {
        self.pools.iter().map(|(name, entry)| (name, &entry.settings, &entry.current))
    }

    /// Whether there is a file to look at.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.pools.is_empty()
    }

    /// What proves to authorities that names are served here.
    pub fn challenges(&self) -> &Arc<Challenges> {
        &self.challenges
    }

    /// For metrics.
    pub fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }
}

impl Shown {
    fn refuse(&self, owner: &str, error: &FileError) {
        self.refused.fetch_add(1, Relaxed);
        tracing::error!("tls of {owner}: the certificates of before stay in use: {}; {}", error.what, error.help);
    }

    /// Warns of certificates that expire soon, or have.
    fn warn(&self, now: i64) {
        self.warned.store(now, Relaxed);
        for (listener, Expiry { name, not_after, .. }) in self.expiring(now) {
            let on = day(not_after);
            if not_after < now {
                tracing::error!(%listener, name, "a certificate has expired on {on}: clients refuse to connect");
            } else {
                tracing::warn!(%listener, name, "a certificate expires on {on}");
            }
        }
    }

    /// Certificates that expire soon, or have, with their listeners.
    fn expiring(&self, now: i64) -> Vec<(Arc<str>, Expiry)> {
        let expiries = self.expiries.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let all = expiries.iter().flat_map(|(listener, all)| all.iter().map(move |expiry| (listener, expiry)));
        let soon = all.filter(|(_, expiry)| expiry.not_after - now < SOON.as_secs() as i64);
        soon.map(|(listener, expiry)| (listener.clone(), expiry.clone())).collect()
    }
}

/// A hash of files; one that is missing counts as another content.
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
