//! Locations: routes in the order in which NGINX tries them, with their actions and filters.

use super::filters;
use super::lexer::Directive;
use super::variable::{self, Constants};
use super::world::{World, single};
use crate::expression;
use crate::ledger::Line;
use crate::model::{Action, Cond, Draft, Key, Match, Route, RouteKeys, Test};
use crate::rewriting::{put_url, stripped};
use std::collections::BTreeMap;

/// A location with the levels around it, outermost first.
#[derive(Clone)]
pub(super) struct Location<'d> {
    pub directive: &'d Directive,
    pub levels: Vec<&'d [Directive]>,
    pub modifier: &'d str,
    pub pattern: &'d str,
}

/// Locations of a server, in the order in which NGINX tries them, and its named locations.
#[derive(Default)]
pub(super) struct Locations<'d> {
    pub ordered: Vec<Location<'d>>,
    pub named: BTreeMap<&'d str, Location<'d>>,
}

impl<'d> Locations<'d> {
    /// Collects locations below some levels, including nested locations.
    pub fn collect(levels: &[&'d [Directive]]) -> Locations<'d> {
        let mut all = Locations::default();
        all.add(levels);
        // Exact locations; then `^~`, longest first; then expressions in order; then prefixes, longest first.
        let rank = |location: &Location<'_>| match location.modifier {
            "=" => (0, 0),
            "^~" => (1, usize::MAX - location.pattern.len()),
            "~" | "~*" => (2, 0),
            _ => (3, usize::MAX - location.pattern.len()),
        };
        all.ordered.sort_by_key(rank);
        all
    }

    /// Paths of exact locations.
    pub fn exact_paths(&self) -> Vec<String> {
        self.ordered.iter().filter(|l| l.modifier == "=").map(|l| l.pattern.to_string()).collect()
    }

    /// The exact location of a path.
    pub fn exact(&self, path: &str) -> Option<&Location<'d>> {
        self.ordered.iter().find(|l| l.modifier == "=" && l.pattern == path)
    }

    /// Locations that sub-requests of a server lead to, by their paths. `levels` are the levels of the server. The
    /// lines are locations that only sub-requests may reach, which are not routes.
    pub fn services(&self, levels: &[&'d [Directive]]) -> (BTreeMap<&'d str, &'d Directive>, Vec<Line>) {
        let mut paths = Vec::new();
        if let [outer @ .., server] = levels {
            outer.iter().flat_map(|level| level.iter()).for_each(|directive| ask(directive, &mut paths));
            asked(server, &mut paths);
        }
        let at = |path: &str| {
            let serves = |l: &&Location<'d>| matches!(l.modifier, "=" | "" | "^~") && l.pattern == path;
            self.ordered.iter().find(serves).map(|location| location.directive)
        };
        let services: BTreeMap<_, _> = paths.into_iter().filter_map(|path| Some((path, at(path)?))).collect();
        let is_internal = |location: &&&Directive| location.inner().iter().any(|d| d.name() == "internal");
        let lines = services.values().filter(is_internal).map(|location| location.line).collect();
        (services, lines)
    }

    fn add(&mut self, levels: &[&'d [Directive]]) {
        for directive in levels.last().into_iter().flat_map(|level| level.iter()).filter(|d| d.name() == "location") {
            let (modifier, pattern) = match directive.word(1) {
                modifier @ ("=" | "~" | "~*" | "^~") => (modifier, directive.word(2)),
                pattern => ("", pattern),
            };
            let own: Vec<&'d [Directive]> = levels.iter().copied().chain([directive.inner()]).collect();
            self.add(&own);
            let location = Location { directive, levels: own, modifier, pattern };
            match pattern.starts_with('@') {
                true => drop(self.named.insert(pattern, location)),
                false => self.ordered.push(location),
            }
        }
    }
}

/// Adds the paths of all sub-requests below a level.
fn asked<'d>(level: &'d [Directive], paths: &mut Vec<&'d str>) {
    for directive in level {
        ask(directive, paths);
        asked(directive.inner(), paths);
    }
}

fn ask<'d>(directive: &'d Directive, paths: &mut Vec<&'d str>) {
    if matches!(directive.name(), "auth_request" | "mirror") && directive.word(1) != "off" {
        paths.push(directive.word(1));
    }
}

/// Routes of a server's own rules or of a location, as they are found.
pub(super) struct Routes<'w, 'd> {
    pub world: &'w mut World<'d>,
    pub constants: &'w Constants,
    pub named: &'w BTreeMap<&'d str, Location<'d>>,
    /// Exact paths that have a location, so that no redirect to the path with a slash is added.
    pub exact: Vec<String>,
    pub routes: Vec<Route>,
    pub name: String,
}

/// End of the rules of a level.
enum Ended {
    Yes,
    No,
}

impl<'d> Routes<'_, 'd> {
    /// Adds the routes of a location.
    pub fn location(&mut self, location: &Location<'d>) {
        self.world.ledger.carried(location.directive.line);
        let alternatives = match self.conditions(location) {
            Ok(alternatives) => alternatives,
            Err(reason) => {
                let todo = "write a [[route]] with path, prefix, ends_with or regex by hand";
                self.world.ledger.changes(location.directive.line, reason, todo);
                self.inside_lost(location.directive);
                return;
            }
        };
        for test in alternatives {
            self.alternative(location, test);
        }
    }

    fn inside_lost(&mut self, directive: &Directive) {
        for inner in directive.inner() {
            if !self.world.ledger.is_settled(inner.line) {
                self.world.ledger.changes(
                    inner.line,
                    "its location was not carried over",
                    "write the [[route]] by hand",
                );
            }
            self.inside_lost(inner);
        }
    }

    fn conditions(&self, location: &Location<'_>) -> Result<Vec<Option<Test>>, String> {
        let pattern = variable::constant(location.pattern, self.constants).ok_or("its path has a variable")?;
        Ok(match location.modifier {
            "=" => vec![Some(Test::OneOf(vec![pattern]))],
            "~" | "~*" => {
                let tests = expression::path_tests(&pattern, location.modifier == "~*")?;
                let is_all = tests == [Test::Regex(".*".into())] || tests == [Test::Begins("/".into())];
                if is_all { vec![None] } else { tests.into_iter().map(Some).collect() }
            }
            _ if pattern == "/" => vec![None],
            _ if !pattern.starts_with('/') => return Err("its path does not begin with a slash".to_string()),
            _ => vec![Some(Test::Begins(pattern))],
        })
    }

    fn alternative(&mut self, location: &Location<'d>, test: Option<Test>) {
        let line = location.directive.line;
        let test = match test {
            // A location that proxies with a slash at its end: the path without it is redirected there.
            Some(Test::Begins(path))
                if path.ends_with('/')
                    && path.len() > 1
                    && proxies(location)
                    && matches!(location.modifier, "" | "^~") =>
            {
                let bare = path.trim_end_matches('/').to_string();
                if !self.exact.contains(&bare) {
                    let to = Draft::one(key!("status"), 301).with(key!("path"), path.as_str());
                    let matching = Match::of([Cond::one_of(Key::Path, [bare.as_str()])]);
                    let mut set = Draft::default();
                    filters::response_fields(&location.levels, self.constants, &mut set, self.world);
                    self.push(matching, Action::Redirect(to), set, line);
                    self.exact.push(bare.clone());
                }
                Some(Test::Below(bare))
            }
            test => test,
        };
        let matching = Match::of(test.map(|test| Cond::new(Key::Path, test)));
        self.level(location.directive.inner(), &location.levels, &matching, Some(location), line);
    }

    /// Adds the routes of a level: first `if`, `return` and `rewrite` in order, then the directive that handles
    /// requests.
    pub fn level(
        &mut self,
        own: &'d [Directive],
        levels: &[&'d [Directive]],
        matching: &Match,
        location: Option<&Location<'d>>,
        line: Line,
    ) {
        let mut set = Draft::default();
        for directive in own {
            let ended = match directive.name() {
                "return" => self.returns(directive, levels, matching),
                "if" => self.condition(directive, levels, matching),
                "rewrite" => self.rewrite(directive, levels, matching, location, &mut set),
                "set" | "break" => {
                    if !self.world.ledger.is_settled(directive.line) {
                        self.world.ledger.carried(directive.line);
                    }
                    Ended::No
                }
                _ => Ended::No,
            };
            if let Ended::Yes = ended {
                return self.rest_unreached(own, directive.line);
            }
        }
        let Some(location) = location else { return };
        self.handler(own, levels, matching, location, set, line);
    }

    /// Settles the directives behind a `return` for every request.
    fn rest_unreached(&mut self, own: &[Directive], end: Line) {
        for directive in own.iter().filter(|d| d.line > end && d.name() != "location") {
            if !self.world.ledger.is_settled(directive.line)
                && matches!(directive.name(), "return" | "rewrite" | "proxy_pass" | "try_files" | "grpc_pass")
            {
                self.world.ledger.dropped(directive.line, "NGINX never reaches it, behind a `return`");
            }
        }
    }

    pub fn push(&mut self, matching: Match, action: Action, set: RouteKeys, line: Line) {
        let kind = match &action {
            Action::Pool(pool) => pool.clone(),
            Action::Split(_) => "split".to_string(),
            Action::Redirect(_) => "redirect".to_string(),
            Action::Respond(_) => "respond".to_string(),
        };
        let name = format!("{}-{kind}", self.name);
        self.routes.push(Route { name, comments: Vec::new(), matching, action, set, line });
    }

    fn returns(&mut self, directive: &Directive, levels: &[&[Directive]], matching: &Match) -> Ended {
        match self.response(directive) {
            Ok(action) => {
                self.world.ledger.carried(directive.line);
                let set = filters::read(levels, None, self.constants, self.world);
                self.push(matching.clone(), action, set, directive.line);
            }
            Err(reason) => {
                self.world.ledger.changes(directive.line, reason, "write redirect or respond of a [[route]] by hand")
            }
        }
        Ended::Yes
    }

    fn response(&self, directive: &Directive) -> Result<Action, String> {
        let first = directive.word(1);
        let (status, text) = match first.parse::<u64>() {
            Ok(status) => (status, directive.word(2)),
            Err(_) => (302, first),
        };
        if matches!(status, 301 | 302 | 303 | 307 | 308) && !text.is_empty() {
            return self.redirect(text, status);
        }
        if status == 444 {
            return Err("a connection is not closed without a response; 403 or 404 would be one".to_string());
        }
        if !(200..600).contains(&status) {
            return Err(format!("{status} is not a status that is sent"));
        }
        let text = match text.is_empty() {
            true => String::new(),
            false => variable::constant(text, self.constants).ok_or("its text has a variable")?,
        };
        Ok(match text.is_empty() {
            true => Action::respond(status),
            false => Action::Respond(Draft::one(key!("status"), status).with(key!("body"), text)),
        })
    }

    fn redirect(&self, to: &str, status: u64) -> Result<Action, String> {
        let mut table = Draft::one(key!("status"), status);
        let (url, has_query) = variable::read(to.strip_suffix('?').unwrap_or(to), self.constants)?;
        // A scheme or host that the request has anyway is left out.
        put_url(&mut table, &url)?;
        if !has_query {
            table.put(key!("keep_query"), false);
        }
        Ok(Action::Redirect(table))
    }

    fn condition(&mut self, directive: &'d Directive, levels: &[&'d [Directive]], matching: &Match) -> Ended {
        let text = directive.from(1).join(" ");
        let text = text.trim();
        let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text).trim();
        let cond = match if_condition(text, self.constants) {
            Ok(cond) => cond,
            Err(reason) => {
                self.world.ledger.changes(
                    directive.line,
                    reason,
                    "write a [[route]] with a condition in match by hand",
                );
                self.inside_lost(directive);
                return Ended::No;
            }
        };
        self.world.ledger.carried(directive.line);
        let Ok(narrower) = matching.and(&Match::of([cond])) else {
            self.world.ledger.changes(
                directive.line,
                "its condition does not fit into the match of its location",
                "write the [[route]] by hand",
            );
            self.inside_lost(directive);
            return Ended::No;
        };
        let ends = directive.inner().iter().any(|inner| match inner.name() {
            "return" => true,
            "rewrite" => matches!(inner.word(3), "permanent" | "redirect") || inner.word(2).contains("://"),
            _ => false,
        });
        let inner_levels: Vec<&'d [Directive]> = levels.iter().copied().chain([directive.inner()]).collect();
        if ends {
            self.level(directive.inner(), &inner_levels, &narrower, None, directive.line);
        }
        for inner in directive.inner() {
            if !self.world.ledger.is_settled(inner.line) {
                let todo = "write a [[route]] with a condition in match by hand";
                self.world.ledger.changes(
                    inner.line,
                    "within `if`, only `return` and redirects are carried over",
                    todo,
                );
            }
        }
        Ended::No
    }

    fn rewrite(
        &mut self,
        directive: &Directive,
        levels: &[&[Directive]],
        matching: &Match,
        location: Option<&Location<'d>>,
        set: &mut RouteKeys,
    ) -> Ended {
        let (regex, to, flag) = (directive.word(1), directive.word(2), directive.word(3));
        let line = directive.line;
        let is_redirect = matches!(flag, "permanent" | "redirect") || to.contains("://");
        if !is_redirect {
            let fits = stripped(regex, to).filter(|prefix| {
                location.is_some_and(|l| l.pattern.trim_end_matches('/') == prefix && matches!(l.modifier, "" | "^~"))
            });
            match fits {
                Some(_) => {
                    set.put(key!("strip_prefix"), true);
                    self.world.ledger.carried(line);
                }
                None => {
                    let todo =
                        "strip_prefix, or rewrite = { prefix = \"/NEW\" } or { path = \"/x/{id}\" } in a [[route]]";
                    self.world.ledger.changes(line, "paths are not rewritten by expressions", todo);
                }
            }
            return Ended::No;
        }
        let status = if flag == "permanent" { 301 } else { 302 };
        let (tests, to) = match redirect_tests(regex, to) {
            Ok(found) => found,
            Err(reason) => {
                self.world.ledger.changes(line, reason, "write the redirect of a [[route]] by hand");
                return Ended::No;
            }
        };
        let action = self.redirect(&to, status).map(|action| match action {
            // NGINX appends the query unless the target ends in `?`.
            Action::Redirect(mut table) => {
                match to.ends_with('?') {
                    true => drop(table.put(key!("keep_query"), false)),
                    false => drop(table.remove(key!("keep_query"))),
                }
                Action::Redirect(table)
            }
            action => action,
        });
        match action {
            Ok(action) => {
                self.world.ledger.carried(line);
                let is_all = tests.is_empty();
                let filters = filters::read(levels, None, self.constants, self.world);
                for test in if is_all { vec![None] } else { tests.into_iter().map(Some).collect() } {
                    let own = Match::of(test.map(|test| Cond::new(Key::Path, test)));
                    if let Ok(matching) = matching.and(&own) {
                        self.push(matching, action.clone(), filters.clone(), line);
                    }
                }
                if is_all { Ended::Yes } else { Ended::No }
            }
            Err(reason) => {
                self.world.ledger.changes(line, reason, "write the redirect of a [[route]] by hand");
                Ended::No
            }
        }
    }

    /// Adds the route for requests without a response so far: to a pool, to another location, or with a 403 or 404.
    fn handler(
        &mut self,
        own: &'d [Directive],
        levels: &[&'d [Directive]],
        matching: &Match,
        location: &Location<'d>,
        set: RouteKeys,
        line: Line,
    ) {
        if let Some(pass) = own.iter().rev().find(|d| matches!(d.name(), "proxy_pass" | "grpc_pass")) {
            return self.pass(pass, levels, matching, location, set);
        }
        let jump = own.iter().find(|d| d.name() == "try_files").or_else(|| single(levels, "try_files"));
        if let Some(jump) = jump {
            let last = jump.words.last().map_or("", String::as_str);
            if let Some(named) = self.named.get(last).cloned() {
                let reason = format!("files are not looked for: every request goes to {last}");
                self.world.ledger.changes(jump.line, reason, "keep a web server for the files, as a pool of its own");
                self.world.ledger.carried(named.directive.line);
                return self.level(named.directive.inner(), &named.levels, matching, Some(&named), line);
            }
            self.world.ledger.changes(
                jump.line,
                "files are not served from disk",
                "keep a web server for them, as a pool of its own",
            );
        }
        for other in own.iter().filter(|d| d.name().ends_with("_pass")) {
            let reason = "FastCGI, uwsgi, SCGI and memcached are not spoken";
            self.world.ledger.changes(
                other.line,
                reason,
                "have the application speak HTTP, or keep a web server for it",
            );
        }
        let nested = own.iter().any(|d| d.name() == "location");
        let denies =
            own.iter().any(|d| d.name() == "deny" && d.word(1) == "all") && !own.iter().any(|d| d.name() == "allow");
        if denies {
            own.iter().filter(|d| d.name() == "deny").for_each(|d| self.world.ledger.carried(d.line));
            let mut set = Draft::default();
            filters::response_fields(levels, self.constants, &mut set, self.world);
            return self.push(matching.clone(), Action::respond(403), set, line);
        }
        if nested && matching.conds.is_empty() {
            return;
        }
        let mut route = Route {
            name: format!("{}-files", self.name),
            comments: vec![format!("{}: nothing here does what this location did.", self.world.ledger.place(line))],
            matching: matching.clone(),
            action: Action::respond(404),
            set: Draft::default(),
            line,
        };
        route.set = filters::read(levels, None, self.constants, self.world);
        self.world.ledger.changes(
            line,
            "nothing here does what the location did: requests get a 404",
            "give the [[route]] a pool, or remove it",
        );
        self.routes.push(route);
    }
}

/// True if the location itself has a directive that forwards its requests.
fn proxies(location: &Location<'_>) -> bool {
    location.directive.inner().iter().any(|d| d.name().ends_with("_pass"))
}

/// Reads the condition of `if`.
fn if_condition(text: &str, constants: &Constants) -> Result<Cond, String> {
    let mut words = text.splitn(3, ' ');
    let (variable, operator, value) =
        (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let name = variable::only(variable).ok_or_else(|| format!("`{variable}` is not a condition of routes"))?;
    let value = value.trim_matches(['"', '\'']);
    let value = variable::constant(value, constants).unwrap_or_else(|| value.to_string());
    match operator {
        "=" => variable::condition(name, &value),
        "!=" => Ok(variable::condition(name, &value)?.negate()),
        "~" => variable::condition(name, &format!("~{value}")),
        "~*" => variable::condition(name, &format!("~*{value}")),
        "!~" => Ok(variable::condition(name, &format!("~{value}"))?.negate()),
        "!~*" => Ok(variable::condition(name, &format!("~*{value}"))?.negate()),
        "" => match variable::condition(name, "")? {
            cond if cond.negated => Ok(cond.negate()),
            _ => Err(format!("`{variable}` is not a condition of routes")),
        },
        other => Err(format!("`{other}` is not an operator of conditions")),
    }
}

/// Conditions of a redirect by `rewrite`, none for every path, and its target without groups.
fn redirect_tests(regex: &str, to: &str) -> Result<(Vec<Test>, String), String> {
    let is_all =
        matches!(regex, "^" | "^(.*)$" | "^(.*)" | ".*" | "^.*$" | "(.*)" | "^/(.*)$" | "^/(.*)" | "^/" | "^.*");
    let slash = regex.starts_with("^/(");
    let to = match (is_all, slash) {
        (true, true) => to.replace("/$1", "$uri"),
        (true, false) => to.replace("$1", "$uri"),
        (false, _) => to.to_string(),
    };
    let has_group = to.bytes().zip(to.bytes().skip(1)).any(|(a, b)| a == b'$' && b.is_ascii_digit());
    if has_group {
        return Err("its target has groups of an expression".to_string());
    }
    match is_all {
        true => Ok((Vec::new(), to)),
        false => Ok((expression::path_tests(regex, false)?, to)),
    }
}
