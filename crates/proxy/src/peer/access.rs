//! Networks whose clients a route answers or refuses: lists of the configuration and of files, built once for all
//! workers and read again when a file changes.

#![expect(clippy::disallowed_types, reason = "taken when files are read, never by workers")]

use evenkeel_balance::networks::{Builder, Networks};
use evenkeel_balance::published::{Published, Reader};
use evenkeel_config::plan::{self, Access};
use evenkeel_config::{NETWORK_LIST_MAX, Plan, network_list};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Access lists of all routes of a plan. Routes with equal settings share one.
#[derive(Debug, Default)]
pub struct AccessLists {
    routes: HashMap<Arc<str>, Arc<AccessList>>,
    all: Vec<Arc<AccessList>>,
}

/// Access list of a route, or of several with equal settings.
#[derive(Debug)]
pub struct AccessList {
    /// Status of the answer to refused requests.
    pub status: u16,
    settings: Access,
    table: Published<Table>,
    looked: Mutex<Looked>,
}

/// Files of a list, as they were when it was looked at and when it was read.
#[derive(Debug, Default)]
struct Looked {
    seen: Vec<Stamp>,
    read: Vec<Stamp>,
}

/// Identity and state of a file, or the error of looking at it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Result<(u64, u64, u64, i64, i64), io::ErrorKind>);

/// Verdicts on the networks of a list, and on all others.
#[derive(Debug)]
pub struct Table {
    networks: Networks<Verdict>,
    /// Verdict on clients of other networks.
    others: Verdict,
}

/// Verdict on the clients of a network. Of a network with both, the denial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Allow,
    Deny,
}

impl AccessLists {
    /// Reads the lists of a plan with their files.
    ///
    /// # Errors
    /// The files that cannot be read, and lines that are not networks.
    pub fn read(plan: &Plan) -> Result<AccessLists, Vec<String>> {
        let (mut made, mut errors) = (HashMap::<&Access, Arc<AccessList>>::new(), Vec::new());
        let mut lists = AccessLists::default();
        for (route, access) in
            plan.routes.iter().filter_map(|route: &plan::Route| Some((route, route.access.as_ref()?)))
        {
            let list = match made.get(access) {
                Some(list) => list.clone(),
                None => match AccessList::new(access) {
                    Ok(list) => Arc::new(list),
                    Err(error) => {
                        errors.push(format!("access of route \"{}\": {error}", route.name));
                        continue;
                    }
                },
            };
            made.insert(access, list.clone());
            lists.routes.insert(route.name.clone(), list);
        }
        lists.all = made.into_values().collect();
        if errors.is_empty() { Ok(lists) } else { Err(errors) }
    }

    /// Access list of a route, if it has one.
    pub fn of(&self, route: &str) -> Option<&Arc<AccessList>> {
        self.routes.get(route)
    }

    /// True if no list has files, so that there is nothing to look at.
    pub fn has_no_files(&self) -> bool {
        self.all.iter().all(|list| list.settings.files().next().is_none())
    }

    /// Reads files again that have changed and then stayed the same from one call to the next: writers that write
    /// piecemeal are faster. Wrong files are logged, and the lists of before stay. Blocks.
    pub fn look(&self) {
        self.all.iter().for_each(|list| list.look());
    }
}

impl AccessList {
    fn new(settings: &Access) -> Result<AccessList, String> {
        let stamps = stamps(settings);
        let table = Published::new(Table::read(settings)?);
        let looked = Mutex::new(Looked { seen: stamps.clone(), read: stamps });
        Ok(AccessList { status: settings.status, settings: settings.clone(), table, looked })
    }

    /// The list as a worker sees it.
    pub fn reader(&self) -> Reader<Table> {
        self.table.reader()
    }

    fn look(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.settings);
        let is_settled = looked.seen == stamps;
        looked.seen.clone_from(&stamps);
        if !is_settled || looked.read == stamps {
            return;
        }
        match Table::read(&self.settings) {
            Ok(table) => {
                self.table.publish(table);
                tracing::info!(files = %names(&self.settings), "access lists reloaded");
            }
            Err(error) => tracing::error!("keeping the previous access lists: {error}"),
        }
        looked.read = stamps;
    }
}

impl Table {
    fn read(settings: &Access) -> Result<Table, String> {
        let mut builder = Builder::default();
        for (verdict, networks) in [(Verdict::Allow, &settings.allow), (Verdict::Deny, &settings.deny)] {
            networks.iter().for_each(|network| builder.add(network.network(), network.prefix(), verdict));
        }
        for (allows, file) in settings.files() {
            let verdict = if allows { Verdict::Allow } else { Verdict::Deny };
            let name = file.display().to_string();
            let networks = network_list(&name, &read(file).map_err(|error| format!("cannot read {name}: {error}"))?)?;
            networks.iter().for_each(|network| builder.add(network.network(), network.prefix(), verdict));
        }
        let others = if settings.refuses_others() { Verdict::Deny } else { Verdict::Allow };
        Ok(Table { networks: builder.build(), others })
    }

    /// True if requests of a client are answered.
    #[inline]
    pub fn allows(&self, client: IpAddr) -> bool {
        self.networks.find(client).unwrap_or(self.others) == Verdict::Allow
    }

    /// True if a client is in one of the networks.
    pub fn lists(&self, client: IpAddr) -> bool {
        self.networks.find(client).is_some()
    }
}

impl Stamp {
    fn of(path: &Path) -> Stamp {
        let metadata = fs::metadata(path).map_err(|error| error.kind());
        Stamp(metadata.map(|m| (m.dev(), m.ino(), m.len(), m.ctime(), m.ctime_nsec())))
    }
}

fn stamps(settings: &Access) -> Vec<Stamp> {
    settings.files().map(|(_, file)| Stamp::of(file)).collect()
}

fn names(settings: &Access) -> String {
    settings.files().map(|(_, file)| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Reads a file, and a byte more than a list may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(NETWORK_LIST_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
