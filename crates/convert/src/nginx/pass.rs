//! `proxy_pass` and `grpc_pass`: the pool of a location, the path that endpoints see, and pools that a map names.

use super::filters;
use super::lexer::Directive;
use super::rules::{Routes, State, join};
use super::rules::{Truth, row};
use super::table::written;
use super::tree::Location;
use super::variable;
use super::world::{Forward, group, single, split_uri};
use crate::expression::whole;
use crate::ledger::Line;
use crate::model::{Action, Cond, Draft, Key, RouteKeys, Test, braced, escape};
use evenkeel_config::plan::{Access, Rewrite};

const FILES: &str = "keep a web server for the files, as a pool of its own";

impl<'d> Routes<'_, 'd> {
    /// Adds the route for requests without a response so far: to a pool, to another location, or with a 404.
    pub fn handler(&mut self, state: State<'d>, location: &Location<'d>, line: Line) {
        let depth = location.levels.len().saturating_sub(1);
        let own: Vec<&'d [Directive]> = state.levels.iter().skip(depth).copied().collect();
        let pass = own
            .iter()
            .rev()
            .find_map(|level| level.iter().rev().find(|d| matches!(d.name(), "proxy_pass" | "grpc_pass")));
        if let Some(pass) = pass {
            return self.pass(pass, state, location);
        }
        // Neither `if` nor an inner location inherits it.
        let jump = match &own[..] {
            [only] => only.iter().find(|d| d.name() == "try_files"),
            _ => None,
        };
        if let Some(jump) = jump {
            let last = jump.words.last().map_or("", String::as_str);
            if let Some(named) = self.tree.named.get(last) {
                let reason = format!("files are not looked for: every request goes to {last}");
                self.world.ledger.changes(jump.line, reason, FILES);
                let before = state.levels.clone();
                return self.behind(&before, named, state, jump.line);
            }
            self.world.ledger.changes(jump.line, "files are not served from disk", FILES);
        }
        let others = own.iter().flat_map(|level| level.iter()).filter(|d| d.name().ends_with("_pass"));
        let others: Vec<Line> = others.map(|d| d.line).collect();
        for other in others {
            let reason = "FastCGI, uwsgi, SCGI and memcached are not spoken";
            self.world.ledger.changes(other, reason, "have the application speak HTTP, or keep a web server for it");
        }
        self.nothing(state, location, line);
    }

    /// A location without a handler: NGINX has files for it, or refuses.
    fn nothing(&mut self, state: State<'d>, location: &Location<'d>, line: Line) {
        let own = location.directive.inner();
        let has_files = ["root", "alias", "try_files", "index", "autoindex"];
        let serves = own.iter().any(|d| has_files.contains(&d.name()) || d.name().ends_with("_pass"))
            || single(&state.levels, "root").is_some();
        self.missing(state, line);
        let is_missing = self.last().is_some_and(|route| route.action == Action::respond(404));
        if serves && is_missing {
            let reason = "nothing here does what the location did: requests get a 404";
            self.world.ledger.changes(line, reason, "give the [[route]] a pool, or remove it");
            let comment = format!("{}: nothing here does what this location did.", self.world.ledger.place(line));
            let name = format!("{}-files", self.name);
            if let Some(route) = self.last() {
                (route.name, route.comments) = (name, vec![comment]);
            }
        }
    }

    fn pass(&mut self, pass: &'d Directive, state: State<'d>, location: &Location<'d>) {
        let line = pass.line;
        let expanded = state.scope.expanded(pass.word(1));
        let (scheme, rest) = expanded.split_once("://").unwrap_or(("http", &expanded));
        let scheme = if pass.name() == "grpc_pass" && !scheme.starts_with("grpc") { "grpc" } else { scheme };
        let (authority, uri) = split_uri(rest);
        if authority.is_empty() {
            // A variable without a value: NGINX has no URL.
            self.world.ledger.carried(line);
            return self.fails(500, state, line);
        }
        if let Some(map) = variable::only(authority).and_then(|name| self.world.maps.get(name)).copied() {
            return self.by_map(map, scheme, uri, pass, state, location);
        }
        let Some(forward) = self.world.forward(scheme, authority, &state.scope, line) else {
            let todo = "pool = \"{map.NAME}\" in the [[route]], with a [map.NAME] of pools";
            let reason = format!("the endpoint comes from `{}`, which is not constant", pass.word(1));
            self.world.ledger.changes(line, reason, todo);
            return self.fails(502, state, line);
        };
        self.world.ledger.carried(line);
        self.forwarded(&forward, uri, pass, state, location, line);
    }

    fn forwarded(
        &mut self,
        forward: &Forward,
        uri: &str,
        pass: &Directive,
        mut state: State<'d>,
        location: &Location<'d>,
        line: Line,
    ) {
        let mut set = Draft::default();
        self.rewritten(uri, pass, &mut state, location, &mut set);
        let found = filters::read(&state.levels, Some(forward), &state.scope, self.world);
        set.merge(&found);
        super::rules::read_pages(&state.levels, &state.scope, &mut set, self);
        let has_host = group(&state.levels, "proxy_set_header").iter().any(|d| d.word(1).eq_ignore_ascii_case("host"));
        let sends_own = !has_host && set.text(key!("send_host")) == Some(forward.host.as_str());
        self.proxy_tls(&forward.pool, &state.levels);
        let comment = "Without `proxy_set_header Host`, NGINX sends this name; drop send_host to pass the client's.";
        for (cond, set) in self.satisfied(&state, set) {
            let matching = match join(&state.matching, &cond, &state.scope) {
                Ok(matching) => matching,
                Err(_) => continue,
            };
            self.push(matching, Action::Pool(forward.pool.clone()), set, line);
            if sends_own && let Some(route) = self.last() {
                route.comments.push(comment.to_string());
            }
        }
    }

    /// Filters for clients of some networks, and for the others: `satisfy any` lets clients in that an address list or a
    /// password admits.
    fn satisfied(&mut self, state: &State<'d>, set: RouteKeys) -> Vec<(Vec<Cond>, RouteKeys)> {
        let Some(satisfy) = single(&state.levels, "satisfy") else { return vec![(Vec::new(), set)] };
        self.world.ledger.carried(satisfy.line);
        let auth = [key!("basic_auth"), key!("forward_auth"), key!("jwt")];
        if satisfy.word(1) != "any" || !set.has(key!("access")) || !auth.iter().any(|key| set.has(*key)) {
            return vec![(Vec::new(), set)];
        }
        let mut open = set.clone();
        auth.iter().for_each(|key| drop(open.remove(*key)));
        let access = open.remove(key!("access"));
        let mut asked = set;
        asked.remove(key!("access"));
        let list = |key| match &access {
            Some(crate::model::Value::Table(table)) => match table.get(key) {
                Some(crate::model::Value::List(list)) => list.clone(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let text = |value: crate::model::Value| match value {
            crate::model::Value::Text(text) => text,
            _ => String::new(),
        };
        let (allow, deny): (Vec<String>, Vec<String>) =
            (list("allow").into_iter().map(text).collect(), list("deny").into_iter().map(text).collect());
        let is_all = |list: &[String]| list.iter().any(|network| network == "0.0.0.0/0");
        match (allow.is_empty(), deny.is_empty()) {
            // Networks that are refused have to give a password.
            (true, false) if is_all(&deny) => vec![(Vec::new(), asked)],
            (true, false) => vec![(vec![Cond::one_of(Key::Client, deny)], asked), (Vec::new(), open)],
            (false, true) => vec![(vec![Cond::one_of(Key::Client, allow)], open), (Vec::new(), asked)],
            (false, false) if is_all(&allow) => {
                vec![(vec![Cond::one_of(Key::Client, deny)], asked), (Vec::new(), open)]
            }
            _ => {
                let reason = "`any` with networks in networks is not carried over: address and password are needed";
                self.world.ledger.changes(satisfy.line, reason, "a [[route]] for each of the networks");
                let access: Draft<Access> = Draft::one(key!("allow"), allow).with(key!("deny"), deny);
                vec![(Vec::new(), asked.with(key!("access"), access))]
            }
        }
    }

    /// `proxy_ssl_*` of the levels, for the pool.
    fn proxy_tls(&mut self, pool: &str, levels: &[&[Directive]]) {
        let find = |name: &str| single(levels, name);
        let rows = [
            ("proxy_ssl_name", key!("tls.server_name")),
            ("proxy_ssl_trusted_certificate", key!("tls.ca")),
            ("proxy_ssl_certificate", key!("tls.cert")),
            ("proxy_ssl_certificate_key", key!("tls.key")),
        ];
        let is_tls = self.world.target.pool(pool).is_some_and(|pool| pool.set.has(key!("tls")));
        for (name, key) in rows {
            let Some(directive) = find(name) else { continue };
            match Some(directive.word(1)).filter(|word| is_tls && !word.contains('$')) {
                Some(value) => {
                    self.world.ledger.carried(directive.line);
                    self.world.target.pool(pool).into_iter().for_each(|pool| drop(pool.set.put(key, value)));
                }
                None if is_tls => self.world.ledger.changes(
                    directive.line,
                    "the name comes from a variable",
                    "set tls.server_name of the pool",
                ),
                None => self.world.ledger.dropped(directive.line, "the endpoints do not speak TLS"),
            }
        }
        if let Some(directive) = find("proxy_ssl_verify") {
            self.world.ledger.carried(directive.line);
            if directive.word(1) == "on" && is_tls {
                self.world.target.pool(pool).into_iter().for_each(|pool| drop(pool.set.put(key!("tls.verify"), true)));
            }
        }
        if let Some(directive) = find("proxy_ssl_server_name") {
            self.world.ledger.dropped(directive.line, "the name of the endpoint is sent where it has one");
        }
    }

    /// The path that endpoints see, by the URI behind the host of `proxy_pass`.
    fn rewritten(
        &mut self,
        uri: &str,
        pass: &Directive,
        state: &mut State<'d>,
        location: &Location<'d>,
        set: &mut RouteKeys,
    ) {
        let is_same = ["", "${request_uri}", "${uri}${is_args}${args}"].contains(&uri);
        self.locations_of_responses(pass, uri, state, location, is_same);
        let has_variables = pass.word(1).contains('$');
        if let Some(changed) = &state.changed {
            if uri.is_empty() || changed.is_break && !has_variables {
                set.put(key!("rewrite"), changed.keys.clone());
                return;
            }
            if uri != "${request_uri}" {
                let todo = "rewrite of the [[route]]";
                self.world.ledger.changes(pass.line, "a rewrite and the URI both change the path", todo);
            }
            return;
        }
        if is_same {
            return;
        }
        if has_variables {
            match whole_path(uri, location, state.scope.groups) {
                Some(keys) => drop(set.put(key!("rewrite"), keys)),
                None => {
                    let todo = "rewrite = { path = \"/x/{1}\" } in the [[route]]";
                    let reason = format!("the path of requests is made of `{uri}`");
                    self.world.ledger.changes(pass.line, reason, todo);
                }
            }
            return;
        }
        let (pattern, uri) = (location.pattern, uri);
        match location.modifier {
            "=" => {
                let keys = match uri.contains('?') {
                    false => Draft::<Rewrite>::one(key!("path"), braced(uri)),
                    true => Draft::one(key!("regex"), ".*").with(key!("to"), braced(uri)),
                };
                set.put(key!("rewrite"), keys);
            }
            _ if uri == pattern => {}
            _ => by_prefix(pattern, uri, state, set),
        }
    }

    /// Notes where NGINX changes `Location` of responses.
    fn locations_of_responses(
        &mut self,
        pass: &Directive,
        uri: &str,
        state: &State<'d>,
        location: &Location<'d>,
        is_same: bool,
    ) {
        let lines = group(&state.levels, "proxy_redirect");
        if lines.iter().any(|d| d.word(1) == "off") {
            return;
        }
        let is_clients = |d: &&Directive| {
            d.word(1).eq_ignore_ascii_case("host")
                && (d.word(2).starts_with("$host") || d.word(2).starts_with("$http_host"))
        };
        let has_host = group(&state.levels, "proxy_set_header").iter().any(is_clients);
        let is_plain = is_same || uri == location.pattern;
        if pass.name() != "proxy_pass"
            || pass.word(1).contains('$') && lines.is_empty()
            || is_plain && has_host && lines.is_empty()
        {
            return;
        }
        let reason = "NGINX rewrites Location of responses by the same rule; here it passes as the endpoint sends it";
        let todo = match is_plain {
            true => "drop send_host, so that the application knows the host of its clients",
            false => {
                "restore_prefix = true in the [[route]], which also changes paths without a host and those of cookies"
            }
        };
        self.world.ledger.changes(pass.line, reason, todo);
    }

    /// `proxy_pass http://$pool`, where a map gives the pool: a route for each of its lines.
    fn by_map(
        &mut self,
        map: &'d Directive,
        scheme: &str,
        uri: &str,
        pass: &'d Directive,
        state: State<'d>,
        location: &Location<'d>,
    ) {
        self.world.ledger.carried(map.line);
        self.world.ledger.carried(pass.line);
        let source = map.word(1);
        let has_hosts = map.inner().iter().any(|line| line.word(0) == "hostnames");
        let mut lines: Vec<&Directive> = Vec::new();
        for line in map.inner() {
            match line.word(0) {
                "hostnames" | "volatile" => self.world.ledger.dropped(line.line, "hosts are compared as hosts"),
                _ => lines.push(line),
            }
        }
        // Texts before expressions, and the default last.
        lines.sort_by_key(|line| (line.word(0) == "default", line.word(0).starts_with('~')));
        for line in lines {
            let cond = match line.word(0) {
                "default" => Ok(Truth::Always),
                key => row(source, key, has_hosts, &state.scope),
            };
            let conds = match cond {
                Ok(Truth::When(conds)) => conds,
                Ok(Truth::Always) => Vec::new(),
                Ok(Truth::Never) => continue,
                Err(reason) => {
                    self.world.ledger.decide(line.line, reason, "write a [[route]] by hand");
                    continue;
                }
            };
            let conds = self.beside_paths(conds);
            let Ok(matching) = join(&state.matching, &conds, &state.scope) else { continue };
            let (scheme, rest) = line.word(1).split_once("://").unwrap_or((scheme, line.word(1)));
            let (authority, own_uri) = split_uri(rest);
            match self.world.forward(scheme, authority, &state.scope, line.line) {
                Some(forward) => {
                    self.world.ledger.carried(line.line);
                    let state = State { matching, ..state.clone() };
                    let uri = if own_uri.is_empty() { uri } else { own_uri };
                    self.forwarded(&forward, uri, pass, state, location, line.line);
                }
                None => {
                    let reason = format!("\"{}\" is not an endpoint", line.word(1));
                    self.world.ledger.decide(line.line, reason, "write a [[route]] by hand");
                    self.fails(502, State { matching, ..state.clone() }, line.line);
                }
            }
        }
        if !map.inner().iter().any(|line| line.word(0) == "default") {
            // Without a host, NGINX has no endpoint.
            self.fails(500, state, map.line);
        }
    }
}

/// Replaces the beginning of paths, as text: by segment where both end alike.
fn by_prefix(pattern: &str, uri: &str, state: &State<'_>, set: &mut RouteKeys) {
    let is_alike = pattern.ends_with('/') && uri.ends_with('/');
    let below = Cond::new(Key::Path, Test::Below(pattern.trim_end_matches('/').to_string()));
    if is_alike && state.matching.conds.contains(&below) {
        match uri.trim_end_matches('/') {
            "" => drop(set.put(key!("strip_prefix"), true)),
            to => drop(set.put(key!("rewrite"), Draft::<Rewrite>::one(key!("prefix"), braced(to)))),
        }
        return;
    }
    if pattern == "/" && is_alike {
        set.put(key!("rewrite"), Draft::<Rewrite>::one(key!("prefix"), braced(uri.trim_end_matches('/'))));
        return;
    }
    let keys = Draft::<Rewrite>::one(key!("regex"), format!("{}(.*)", escape(pattern)));
    set.put(key!("rewrite"), keys.with(key!("to"), format!("{}{{1}}", braced(uri))));
}

/// A path that variables make, without the query of the request. `count`: groups that the last expression left, with the
/// whole.
fn whole_path(uri: &str, location: &Location<'_>, count: usize) -> Option<Draft<Rewrite>> {
    let (bare, keeps) = match uri.strip_suffix("${is_args}${args}") {
        Some(bare) => (bare, true),
        None => (uri, false),
    };
    let is_regex = location.modifier.starts_with('~');
    let regex = match is_regex {
        true => whole(&written(location.pattern).ok()?, location.modifier == "~*"),
        false => "(.*)".to_string(),
    };
    let (mut to, mut rest) = (String::new(), bare);
    while let Some(at) = rest.find("${") {
        to.push_str(&braced(&rest[..at]));
        let (name, after) = rest[at + 2..].split_once('}')?;
        let is_group =
            is_regex && (name.bytes().all(|b| b.is_ascii_digit()) || regex.contains(&format!("(?P<{name}>")));
        match name {
            // The groups of a condition.
            name if name.bytes().all(|b| b.is_ascii_digit()) && count == 0 => return None,
            name if name.parse::<usize>().is_ok_and(|number| is_regex && number >= count) => {}
            name if is_group => to.push_str(&format!("{{{name}}}")),
            "uri" if !is_regex => to.push_str("{1}"),
            _ => return None,
        }
        rest = after;
    }
    to.push_str(&braced(rest));
    if !to.starts_with('/') && !to.starts_with("{1}") {
        return None;
    }
    let end = if keeps || to.contains('?') { "" } else { "?" };
    Some(Draft::one(key!("regex"), regex).with(key!("to"), format!("{to}{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths_are_split() {
        for (rest, parts) in [
            ("app", ("app", "")),
            ("app/", ("app", "/")),
            ("app:80/x/", ("app:80", "/x/")),
            ("unix:/run/a.sock", ("unix:/run/a.sock", "")),
            ("unix:/run/a.sock:/x", ("unix:/run/a.sock", "/x")),
            ("app${request_uri}", ("app", "${request_uri}")),
            ("${up}", ("${up}", "")),
        ] {
            assert_eq!(split_uri(rest), parts);
        }
    }
}
