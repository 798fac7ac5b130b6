//! Networks whose clients a route answers or refuses: lists of the configuration and of files, built once for all
//! workers and read again when a file changes.

use crate::filters::watched_files::{self, WatchedFiles, no_list};
use crate::resource::Resource;
use evenkeel_balance::networks::{Builder, Networks};
use evenkeel_balance::published::{Published, Reader};
use evenkeel_config::plan::Access;
use evenkeel_config::{NETWORK_LIST_MAX, Plan, Subject, network_list};
use evenkeel_runtime::Diagnostic;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Access lists of all routes of a plan. Routes with equal settings share a list.
#[derive(Debug, Default)]
pub struct AccessLists {
    routes: HashMap<Arc<str>, Arc<AccessList>>,
    all: Vec<Arc<AccessList>>,
}

/// Access list of a route, or of several with equal settings.
#[derive(Debug)]
pub struct AccessList {
    /// Status of the response to refused requests.
    pub status: u16,
    settings: Access,
    table: Published<Table>,
    files: WatchedFiles,
}

/// Verdicts on the networks of a list, and on all others.
#[derive(Debug)]
pub struct Table {
    networks: Networks<Verdict>,
    /// Verdict on clients of other networks.
    others: Verdict,
}

/// Verdict on the clients of a network. If a network has both, the denial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Allow,
    Deny,
}

impl Resource for AccessLists {
    /// Reads the lists of a plan with their files.
    ///
    /// # Errors
    /// The files that cannot be read, and lines that are not networks, each with its route.
    fn next(plan: &Plan, _: Option<&Arc<AccessLists>>) -> Result<Arc<AccessLists>, Vec<Diagnostic>> {
        let (mut made, mut errors) = (HashMap::<&Access, Arc<AccessList>>::new(), Vec::new());
        let mut lists = AccessLists::default();
        for (at, route) in plan.routes.iter().enumerate() {
            let Some(access) = &route.filters.access else { continue };
            let list = match made.get(access) {
                Some(list) => list.clone(),
                None => match AccessList::new(access) {
                    Ok(list) => Arc::new(list),
                    Err(error) => {
                        errors
                            .push(no_list(Subject::Route(at), format!("access of route \"{}\": {error}", route.name)));
                        continue;
                    }
                },
            };
            made.insert(access, list.clone());
            lists.routes.insert(route.name.clone(), list);
        }
        lists.all = made.into_values().collect();
        if errors.is_empty() { Ok(lists.into()) } else { Err(errors) }
    }

    fn has_files(&self) -> bool {
        self.all.iter().any(|list| !list.files.is_empty())
    }

    fn look(&self) {
        self.all.iter().for_each(|list| list.look());
    }
}

impl AccessLists {
    /// Access list of a route, if any.
    pub fn of(&self, route: &str) -> Option<&Arc<AccessList>> {
        self.routes.get(route)
    }
}

impl AccessList {
    fn new(settings: &Access) -> Result<AccessList, String> {
        let files = WatchedFiles::new(settings.files().map(|(_, file)| file.clone()).collect());
        let table = Published::new(Table::read(settings)?);
        Ok(AccessList { status: settings.status, settings: settings.clone(), table, files })
    }

    /// The list as a worker sees it.
    pub fn reader(&self) -> Reader<Table> {
        self.table.reader()
    }

    fn look(&self) {
        self.files.look(|| match Table::read(&self.settings) {
            Ok(table) => {
                self.table.publish(table);
                tracing::info!(files = %self.files, "access lists reloaded");
            }
            Err(error) => tracing::error!("keeping the previous access lists: {error}"),
        });
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
            let networks = network_list(&file.display().to_string(), &watched_files::read(file, NETWORK_LIST_MAX)?)?;
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

    /// True if any of the networks contains the client.
    pub fn lists(&self, client: IpAddr) -> bool {
        self.networks.find(client).is_some()
    }
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
