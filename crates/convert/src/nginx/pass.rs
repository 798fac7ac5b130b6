//! `proxy_pass` and `grpc_pass`: the pool of a location, the path that endpoints see, and pools that a map names.

use super::filters;
use super::lexer::Directive;
use super::location::{Location, Routes};
use super::variable;
use super::world::{Forward, group, single, split_uri};
use crate::ledger::Line;
use crate::model::{Action, Cond, Draft, Key, Match, RouteKeys, Test};
use evenkeel_config::plan::Rewrite;

impl<'d> Routes<'_, 'd> {
    pub fn pass(
        &mut self,
        pass: &Directive,
        levels: &[&'d [Directive]],
        matching: &Match,
        location: &Location<'d>,
        mut set: RouteKeys,
    ) {
        let line = pass.line;
        let (scheme, rest) = pass.word(1).split_once("://").unwrap_or(("http", pass.word(1)));
        let scheme = if pass.name() == "grpc_pass" && !scheme.starts_with("grpc") { "grpc" } else { scheme };
        let (authority, uri) = split_uri(rest);
        if let Some(map) = variable::only(authority).and_then(|name| self.world.maps.get(name)).copied() {
            return self.by_map(map, scheme, uri, pass, levels, matching, location, &set);
        }
        let Some(forward) = self.world.forward(scheme, authority, self.constants, line) else {
            let todo = "write a [[route]] for each pool that the variable can name";
            self.world.ledger.changes(
                line,
                format!("the endpoint comes from `{authority}`, which is not constant"),
                todo,
            );
            return;
        };
        self.world.ledger.carried(line);
        let matching = self.rewritten(uri, pass, matching, location, &mut set);
        self.forwarded(&forward, levels, matching, set, line);
    }

    fn forwarded(
        &mut self,
        forward: &Forward,
        levels: &[&'d [Directive]],
        matching: Match,
        mut set: RouteKeys,
        line: Line,
    ) {
        let found = filters::read(levels, Some(forward), self.constants, self.world);
        let sends_own = found.text(key!("send_host")) == Some(forward.host.as_str());
        set.merge(&found);
        self.proxy_tls(&forward.pool, levels);
        self.push(matching, Action::Pool(forward.pool.clone()), set, line);
        if sends_own
            && !super::world::group(levels, "proxy_set_header").iter().any(|d| d.word(1).eq_ignore_ascii_case("host"))
            && let Some(route) = self.routes.last_mut()
        {
            route.comments.push(
                "Without `proxy_set_header Host`, NGINX sends this name; drop send_host to pass the client's."
                    .to_string(),
            );
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
            match variable::constant(directive.word(1), self.constants).filter(|_| is_tls) {
                Some(value) => {
                    self.world.ledger.carried(directive.line);
                    self.world.target.pool(pool).into_iter().for_each(|pool| drop(pool.set.put(key, value.as_str())));
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

    /// The path that endpoints see, by the URI behind the host of `proxy_pass`. Returns the match, by segment if need be.
    fn rewritten(
        &mut self,
        uri: &str,
        pass: &Directive,
        matching: &Match,
        location: &Location<'_>,
        set: &mut RouteKeys,
    ) -> Match {
        let line = pass.line;
        let is_named = location.pattern.starts_with('@');
        let same = ["", "$request_uri", "$uri", "$uri$is_args$args", "$document_uri"].contains(&uri);
        let redirects =
            "NGINX rewrites Location of responses by the same rule; here it passes as the endpoint sends it";
        let todo =
            "restore_prefix = true in the [[route]], which also changes paths without a host and those of cookies";
        let levels = || location.levels.iter().flat_map(|level| level.iter());
        let rewrites = !levels().any(|d| d.name() == "proxy_redirect" && d.word(1) == "off");
        if same || is_named || uri == location.pattern && !location.modifier.starts_with('~') {
            // The endpoint knows itself by the name of the upstream, and redirects to it.
            let has_host =
                group(&location.levels, "proxy_set_header").iter().any(|d| d.word(1).eq_ignore_ascii_case("host"));
            if rewrites && !has_host && pass.name() == "proxy_pass" {
                self.world.ledger.changes(
                    line,
                    redirects,
                    "drop send_host, so that the application knows the host of its clients",
                );
            }
            return matching.clone();
        }
        let Some(uri) = variable::constant(uri, self.constants).filter(|uri| uri.starts_with('/')) else {
            let todo = "rewrite = { path = \"/x/{id}\" } in the [[route]], with parameters of its path";
            self.world.ledger.changes(line, format!("the path of requests is made of `{uri}`"), todo);
            return matching.clone();
        };
        if rewrites {
            self.world.ledger.changes(line, redirects, todo);
        }
        match location.modifier {
            "=" => drop(set.put(key!("rewrite"), Draft::<Rewrite>::one(key!("path"), uri))),
            "~" | "~*" => self.world.ledger.changes(
                line,
                "the path cannot be replaced where the location is an expression",
                "rewrite of the [[route]]",
            ),
            _ => {
                let (bare, to) = (location.pattern.trim_end_matches('/'), uri.trim_end_matches('/'));
                if location.pattern.ends_with('/') != uri.ends_with('/') {
                    let reason = format!(
                        "NGINX replaces text: {} and {uri} end in different ways, so slashes are doubled or lost; here it is by segment",
                        location.pattern
                    );
                    self.world.ledger.changes(line, reason, "compare a request through both");
                }
                match to.is_empty() {
                    true => drop(set.put(key!("strip_prefix"), true)),
                    false => drop(set.put(key!("rewrite"), Draft::<Rewrite>::one(key!("prefix"), to))),
                }
                if bare.is_empty() && to.is_empty() {
                    set.remove(key!("strip_prefix"));
                    return matching.clone();
                }
                // A prefix is replaced by segment.
                let mut matching = matching.clone();
                matching.conds.retain(|cond| cond.key != Key::Path || cond.negated);
                matching.conds.insert(0, Cond::new(Key::Path, Test::Below(bare.to_string())));
                return matching;
            }
        }
        matching.clone()
    }

    /// `proxy_pass http://$pool`, where a map gives the pool: a route for each of its lines.
    #[expect(clippy::too_many_arguments, reason = "the parts of one proxy_pass, taken apart by its only caller")]
    fn by_map(
        &mut self,
        map: &'d Directive,
        scheme: &str,
        uri: &str,
        pass: &Directive,
        levels: &[&'d [Directive]],
        matching: &Match,
        location: &Location<'d>,
        set: &RouteKeys,
    ) {
        self.world.ledger.carried(map.line);
        self.world.ledger.carried(pass.line);
        let source = map.word(1).trim_start_matches('$').to_string();
        let mut default = None;
        for line in map.inner() {
            let (key, value) = (line.word(0), line.word(1));
            if matches!(key, "hostnames" | "volatile") {
                self.world.ledger.dropped(line.line, "hosts are compared as hosts");
                continue;
            }
            if key == "default" {
                default = Some(line);
                continue;
            }
            let cond = match variable::condition(&source, key.trim_start_matches('\\')) {
                Ok(cond) => cond,
                Err(reason) => {
                    self.world.ledger.changes(line.line, reason, "write a [[route]] by hand");
                    continue;
                }
            };
            if let Ok(narrower) = matching.and(&Match::of([cond])) {
                self.entry(line, value, scheme, uri, pass, levels, narrower, location, set);
            }
        }
        if let Some(line) = default {
            self.entry(line, line.word(1), scheme, uri, pass, levels, matching.clone(), location, set);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one line of a map, with the parts of its proxy_pass")]
    fn entry(
        &mut self,
        line: &Directive,
        value: &str,
        scheme: &str,
        uri: &str,
        pass: &Directive,
        levels: &[&'d [Directive]],
        matching: Match,
        location: &Location<'d>,
        set: &RouteKeys,
    ) {
        let (scheme, authority) = value.split_once("://").unwrap_or((scheme, value));
        match self.world.forward(scheme, authority, self.constants, line.line) {
            Some(forward) => {
                self.world.ledger.carried(line.line);
                let mut set = set.clone();
                let matching = self.rewritten(uri, pass, &matching, location, &mut set);
                self.forwarded(&forward, levels, matching, set, line.line);
            }
            None => self.world.ledger.changes(
                line.line,
                format!("\"{value}\" is not an endpoint"),
                "write a [[route]] by hand",
            ),
        }
    }
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
            ("app$request_uri", ("app", "$request_uri")),
            ("$up", ("$up", "")),
        ] {
            assert_eq!(split_uri(rest), parts);
        }
    }
}
