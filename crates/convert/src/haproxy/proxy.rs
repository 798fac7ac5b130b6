//! A section with its rules, and the facts of the file that they depend on.

use super::acl::Acls;
use super::lexer::{Item, Section};
use super::logic::Expr;
use super::pages::Groups;
use super::rules::{Caches, Rules, Scope, StickTables, User, read, trackers, unused};
use super::samples::Context;
use super::state::{State, Tracker};
use crate::ledger::Ledger;
use crate::model::Maps;
use evenkeel_config::Files;
use std::collections::BTreeMap;

/// Facts of the whole file that the rules of a section depend on.
pub(super) struct World<'w> {
    /// Names and hashes by the name of their section `userlist`.
    pub userlists: &'w BTreeMap<String, Vec<User>>,
    pub caches: &'w Caches,
    pub tables: &'w StickTables,
    pub groups: &'w Groups,
    pub maps: &'w Maps,
    pub files: &'w dyn Files,
    /// State in which rules of frontends begin.
    pub state: State,
}

/// True for directives that need `mode http`.
pub(super) fn is_of_http(item: &Item) -> bool {
    let word = item.word(0);
    let is_old = word.starts_with("req") || word.starts_with("rsp");
    is_old
        || matches!(
            word,
            "http-request"
                | "http-response"
                | "http-after-response"
                | "redirect"
                | "block"
                | "monitor-uri"
                | "cookie"
                | "compression"
                | "capture"
                | "stats"
                | "errorfile"
                | "errorfiles"
                | "errorloc"
                | "errorloc302"
                | "errorloc303"
                | "http-error"
        )
        || word == "option" && matches!(item.word(1), "forwardfor" | "httplog" | "httpclose" | "http-server-close")
}

/// A frontend, backend or listen section with the defaults that it starts from.
pub(super) struct Proxy<'s> {
    pub section: &'s Section,
    pub items: Vec<&'s Item>,
    pub is_tcp: bool,
    pub acls: Acls,
}

impl Proxy<'_> {
    pub fn context<'c>(&self, maps: &'c Maps, files: &'c dyn Files) -> Context<'c> {
        Context { maps, files, port: self.port() }
    }

    /// True if the section or its defaults name a mode.
    pub fn has_mode(&self) -> bool {
        self.items.iter().any(|item| item.word(0) == "mode")
    }

    pub fn is_front(&self) -> bool {
        self.section.kind != "backend"
    }

    pub fn is_back(&self) -> bool {
        self.section.kind != "frontend"
    }

    pub fn rules(&self, world: &World<'_>, state: State, ledger: &mut Ledger) -> Rules {
        let context = self.context(world.maps, world.files);
        let is_of_all = |tracker: &Tracker| tracker.on == Expr::Const(true);
        let mut scope = Scope {
            items: &self.items,
            section: &self.section.name,
            is_front: self.is_front(),
            keeps_ends: self.responses_read_variables("http-after-response"),
            acls: &self.acls,
            context: &context,
            tables: world.tables,
            userlists: world.userlists,
            caches: world.caches,
            // Conditions of frontends are on requests as they were there.
            trackers: state.trackers.clone().into_iter().map(|(number, one)| (number, one.filter(is_of_all))).collect(),
        };
        let items: Vec<&Item> = self.items.iter().copied().filter(|item| !self.is_tcp || !is_of_http(item)).collect();
        trackers(&items, &mut scope, ledger);
        let mut rules = read(&items, &scope, state, ledger);
        rules.state.trackers = scope.trackers;
        unused(&self.items, ledger);
        for item in self.items.iter().filter(|item| item.word(0) == "acl") {
            ledger.carried(item.line);
        }
        rules
    }

    /// True if rules of this kind on responses read variables.
    pub fn responses_read_variables(&self, kind: &str) -> bool {
        let reads = |item: &Item| item.word(0) == kind && item.words.iter().any(|word| word.contains("var("));
        self.items.iter().any(|item| reads(item))
    }

    /// True if `capture.req.uri` has a value in rules of backends: a log of requests asks for it, or a sample of a rule.
    pub fn captures(&self) -> bool {
        let samples =
            ["%[req.", "%[hdr", "%[fhdr", "%[path", "%[url", "%[query", "%[method", "%[capture.req", "%[base"];
        let asks = |word: &String| samples.iter().any(|sample| word.contains(sample));
        self.items.iter().any(|item| {
            let is_log = item.word(0) == "option" && matches!(item.word(1), "httplog" | "httpslog");
            is_log || item.words.iter().any(asks)
        })
    }

    /// Returns the port of a listen section with a single address. Servers without a port use it.
    pub fn port(&self) -> Option<String> {
        let mut binds = self.items.iter().filter(|item| item.word(0) == "bind");
        let address = binds.next()?.word(1).to_string();
        let (_, port) = address.rsplit_once(':')?;
        let is_single = binds.next().is_none() && !address.contains(',') && !port.contains('-');
        is_single.then(|| port.to_string())
    }

    /// True if the section shows statistics and does nothing else.
    pub fn is_stats(&self, has_pool: bool) -> bool {
        let is = |item: &&Item, word: &str, second: &str| {
            item.word(0) == word && (second.is_empty() || item.word(1) == second)
        };
        let own = &self.section.items;
        let shows = own.iter().any(|item| is(&item, "stats", "uri") || is(&item, "stats", "enable"))
            || own.iter().any(|item| item.word(0) == "http-request" && item.word(1) == "use-service");
        shows && !has_pool && !self.items.iter().any(|item| matches!(item.word(0), "use_backend" | "default_backend"))
    }
}
