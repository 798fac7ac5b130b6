//! Directives of a site in the order in which Caddy runs them, whatever their order in the file.

use super::lexer::Directive;
use super::matcher::{self, Named};
use super::{auth, compression, proxy, value};
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Cond, Draft, FieldKeys, Key, Match, Route, RouteKeys, Target, Test, parse_size, size};
use crate::protection;
use crate::rewriting::put_url;
use evenkeel_config::plan::Redirect;

/// Most routes of a site; a site that needs more is reported.
const ROUTES: usize = 300;

/// A change of requests or responses under a condition.
struct Filter {
    matches: Vec<Match>,
    set: RouteKeys,
    line: Line,
}

/// Routes of the directives of a block, in the order in which Caddy tries them.
pub(super) fn routes(
    block: &[Directive],
    name: &str,
    line: Line,
    target: &mut Target,
    ledger: &mut Ledger,
) -> Vec<Route> {
    let mut site = Site { name, files: Vec::new(), target, ledger };
    site.block(block, &Named::new(), line, 0)
}

impl Filter {
    /// True if it keeps clients out.
    fn protects(&self) -> bool {
        [key!("access"), key!("basic_auth"), key!("forward_auth")].into_iter().any(|key| self.set.has(key))
    }
}

struct Site<'s> {
    name: &'s str,
    /// Names of files of passwords.
    files: Vec<String>,
    target: &'s mut Target,
    ledger: &'s mut Ledger,
}

/// Rank of directives that respond to requests.
fn rank(name: &str) -> Option<u8> {
    Some(match name {
        "redir" => 0,
        "handle" | "handle_path" | "route" => 1,
        "respond" | "error" | "abort" => 2,
        "reverse_proxy" => 3,
        "php_fastcgi" | "file_server" => 4,
        _ => return None,
    })
}

impl Site<'_> {
    fn block(&mut self, block: &[Directive], above: &Named, line: Line, depth: usize) -> Vec<Route> {
        let named = matcher::named(block, above, self.ledger);
        let mut filters = Vec::new();
        let mut ends: Vec<(u8, usize, &Directive)> = Vec::new();
        for directive in
            block.iter().filter(|directive| !directive.name().starts_with('@') && directive.name() != "tls")
        {
            match rank(directive.name()) {
                // Within a kind, the longest path goes first.
                Some(rank) => {
                    let path = directive.from(1).first().filter(|word| word.starts_with('/'));
                    let has_matcher = directive.from(1).first().is_some_and(|word| word.starts_with(['@', '/']));
                    let length = path.map_or(if has_matcher { 1 } else { 0 }, |path| path.len() + 1);
                    ends.push((rank, usize::MAX - length, directive));
                }
                None => self.filter(directive, &named, &mut filters),
            }
        }
        ends.sort_by_key(|(rank, length, _)| (*rank, *length));
        let mut routes = Vec::new();
        for (_, _, directive) in ends {
            self.end(directive, &named, line, depth, &mut routes);
        }
        for filter in &filters {
            self.apply(filter, &mut routes);
        }
        routes
    }

    fn push(&mut self, routes: &mut Vec<Route>, matches: &[Match], action: &Action, set: &RouteKeys, line: Line) {
        for matching in matches {
            if routes.len() >= ROUTES {
                return self.ledger.changes(line, "the site has too many rules", "convert its parts one by one");
            }
            routes.push(Route {
                name: self.name.to_string(),
                comments: Vec::new(),
                matching: matching.clone(),
                action: action.clone(),
                set: set.clone(),
                line,
            });
        }
    }

    fn end(&mut self, directive: &Directive, named: &Named, line: Line, depth: usize, routes: &mut Vec<Route>) {
        let (matches, words) = matcher::of(directive.from(1), named);
        let own = directive.line;
        let Some(matches) = matches else {
            let todo = "write the [[route]] with other conditions by hand";
            return directive.lost("its matcher is not there, or was not carried over", todo, self.ledger);
        };
        match directive.name() {
            "redir" => match redirect(words) {
                Ok(to) => {
                    self.ledger.carried(own);
                    self.push(routes, &matches, &Action::Redirect(to), &Draft::default(), own);
                }
                Err(reason) => self.ledger.changes(own, reason, "write the redirect of a [[route]] by hand"),
            },
            "respond" | "error" => match respond(words, &directive.block, directive.name() == "error") {
                Ok(action) => {
                    directive.block.iter().for_each(|inner| self.ledger.carried(inner.line));
                    self.ledger.carried(own);
                    self.push(routes, &matches, &action, &Draft::default(), own);
                }
                Err(reason) => directive.lost(&reason, "write respond of a [[route]] by hand", self.ledger),
            },
            "abort" => {
                self.ledger.changes(
                    own,
                    "requests are answered by 403, and connections are not dropped",
                    "nothing, or a firewall",
                );
                self.push(routes, &matches, &Action::respond(403), &Draft::default(), own);
            }
            "reverse_proxy" => {
                if let Some((pool, set)) = proxy::read(directive, words, self.target, self.ledger) {
                    self.push(routes, &matches, &Action::Pool(pool), &set, own);
                }
            }
            "handle" | "handle_path" | "route" => self.handle(directive, &matches, named, line, depth, routes),
            _ => {
                let todo = "keep a web server for the files, as a pool of its own";
                directive.lost("files and PHP are not served", todo, self.ledger);
                self.push(routes, &matches, &Action::respond(404), &Draft::default(), own);
            }
        }
    }

    fn handle(
        &mut self,
        directive: &Directive,
        matches: &[Match],
        named: &Named,
        line: Line,
        depth: usize,
        routes: &mut Vec<Route>,
    ) {
        self.ledger.carried(directive.line);
        let mut matches = matches.to_vec();
        let strip =
            (directive.name() == "handle_path").then(|| directive.word(1).trim_end_matches('*').trim_end_matches('/'));
        if let Some(prefix) = strip {
            matches = vec![Match::of([Cond::new(Key::Path, Test::Below(prefix.to_string()))])];
            let reason = "a prefix that is taken away is one by segment: /x takes no /xy";
            self.ledger.changes(directive.line, reason, "nothing, unless clients ask for such paths");
        }
        let mut inner = self.block(&directive.block, named, line, depth + 1);
        if !inner.iter().any(|route| route.matching.conds.is_empty()) {
            // In Caddy, requests that no directive of the block answers get an empty response.
            self.push(&mut inner, &[Match::default()], &Action::respond(200), &Draft::default(), directive.line);
        }
        for route in inner {
            let own = if strip.is_some() { below(&route.matching, directive.word(1)) } else { route.matching.clone() };
            match matcher::and(&matches, &[own]) {
                Ok(all) => {
                    let mut set = route.set.clone();
                    if strip.is_some() && matches!(route.action, Action::Pool(_)) {
                        set.put(key!("strip_prefix"), true);
                    }
                    self.push(routes, &all, &route.action, &set, route.line);
                }
                Err(reason) => self.ledger.changes(route.line, reason, "write the [[route]] by hand"),
            }
        }
    }

    /// A name for a file of passwords that no other list of users has.
    fn file_of_users(&mut self) -> String {
        let used = |file: &String| self.target.routes.iter().any(|route| auth::file(&route.set) == Some(file.as_str()));
        let numbered = (2..).map(|number| format!("{}-{number}.htpasswd", self.name));
        let mut names = [format!("{}.htpasswd", self.name)].into_iter().chain(numbered);
        let file = names.find(|file| !self.files.contains(file) && !used(file)).unwrap_or_default();
        self.files.push(file.clone());
        file
    }

    /// Reads a directive that does not respond to requests itself.
    fn filter(&mut self, directive: &Directive, named: &Named, filters: &mut Vec<Filter>) {
        let (matches, words) = matcher::of(directive.from(1), named);
        let line = directive.line;
        let mut set = Draft::default();
        let Some(matches) = matches else {
            let reason = "its matcher is not there, or was not carried over";
            if matches!(directive.name(), "basic_auth" | "basicauth" | "forward_auth") {
                protection::closed_by(line, reason, &mut set, self.ledger);
                filters.push(Filter { matches: vec![Match::default()], set, line });
            }
            return directive.lost(reason, "set it in the [[route]]s by hand", self.ledger);
        };
        match directive.name() {
            "header" | "request_header" => {
                let fields = if directive.name() == "header" { FieldKeys::RESPONSE } else { FieldKeys::REQUEST };
                self.ledger.carried(line);
                if !words.is_empty() {
                    proxy::words_of_field(directive, words, fields, &mut set, self.ledger);
                }
                for row in &directive.block {
                    self.ledger.carried(row.line);
                    if row.name() != "defer" {
                        proxy::words_of_field(row, &row.words, fields, &mut set, self.ledger);
                    }
                }
            }
            "request_body" => {
                self.ledger.carried(line);
                for row in &directive.block {
                    let bytes = row.word(1).to_ascii_lowercase();
                    match parse_size(bytes.trim_end_matches("ib").trim_end_matches('b'))
                        .filter(|_| row.name() == "max_size")
                    {
                        Some(bytes) => {
                            set.put(key!("body_max"), size(bytes));
                            self.ledger.carried(row.line);
                        }
                        None => row.lost("its value was not understood", "body_max of the [[route]]", self.ledger),
                    }
                }
            }
            "uri" if words.first().is_some_and(|word| word == "strip_prefix") => {
                self.ledger.carried(line);
                let prefix = words.get(1).map_or("", String::as_str).trim_end_matches('/');
                let below = vec![Match::of([Cond::new(Key::Path, Test::Below(prefix.to_string()))])];
                let reason = "a prefix that is taken away is one by segment: /x takes no /xy";
                self.ledger.changes(line, reason, "nothing, unless clients ask for such paths");
                match matcher::and(&matches.iter().map(|m| without_prefix(m, prefix)).collect::<Vec<_>>(), &below) {
                    Ok(matches) => filters.push(Filter { matches, set: Draft::one(key!("strip_prefix"), true), line }),
                    Err(reason) => self.ledger.changes(line, reason, "strip_prefix of the [[route]]"),
                }
                return;
            }
            "rewrite" => match words.first().map(|to| value::read(to)) {
                Some(Ok(to)) if to.starts_with('/') && !to.contains(['?', '*']) => {
                    self.ledger.carried(line);
                    set.put(key!("rewrite.path"), to.replace("{uri}", "{path}"));
                }
                _ => return directive.lost("the path cannot be made of this", "rewrite of the [[route]]", self.ledger),
            },
            "encode" => set = compression::read(directive, words, self.ledger),
            "log" | "log_skip" | "skip_log" => {
                return directive.lost(
                    "the access log is one for all listeners",
                    "telemetry.access_log.path = \"stdout\"",
                    self.ledger,
                );
            }
            "basic_auth" | "basicauth" => {
                let file = self.file_of_users();
                set = auth::passwords(directive, words, &file, self.ledger);
            }
            "forward_auth" => set = auth::service(directive, words, self.target, self.ledger),
            "root" | "try_files" | "templates" | "push" => {
                return directive.lost(
                    "files are not served from disk",
                    "keep a web server for them, as a pool of its own",
                    self.ledger,
                );
            }
            "bind" => {
                return directive.lost(
                    "sites listen at all addresses of this machine",
                    "bind of the listener",
                    self.ledger,
                );
            }
            "handle_errors" => {
                return directive.lost(
                    "errors of endpoints pass as they are",
                    "error_pages of the routes, with intercept",
                    self.ledger,
                );
            }
            _ => {
                return directive.lost(
                    "this directive has no counterpart",
                    "see the filters of a [[route]]",
                    self.ledger,
                );
            }
        }
        if !set.is_empty() {
            filters.push(Filter { matches, set, line });
        }
    }

    /// Adds the keys of a filter to the routes that it concerns. If it concerns only some requests of a route, the
    /// route is split.
    fn apply(&mut self, filter: &Filter, routes: &mut Vec<Route>) {
        let mut out: Vec<Route> = Vec::new();
        for mut route in routes.drain(..) {
            let is_own = !filter.set.has(key!("strip_prefix")) && !filter.set.has(key!("rewrite"))
                || matches!(route.action, Action::Pool(_));
            let mut is_whole = false;
            for matching in filter.matches.iter().filter(|_| is_own) {
                if out.len() >= ROUTES {
                    self.ledger.changes(filter.line, "the site has too many rules", "set it in the [[route]]s by hand");
                    if filter.protects() {
                        protection::close(&mut route.set);
                    }
                    break;
                }
                let mut changed = route.clone();
                let replaces = protection::would_replace(&changed.set, &filter.set);
                changed.set.merge(&filter.set);
                if replaces {
                    let reason = "a route asks for one password or service, and two stand here";
                    protection::closed_by(filter.line, reason, &mut changed.set, self.ledger);
                }
                // A prefix is removed by segment, even if the route matches it as text.
                if filter.set.has(key!("strip_prefix"))
                    && let Some(Test::Below(prefix)) = matching.find(&Key::Path)
                {
                    changed.matching = without_prefix(&changed.matching, prefix);
                }
                if changed.matching == route.matching && route.matching.implies(matching) {
                    out.push(changed);
                    is_whole = true;
                    break;
                }
                match changed.matching.and(matching) {
                    Ok(both) => out.push(Route { matching: both, ..changed }),
                    Err(crate::model::Apart::Never) => {}
                    Err(crate::model::Apart::Unwritable) => {
                        let reason = "its conditions and those of a route do not fit into one match";
                        match filter.protects() {
                            // The rest of the route has the filter too, as too much is better than too little.
                            true => {
                                protection::closed_by(filter.line, reason, &mut route.set, self.ledger);
                            }
                            false => self.ledger.changes(filter.line, reason, "set it in the [[route]] by hand"),
                        }
                    }
                }
            }
            if !is_whole {
                out.push(route);
            }
        }
        *routes = out;
    }
}

/// The match without a condition on the path that the prefix fulfils as text.
fn without_prefix(matching: &Match, prefix: &str) -> Match {
    let mut matching = matching.clone();
    matching.conds.retain(|cond| {
        !(cond.key == Key::Path
            && !cond.negated
            && matches!(&cond.test, Test::Begins(text) if text.trim_end_matches('/') == prefix))
    });
    matching
}

/// A match within `handle_path`. Its paths have lost the prefix.
fn below(matching: &Match, prefix: &str) -> Match {
    let prefix = prefix.trim_end_matches('*').trim_end_matches('/');
    let mut matching = matching.clone();
    for cond in matching.conds.iter_mut().filter(|cond| cond.key == Key::Path) {
        match &mut cond.test {
            Test::OneOf(paths) => paths.iter_mut().for_each(|path| *path = format!("{prefix}{path}")),
            Test::Begins(text) | Test::Below(text) => *text = format!("{prefix}{text}"),
            _ => {}
        }
    }
    matching
}

/// `redir TO [CODE]`.
fn redirect(words: &[String]) -> Result<Draft<Redirect>, String> {
    let to = words.first().ok_or("it has no target")?;
    let status = match words.get(1).map_or("302", String::as_str) {
        "permanent" => 301,
        "temporary" => 302,
        "html" => return Err("a page that redirects is not sent".to_string()),
        code => code
            .parse::<u64>()
            .ok()
            .filter(|code| matches!(code, 301 | 302 | 303 | 307 | 308))
            .ok_or("its status is not one of a redirect")?,
    };
    let text = value::read(to)?;
    let mut table = Draft::one(key!("status"), status);
    match text.strip_suffix("{uri}") {
        Some(start) => put_url(&mut table, &format!("{start}{{path}}"))?,
        None if text.contains("{uri}") => return Err("the target of the request stands within it".to_string()),
        None => {
            put_url(&mut table, &text)?;
            table.put(key!("keep_query"), false);
        }
    }
    Ok(table)
}

/// `respond [BODY|STATUS] [STATUS]`, and `error`.
fn respond(words: &[String], block: &[Directive], is_error: bool) -> Result<Action, String> {
    let number = |word: &String| word.parse::<u64>().ok().filter(|n| (200..600).contains(n) && word.len() == 3);
    let row = block.iter().find(|row| row.name() == "body").map(|row| row.word(1).to_string());
    let (body, status) = match words {
        [] => (String::new(), None),
        [one] => match number(one) {
            Some(status) => (String::new(), Some(status)),
            None => (one.clone(), None),
        },
        [body, status, ..] => (body.clone(), number(status)),
    };
    let body = row.unwrap_or(body);
    let status = status.unwrap_or(if is_error { 500 } else { 200 });
    // The text of an error is not sent.
    if body.is_empty() || is_error {
        return Ok(Action::respond(status));
    }
    if body.contains('{')
        && !body.starts_with('{')
        && value::read(&body).is_ok_and(|text| text.contains('{') && !text.contains("{{"))
    {
        return Err("its text has a placeholder".to_string());
    }
    if body.len() > 1024 {
        return Err("its text is longer than 1 KiB: write it into a file, and name it by `file`".to_string());
    }
    Ok(Action::Respond(Draft::one(key!("status"), status).with(key!("body"), value::environment(&body))))
}
