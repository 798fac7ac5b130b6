//! Users of routes: names and hashes of passwords, read once for all workers, and again when a file of them changes.

use super::verifier::Verifier;
use crate::filters::watched_files::{self, WatchedFiles, no_list};
use crate::resource::Resource;
use evenkeel_balance::published::{Published, Reader};
use evenkeel_config::plan::Users as Place;
use evenkeel_config::{Plan, Subject, USER_LIST_MAX, user_list};
use evenkeel_runtime::Diagnostic;
use std::collections::HashMap;
use std::sync::Arc;

/// Users of the routes of a plan, each file or text read once. Routes with the same file or text share it.
#[derive(Debug, Default)]
pub struct UserLists {
    lists: HashMap<Place, Arc<UserList>>,
    verifier: Arc<Verifier>,
}

/// Users of a file or a text, which workers read as a published value.
#[derive(Debug)]
pub struct UserList {
    users: Published<Users>,
    /// The file; `None` for a text, which never changes.
    file: Option<WatchedFiles>,
    /// Verifier of the process, which every list has.
    pub verifier: Arc<Verifier>,
}

/// Users as they were when they were read.
#[derive(Debug)]
pub struct Users {
    by_name: HashMap<Vec<u8>, Arc<str>>,
    /// Hashes of all users, in the order of their names.
    hashes: Box<[Arc<str>]>,
}

/// Hash that a password is verified against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub hash: Arc<str>,
    /// False if the user is unknown, and the hash belongs to another user.
    pub is_known: bool,
}

impl Resource for UserLists {
    /// Reads the files of the next plan. The verifier stays, with its remembered results.
    ///
    /// # Errors
    /// The files that cannot be read, and the lines that are wrong, each with its route.
    fn next(plan: &Plan, before: Option<&Arc<UserLists>>) -> Result<Arc<UserLists>, Vec<Diagnostic>> {
        let verifier = before.map(|before| before.verifier.clone()).unwrap_or_default();
        let mut all = UserLists { lists: HashMap::new(), verifier };
        let mut errors = Vec::new();
        for (at, route) in plan.routes.iter().enumerate() {
            let Some(auth) = route.filters.basic_auth.as_ref().filter(|auth| !all.lists.contains_key(&auth.users))
            else {
                continue;
            };
            match UserList::read(&auth.users, &all.verifier) {
                Ok(list) => _ = all.lists.insert(auth.users.clone(), list.into()),
                Err(error) => {
                    errors.push(no_list(Subject::Route(at), format!("basic_auth of route \"{}\": {error}", route.name)))
                }
            }
        }
        if errors.is_empty() { Ok(all.into()) } else { Err(errors) }
    }

    fn has_files(&self) -> bool {
        self.lists.values().any(|list| list.file.is_some())
    }

    fn look(&self) {
        for (place, list) in &self.lists {
            let Some(file) = &list.file else { continue };
            file.look(|| match Users::read(place) {
                Ok(users) => {
                    list.users.publish(users);
                    tracing::info!(%file, "users reloaded");
                }
                Err(error) => tracing::error!("keeping the previous users: {error}"),
            });
        }
    }
}

impl UserLists {
    /// Users at this place, if a route has them.
    pub fn of(&self, place: &Place) -> Option<&Arc<UserList>> {
        self.lists.get(place)
    }
}

impl UserList {
    fn read(place: &Place, verifier: &Arc<Verifier>) -> Result<UserList, String> {
        let file = match place {
            Place::File(path) => Some(WatchedFiles::new(vec![path.clone()])),
            Place::Text(_) => None,
        };
        let users = Published::new(Users::read(place)?);
        Ok(UserList { users, file, verifier: verifier.clone() })
    }

    /// The users as a worker sees them.
    pub fn reader(&self) -> Reader<Users> {
        self.users.reader()
    }
}

impl Users {
    fn read(place: &Place) -> Result<Users, String> {
        let text = match place {
            Place::File(path) => &watched_files::read(path, USER_LIST_MAX)?,
            Place::Text(text) => text.as_bytes(),
        };
        Ok(Users::new(user_list(&place.to_string(), text)?))
    }

    pub(super) fn new(users: HashMap<Vec<u8>, String>) -> Users {
        let by_name: HashMap<Vec<u8>, Arc<str>> = users.into_iter().map(|(name, hash)| (name, hash.into())).collect();
        let mut all: Vec<_> = by_name.iter().collect();
        all.sort_unstable();
        let hashes = all.into_iter().map(|(_, hash)| hash.clone()).collect();
        Users { by_name, hashes }
    }

    /// Hash against which a password of this user is verified. An unknown user gets the hash of a known user, which
    /// `choice` picks, so that both take the same time. `None` if there are no users.
    pub fn entry(&self, name: &[u8], choice: impl FnOnce() -> u64) -> Option<Entry> {
        if let Some(hash) = self.by_name.get(name) {
            return Some(Entry { hash: hash.clone(), is_known: true });
        }
        let len = self.hashes.len().max(1) as u64;
        let hash = self.hashes.get((choice() % len) as usize)?;
        Some(Entry { hash: hash.clone(), is_known: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_has_the_hash_of_a_known_one() {
        let users = [("ann", "$a"), ("bob", "$b")].map(|(name, hash)| (name.as_bytes().to_vec(), hash.to_string()));
        let users = Users::new(HashMap::from(users));
        let entry = |name: &str, choice: u64| {
            let entry = users.entry(name.as_bytes(), || choice).expect("there are users");
            (entry.hash.to_string(), entry.is_known)
        };
        assert_eq!([entry("ann", 1), entry("bob", 0)], [("$a".into(), true), ("$b".into(), true)]);
        assert_eq!([entry("eve", 4), entry("eve", u64::MAX)], [("$a".into(), false), ("$b".into(), false)]);
        assert_eq!([entry("", 0), entry("Ann", 0)], [("$a".into(), false), ("$a".into(), false)]);
        assert_eq!(Users::new(HashMap::new()).entry(b"ann", || 7), None);
    }
}
