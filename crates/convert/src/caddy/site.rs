//! Directives of a site, read as steps in the order in which Caddy runs them, whatever their order in the file.

use super::lexer::Directive;
use super::matcher::{self, Named, Reading};
use super::step::{Change, Effect, Step, When};
use super::{auth, compression, fields, proxy, value, walk};
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Draft, FieldKeys, Route, RouteKeys, Target, Value, braced, escape, parse_size, size};
use crate::report::{OPEN, REFUSED};
use crate::rewriting::put_url;
use evenkeel_config::draft::Entries;
use evenkeel_config::plan::Redirect;
use std::cmp::Ordering;

/// Pages of `handle_errors`, which a site for all hosts has for the errors of the others, too.
pub(super) fn pages(block: &[Directive]) -> Option<RouteKeys> {
    let mut pages = block.iter().filter(|directive| directive.name() == "handle_errors").filter_map(page_of);
    pages.next_back().map(pages_keys)
}

fn pages_keys(page: Entries) -> RouteKeys {
    Draft::one(key!("error_pages"), Value::List(vec![page.into()]))
}

/// The page of a `handle_errors` with a single text.
fn page_of(directive: &Directive) -> Option<Entries> {
    match directive.block.as_slice() {
        [one] if one.name() == "respond" && one.block.is_empty() && directive.words.len() == 1 => page(one.from(1)),
        _ => None,
    }
}

/// Routes of the directives of a block, in the order in which Caddy tries them.
pub(super) fn routes(
    block: &[Directive],
    common: Option<&RouteKeys>,
    name: &str,
    line: Line,
    reading: Reading,
    target: &mut Target,
    ledger: &mut Ledger,
) -> Vec<Route> {
    let is_guarded = block.iter().any(refuses) || block.iter().any(|own| own.name() == "redir");
    let mut site = Site { groups: 0, reading: Reading { is_guarded, ..reading }, target, ledger };
    let errors = site.errors(block);
    let steps = site.block(block, &Named::new(), true);
    let has_own = block.iter().any(|directive| directive.name() == "handle_errors");
    walk::routes(&steps, errors.as_ref().or(common.filter(|_| !has_own)), name, line, ledger)
}

/// Reason and advice for lines of a block that its directive does not read.
const UNREAD: (&str, &str) = ("this setting has no counterpart", "see the keys of a [[route]] and of pools");

struct Site<'s> {
    /// Number of groups of directives so far.
    groups: usize,
    reading: Reading,
    target: &'s mut Target,
    ledger: &'s mut Ledger,
}

/// Directives in the order in which Caddy runs them, whatever their order in the file.
const ORDER: [&str; 34] = [
    "tracing",
    "map",
    "vars",
    "root",
    "log",
    "log_skip",
    "skip_log",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basic_auth",
    "basicauth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "templates",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

/// Sorts directives as Caddy does. The comparison does not order all of them, so the steps of the sort matter, too.
fn sort(all: &mut [&Directive], named: &Named) {
    let place = |directive: &Directive| match directive.name() {
        "handle_path" => ORDER.iter().position(|name| *name == "handle"),
        own => ORDER.iter().position(|name| *name == own),
    };
    let is_before = |a: &Directive, b: &Directive| {
        let lengths = (matcher::path_length(a, named), matcher::path_length(b, named));
        match place(a).cmp(&place(b)) {
            Ordering::Equal if lengths.0 > 0 && lengths.1 > 0 => lengths.0 > lengths.1,
            Ordering::Equal => matcher::has(a) && !matcher::has(b),
            order => order == Ordering::Less,
        }
    };
    for end in 1..all.len() {
        let mut at = end;
        while at > 0 && is_before(all[at], all[at - 1]) {
            all.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Directives that are read elsewhere.
fn is_apart(directive: &Directive) -> bool {
    directive.name().starts_with('@') || matches!(directive.name(), "tls" | "bind" | "handle_errors")
}

/// Directives of Caddy that never refuse requests. Directives of plugins may.
const PLAIN: [&str; 28] = [
    "acme_server",
    "copy_response",
    "copy_response_headers",
    "encode",
    "file_server",
    "fs",
    "header",
    "intercept",
    "log",
    "log_append",
    "log_name",
    "log_skip",
    "map",
    "method",
    "metrics",
    "php_fastcgi",
    "push",
    "request_header",
    "reverse_proxy",
    "rewrite",
    "root",
    "skip_log",
    "templates",
    "timeouts",
    "tracing",
    "try_files",
    "uri",
    "vars",
];

/// True if a directive, or a directive in it, may refuse requests.
fn refuses(directive: &Directive) -> bool {
    let status = || directive.words.iter().any(|word| word.len() == 3 && word.starts_with(['4', '5']));
    match directive.name() {
        "respond" => status(),
        "handle" | "handle_path" | "route" => directive.block.iter().any(refuses),
        name => !PLAIN.contains(&name) && !is_apart(directive),
    }
}

impl Site<'_> {
    fn block(&mut self, block: &[Directive], above: &Named, is_sorted: bool) -> Vec<Step> {
        let named = matcher::named(block, above, self.reading, self.ledger);
        let mut all: Vec<&Directive> = block.iter().filter(|directive| !is_apart(directive)).collect();
        if is_sorted {
            sort(&mut all, &named);
        }
        self.groups += 2;
        let (handles, rewrites) = (self.groups, self.groups + 1);
        // A single `handle` is asked with the directives before it that have its matcher.
        let has_several = all.iter().filter(|own| matches!(own.name(), "handle" | "handle_path")).count() > 1;
        let mut steps: Vec<Step> = Vec::new();
        let mut last: Option<(When, Option<usize>)> = None;
        for directive in all {
            // Within `route` all directives run.
            let group = match directive.name() {
                "handle" | "handle_path" if is_sorted && has_several => Some(handles),
                "rewrite" if is_sorted => Some(rewrites),
                _ => None,
            };
            let effects = self.directive(directive, &named);
            directive.block.iter().for_each(|inner| inner.lost(UNREAD.0, UNREAD.1, self.ledger));
            let when = matcher::of(directive, &named).0;
            let word = if matcher::has(directive) { directive.word(1) } else { "" };
            for effect in effects {
                let (line, refuses) = (directive.line, refuses(directive));
                let step = Step { when: when.clone(), effect, group, refuses, line };
                // Caddy asks a matcher once for all directives behind each other that have it.
                let is_asked = !word.is_empty() || group.is_some();
                let is_same = last.as_ref().is_some_and(|last| *last == (when.clone(), group));
                match steps.last_mut().filter(|_| is_sorted && is_asked && is_same) {
                    Some(before) => before.also(step),
                    None => steps.push(step),
                }
                last = Some((when.clone(), group));
            }
        }
        steps
    }

    /// Reads a directive behind its matcher. A directive that has no counterpart has no effect.
    fn directive(&mut self, directive: &Directive, named: &Named) -> Vec<Effect> {
        let (when, words) = matcher::of(directive, named);
        let line = directive.line;
        if !when.is_exact {
            let reason = "its matcher is not there, or was not carried over";
            self.ledger.decide(line, reason, "write the [[route]] with other conditions by hand");
        }
        let none = Vec::new();
        match directive.name() {
            "header" => return self.response_fields(directive, words),
            "request_header" => {
                let mut set = Draft::default();
                let edits = fields::read(&[(directive, words)], FieldKeys::REQUEST, &mut set, self.ledger);
                return if set.is_empty() {
                    vec![Effect::Request(edits)]
                } else {
                    vec![Effect::Request(edits), Effect::Set(set)]
                };
            }
            "request_body" => return self.body(directive),
            "uri" | "rewrite" => return vec![Effect::Path(self.path(directive, words))],
            "encode" => return vec![Effect::Set(compression::read(directive, words, self.ledger))],
            "basic_auth" | "basicauth" => match auth::passwords(directive, words, self.ledger) {
                Some(set) => return vec![Effect::Set(set)],
                None => {
                    let mut set = Draft::default();
                    crate::protection::closed_by(line, "none of its users is read", &mut set, self.ledger);
                    directive.lost("none of its users is read", "users of basic_auth", self.ledger);
                    return vec![Effect::Shut];
                }
            },
            "forward_auth" => {
                let set = auth::service(directive, words, self.target, self.ledger);
                return vec![Effect::Set(set)];
            }
            "handle" | "handle_path" | "route" => {
                self.ledger.carried(line);
                let strip = (directive.name() == "handle_path")
                    .then(|| directive.word(1).trim_end_matches('*').trim_end_matches('/').to_ascii_lowercase());
                let steps = self.block(&directive.block, named, directive.name() != "route");
                return vec![Effect::Block { steps, strip }];
            }
            "redir" | "respond" | "error" | "abort" | "reverse_proxy" => {
                let end = self.end(directive, words);
                let own = directive.block.iter().find(|row| row.name() == "rewrite");
                let Some(rewrite) = own.filter(|_| directive.name() == "reverse_proxy") else { return vec![end] };
                // Endpoints get the path, and no other directive sees it.
                let path = Effect::Path(self.path(rewrite, rewrite.from(1)));
                let step = |effect| Step { when: When::always(), effect, group: None, refuses: false, line };
                return vec![Effect::Several(vec![step(path), step(end)])];
            }
            "php_fastcgi" | "file_server" => {
                let todo = "keep a web server for the files, as a pool of its own";
                directive.lost("files and PHP are not served", todo, self.ledger);
                return vec![Effect::end(Action::respond(404))];
            }
            "log" | "log_skip" | "skip_log" => directive.lost(
                "the access log is one for all listeners",
                "telemetry.access_log.path = \"stdout\"",
                self.ledger,
            ),
            "root" | "templates" | "push" | "try_files" => {
                directive.lost(
                    "files are not served from disk",
                    "keep a web server for them, as a pool of its own",
                    self.ledger,
                );
                if directive.name() == "try_files" {
                    return vec![Effect::Path(Change::Unknown)];
                }
            }
            "method" => {
                directive.lost("the method of requests is not changed", "change the endpoint", self.ledger);
                return vec![Effect::Method];
            }
            name if PLAIN.contains(&name) => {
                directive.lost("this directive has no counterpart", "see the filters of a [[route]]", self.ledger);
            }
            // A directive of a plugin, or a file that is not there.
            _ => {
                if !self.ledger.is_settled(line) {
                    let reason = "this directive has no counterpart, and may be what protects these requests: all clients are refused";
                    self.ledger.decide(line, reason, OPEN);
                }
                directive.lost("its directive has no counterpart", "see the filters of a [[route]]", self.ledger);
                return vec![Effect::Shut];
            }
        }
        none
    }

    fn response_fields(&mut self, directive: &Directive, words: &[String]) -> Vec<Effect> {
        self.ledger.carried(directive.line);
        let inline = (!words.is_empty()).then_some((directive, words));
        let rows = inline.into_iter().chain(directive.block.iter().map(|row| (row, row.words.as_slice())));
        let rows: Vec<(&Directive, &[String])> = rows.collect();
        vec![Effect::Response(fields::read(&rows, FieldKeys::RESPONSE, &mut Draft::default(), self.ledger))]
    }

    fn body(&mut self, directive: &Directive) -> Vec<Effect> {
        self.ledger.carried(directive.line);
        let mut set = Draft::default();
        for row in &directive.block {
            let bytes = row.word(1).to_ascii_lowercase();
            let bytes = bytes.trim_end_matches("ib").trim_end_matches('b');
            // Caddy counts in thousands, but for MiB and the like.
            let is_binary = row.word(1).to_ascii_lowercase().ends_with("ib");
            let number = if is_binary { parse_size(bytes) } else { decimal(bytes) };
            match number.filter(|_| row.name() == "max_size") {
                Some(bytes) => {
                    set.put(key!("body_max"), size(bytes));
                    self.ledger.carried(row.line);
                }
                None if row.name() == "max_size" => {
                    self.ledger.decide(row.line, format!("its limit was not understood; {REFUSED}"), OPEN);
                    return vec![Effect::Shut];
                }
                None => row.lost("bodies have no such setting", "body_max of the [[route]]", self.ledger),
            }
        }
        if set.is_empty() { Vec::new() } else { vec![Effect::Set(set)] }
    }

    /// Reads `uri` and `rewrite`.
    fn path(&mut self, directive: &Directive, words: &[String]) -> Change {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let change = match (directive.name(), word(0)) {
            ("uri", "strip_prefix") if !word(1).contains('{') && !word(1).is_empty() => {
                Some(Change::Strip(word(1).trim_end_matches('/').to_ascii_lowercase()))
            }
            ("uri", "replace")
                if words.len() == 3 && !word(1).contains(['{', '?']) && !word(2).contains(['{', '?']) =>
            {
                Some(Change::Search { search: escape(word(1)), to: braced(word(2)) })
            }
            ("uri", "strip_suffix") if !word(1).contains('{') && !word(1).is_empty() => {
                Some(Change::Search { search: format!("(?i){}$", escape(word(1))), to: String::new() })
            }
            ("rewrite", to) => rewritten(to),
            _ => None,
        };
        match change {
            Some(change) => {
                self.ledger.carried(directive.line);
                change
            }
            None => {
                directive.lost("the path cannot be made of this", "rewrite of the [[route]]", self.ledger);
                Change::Unknown
            }
        }
    }

    /// Reads a directive that responds to requests.
    fn end(&mut self, directive: &Directive, words: &[String]) -> Effect {
        let line = directive.line;
        match directive.name() {
            "redir" => match redirect(words) {
                Ok(to) => {
                    self.ledger.carried(line);
                    return Effect::end(Action::Redirect(to));
                }
                Err(reason) => {
                    let reason = format!("{reason}: its requests are refused, as no endpoint got them");
                    self.ledger.decide(line, reason, "write the redirect of a [[route]] by hand");
                    return Effect::end(Action::respond(403));
                }
            },
            "respond" | "error" => match respond(words, &directive.block, directive.name() == "error") {
                Ok(action) => {
                    directive.block.iter().for_each(|inner| self.ledger.carried(inner.line));
                    self.ledger.carried(line);
                    let mut effect = Effect::end(action);
                    if let Effect::End { is_error, .. } = &mut effect {
                        *is_error = directive.name() == "error";
                    }
                    return effect;
                }
                Err(reason) => {
                    self.ledger.decide(line, reason.as_str(), "write respond of a [[route]] by hand");
                    directive.lost(&reason, "write respond of a [[route]] by hand", self.ledger);
                    return Effect::end(Action::respond(if refuses(directive) { 403 } else { 503 }));
                }
            },
            "abort" => {
                let reason = "requests are answered by 403, and connections are not dropped";
                self.ledger.changes(line, reason, "nothing, or a firewall");
                return Effect::end(Action::respond(403));
            }
            _ => {
                if let Some(found) = proxy::read(directive, words, self.target, self.ledger) {
                    let (action, set) = (Action::Pool(found.pool), found.set);
                    return Effect::End {
                        action,
                        set,
                        request: found.request,
                        response: found.response,
                        is_error: false,
                    };
                }
            }
        }
        // Its requests do not reach other endpoints instead.
        Effect::end(Action::respond(503))
    }

    /// Error pages of `handle_errors`.
    fn errors(&mut self, block: &[Directive]) -> Option<RouteKeys> {
        let mut pages = None;
        for directive in block.iter().filter(|directive| directive.name() == "handle_errors") {
            match page_of(directive) {
                Some(page) => {
                    self.ledger.carried(directive.line);
                    directive.block.iter().for_each(|inner| self.ledger.carried(inner.line));
                    pages = Some(pages_keys(page));
                }
                None => directive.lost(
                    "errors get pages of one text only",
                    "error_pages of the routes, with intercept",
                    self.ledger,
                ),
            }
        }
        pages
    }
}

/// A page for all errors: `respond TEXT [STATUS]`.
fn page(words: &[String]) -> Option<Entries> {
    let (body, status) = match words {
        [body] if body.parse::<u16>().is_err() => (body, None),
        [body, status] => (body, Some(status.parse::<u64>().ok().filter(|status| (200..600).contains(status))?)),
        _ => return None,
    };
    if body.is_empty() || body.contains('{') {
        return None;
    }
    let mut page = Entries::one("status", vec!["4xx", "5xx"]);
    page.set("body", body.as_str());
    if let Some(status) = status {
        page.set("send_status", status);
    }
    Some(page)
}

/// Bytes of `10MB`, in thousands.
fn decimal(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()? {
        b'k' => 1000,
        b'm' => 1_000_000,
        b'g' => 1_000_000_000,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

/// `rewrite TO`: a path, a query, or both.
fn rewritten(to: &str) -> Option<Change> {
    let to = to.split_once('#').map_or(to, |(to, _)| to);
    let (path, query) = to.split_once('?').map_or((to, None), |(path, query)| (path, Some(query)));
    let query = match query {
        None => None,
        // The client's query stays.
        Some("{query}" | "{http.request.uri.query}") => None,
        Some(query) if query.contains('{') => return None,
        Some(query) => Some(query.to_string()),
    };
    let path = match path {
        "" => None,
        path => {
            let path = value::read(path).ok()?.replace("{uri}", "{path}");
            if !path.starts_with(['/', '{']) || path.contains(['*']) {
                return None;
            }
            (path != "{path}").then_some(path)
        }
    };
    Some(Change::To { path, query })
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
