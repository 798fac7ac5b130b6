//! Middlewares: filters of routes, or a redirect instead of the service.

use super::auth;
use super::effect::{Effect, Move, add, close};
use crate::compression::{codings, put, types};
use crate::ledger::Ledger;
use crate::model::{Action, Draft, FieldKeys, Target, braced, parse_size, size};
use crate::tree::Node;
use evenkeel_config::plan::{Cors, Limit};

/// Deepest nesting of chains.
const DEPTH: usize = 8;

/// Adds the effect of a middleware. False if it does not exist.
pub(super) fn apply(
    name: &str,
    all: Option<&Node>,
    effect: &mut Effect,
    depth: usize,
    target: &mut Target,
    ledger: &mut Ledger,
) -> bool {
    let bare = name.split('@').next().unwrap_or(name);
    let Some(middleware) = all.and_then(|all| all.get(bare)) else { return false };
    for (kind, node) in middleware.entries() {
        if kind.eq_ignore_ascii_case("chain") && depth < DEPTH {
            for inner in node.texts("middlewares", ledger) {
                if !apply(&inner, all, effect, depth + 1, target, ledger) {
                    effect.is_closed = true;
                    let reason = "a middleware of the chain is not in this file: all clients are refused";
                    ledger.changes(node.line, reason, "convert the file that has it, too");
                }
            }
            continue;
        }
        one(bare, &kind.to_ascii_lowercase(), node, effect, target, ledger);
    }
    true
}

fn one(name: &str, kind: &str, node: &Node, effect: &mut Effect, target: &mut Target, ledger: &mut Ledger) {
    match kind {
        "stripprefix" => {
            let prefixes = node.texts("prefixes", ledger);
            let prefixes = prefixes.into_iter().map(|prefix| prefix.trim_end_matches('/').to_string());
            effect.moves.push(Move::Strip(prefixes.collect()));
            if let Some(force) = node.at("forceSlash") {
                force.dropped("a path is never without its slash", ledger);
            }
        }
        "addprefix" => {
            if let Some(prefix) = node.take("prefix", ledger) {
                effect.moves.push(Move::Add(prefix.trim_end_matches('/').to_string()));
            }
        }
        "replacepath" => {
            if let Some(path) = node.take("path", ledger) {
                effect.moves.push(Move::Replace(path.to_string()));
            }
        }
        "redirectscheme" => {
            let permanent = node.take("permanent", ledger) == Some("true");
            let mut to = Draft::one(key!("status"), if permanent { 301 } else { 302 });
            to.put(key!("scheme"), node.take("scheme", ledger).unwrap_or("https"));
            if let Some(port) = node.take("port", ledger).and_then(|port| port.parse::<u64>().ok()) {
                to.put(key!("port"), port);
            }
            let reason = "Traefik answers other methods than GET by 307 or 308; here every request gets this status";
            ledger.changes(
                node.line,
                reason,
                "nothing, unless clients send a POST there: status = 308 keeps its method",
            );
            effect.action = Some(Action::Redirect(to));
        }
        "headers" => headers(node, effect, ledger),
        "ratelimit" => rate_limit(node, effect, ledger),
        "inflightreq" => {
            if let Some(amount) = node.take("amount", ledger).and_then(|amount| amount.parse::<u64>().ok()) {
                effect.set.push(
                    key!("limits"),
                    Draft::<Limit>::one(key!("in_flight"), amount.max(1)).with(key!("key"), "client"),
                );
            }
            node.lost(
                "requests are counted by the client's address",
                "key of the limit: header:NAME, cookie:NAME or route",
                ledger,
            );
        }
        "ipallowlist" | "ipwhitelist" => {
            let mut set = Draft::one(key!("access.allow"), node.texts("sourceRange", ledger));
            if let Some(status) = node.take("rejectStatusCode", ledger).and_then(|status| status.parse::<u64>().ok()) {
                set.put(key!("access.status"), status);
            }
            add(set, node, effect, ledger);
            node.lost("the client is the one that trusted proxies report", "trusted_proxies of the listener", ledger);
        }
        "buffering" => {
            if let Some(bytes) = node.take("maxRequestBodyBytes", ledger).and_then(parse_size) {
                effect.set.put(key!("body_max"), size(bytes));
            }
            node.dropped("bodies are not buffered: they pass as they come", ledger);
        }
        "retry" => {
            if let Some(attempts) = node.take("attempts", ledger).and_then(|attempts| attempts.parse::<u64>().ok()) {
                effect.set.put(key!("retry.attempts"), attempts.saturating_sub(1).min(10));
            }
            node.dropped("pauses between tries grow from 25 ms on", ledger);
        }
        "compress" => compress(node, effect, ledger),
        "basicauth" => auth::passwords(node, effect, ledger),
        "digestauth" => auth::digests(node, effect, ledger),
        "forwardauth" => auth::service(name, node, effect, target, ledger),
        "errors" => node.lost("pages are for evenkeel's own answers", "error_pages of the [[route]]", ledger),
        "circuitbreaker" => node.lost("endpoints that fail are ejected one by one", "outlier of the pool", ledger),
        "replacepathregex" if is_simple(node) => {
            let search = node.take("regex", ledger).unwrap_or_default().to_string();
            let to = groups(node.take("replacement", ledger).unwrap_or_default());
            effect.moves.push(Move::Search { search, to });
        }
        "stripprefixregex" | "replacepathregex" => {
            node.lost(
                "paths are not rewritten by expressions",
                "rewrite = { path = \"/x/{id}\" } of the [[route]]",
                ledger,
            );
        }
        "redirectregex" => {
            node.lost(
                "redirects are not made by expressions",
                "redirect = { to = \"https://HOST{path}\" } of a [[route]]",
                ledger,
            );
        }
        "contenttype" => node.dropped("types of responses are never guessed", ledger),
        "passtlsclientcert" | "grpcweb" | "encodedcharacters" => {
            node.lost("this middleware has no counterpart", "see the filters of a [[route]]", ledger);
        }
        // An unknown middleware may be a protection.
        "plugin" => close(node, "plugins are not run", effect, ledger),
        _ => close(node, "this middleware has no counterpart", effect, ledger),
    }
}

/// `compress`: by default all types but gRPC, in zstd, br and gzip.
fn compress(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    let mut compress = Draft::default();
    let encodings = node.texts("encodings", ledger);
    let named = codings(encodings.iter().map(String::as_str));
    compress.put(key!("algorithms"), if named.is_empty() { vec!["gzip", "br", "zstd"] } else { named });
    let included = node.texts("includedContentTypes", ledger);
    let included = types(included.iter().map(String::as_str));
    if !included.is_empty() {
        compress.put(key!("types"), included);
    } else if node.get("excludedContentTypes").is_none() {
        ledger.changes(
            node.line,
            "Traefik compresses every type; here those of the default list, which are text",
            "types of compress, if others are worth it",
        );
    }
    if let Some(bytes) = node.take("minResponseBodyBytes", ledger).and_then(|bytes| bytes.parse::<u64>().ok()) {
        compress.put(key!("min_length"), size(bytes));
    }
    for (key, reason) in [
        ("excludedContentTypes", "types are listed that are compressed: compress = { types = [...] }"),
        ("defaultEncoding", "clients that name no coding get none"),
    ] {
        if let Some(left) = node.get(key) {
            left.lost(reason, "compress of the [[route]]", ledger);
        }
    }
    node.carried(ledger);
    put(compress, &mut effect.set);
}

/// Settings of `headers` that each set a single response field.
const FIELDS: &[(&str, &str, &str)] = &[
    ("customFrameOptionsValue", "X-Frame-Options", ""),
    ("contentSecurityPolicy", "Content-Security-Policy", ""),
    ("referrerPolicy", "Referrer-Policy", ""),
    ("permissionsPolicy", "Permissions-Policy", ""),
    ("customBrowserXSSValue", "X-XSS-Protection", ""),
    ("frameDeny", "X-Frame-Options", "DENY"),
    ("contentTypeNosniff", "X-Content-Type-Options", "nosniff"),
    ("browserXssFilter", "X-XSS-Protection", "1; mode=block"),
];

fn headers(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    for (key, fields) in [("customRequestHeaders", FieldKeys::REQUEST), ("customResponseHeaders", FieldKeys::RESPONSE)]
    {
        for (name, value) in node.get(key).map_or(&[][..], Node::entries) {
            let Some(text) = value.text() else { continue };
            ledger.carried(value.line);
            match text.is_empty() {
                true => effect.set.push(fields.remove, name.as_str()),
                false if name.eq_ignore_ascii_case("host") && fields.table == "request_headers" => {
                    drop(effect.set.put(key!("send_host"), text))
                }
                false => drop(effect.set.insert(fields.set, name, braced(text))),
            }
        }
    }
    for (key, field, fixed) in FIELDS {
        let Some(text) = node.take(key, ledger) else { continue };
        let value = if fixed.is_empty() { braced(text) } else { (*fixed).to_string() };
        if fixed.is_empty() || text == "true" {
            effect.set.insert(key!("response_headers.set"), field, value);
        }
    }
    if let Some(seconds) = node.take("stsSeconds", ledger).filter(|seconds| *seconds != "0") {
        let on = |flag: Option<&str>, text: &'static str| if flag == Some("true") { text } else { "" };
        let below = on(node.take("stsIncludeSubdomains", ledger), "; includeSubDomains");
        let preload = on(node.take("stsPreload", ledger), "; preload");
        let value = format!("max-age={}{below}{preload}", braced(seconds));
        effect.set.insert(key!("response_headers.set"), "Strict-Transport-Security", value);
        if node.take("forceSTSHeader", ledger) != Some("true") {
            ledger.changes(
                node.line,
                "Strict-Transport-Security is sent over HTTP as well, where clients ignore it",
                "nothing",
            );
        }
    }
    let origins = node.texts("accessControlAllowOriginList", ledger);
    if !origins.is_empty() {
        let mut cors: Draft<Cors> = Draft::one(key!("origins"), origins);
        for (key, list) in [
            ("accessControlAllowMethods", key!("methods")),
            ("accessControlAllowHeaders", key!("headers")),
            ("accessControlExposeHeaders", key!("expose")),
        ] {
            let values = node.texts(key, ledger);
            if !values.is_empty() {
                cors.put(list, values);
            }
        }
        if node.take("accessControlAllowCredentials", ledger) == Some("true") {
            cors.put(key!("credentials"), true);
        }
        if let Some(age) = node.take("accessControlMaxAge", ledger).and_then(|age| age.parse::<u64>().ok()) {
            cors.put(key!("max_age"), format!("{}s", age.min(86_400)));
        }
        if let Some(vary) = node.at("addVaryHeader") {
            vary.dropped("Vary: Origin is added where it is needed", ledger);
        }
        effect.set.put(key!("cors"), cors);
    }
    node.lost(
        "this setting of `headers` has no counterpart",
        "set the field in response_headers, if it is one",
        ledger,
    );
}

fn rate_limit(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    let Some(average) = node.take("average", ledger).and_then(|average| average.parse::<u64>().ok()).filter(|n| *n > 0)
    else {
        return node.dropped("without an average there is no limit", ledger);
    };
    let period = node.take("period", ledger).and_then(crate::durations::milliseconds).unwrap_or(1000).max(1);
    let burst = node.take("burst", ledger).and_then(|burst| burst.parse::<u64>().ok()).unwrap_or(1).max(1);
    let rate = [(1000, "s"), (60_000, "m"), (3_600_000, "h")].into_iter().find_map(|(unit, name)| {
        let scaled = average.checked_mul(unit)?;
        (scaled >= period && scaled % period == 0).then(|| format!("{}/{name}", scaled / period))
    });
    let key = match node.take("sourceCriterion.requestHeaderName", ledger) {
        Some(name) => format!("header:{name}"),
        None if node.take("sourceCriterion.requestHost", ledger) == Some("true") => "route".to_string(),
        None => "client".to_string(),
    };
    match rate {
        Some(rate) => effect.set.push(
            key!("limits"),
            Draft::<Limit>::one(key!("requests"), rate).with(key!("burst"), burst).with(key!("key"), key),
        ),
        None => ledger.changes(node.line, "its rate is not a whole number of requests", "limits of the [[route]]"),
    }
    node.lost("the client is the one that trusted proxies report", "trusted_proxies of the listener", ledger);
}

/// True for an expression and a replacement that evenkeel reads in the same way.
fn is_simple(node: &Node) -> bool {
    let (regex, to) = (node.at("regex").and_then(Node::text), node.at("replacement").and_then(Node::text));
    let fits = |to: &str| {
        let parts: Vec<&str> = to.split('$').collect();
        let is_group = |part: &&str| {
            let digits = part.trim_start_matches('{');
            digits.starts_with(|c: char| c.is_ascii_digit())
                && !digits
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        };
        to.starts_with('/') && !to.contains('?') && parts.iter().skip(1).all(is_group)
    };
    regex.is_some_and(|regex| crate::expression::foreign(regex).is_ok()) && to.is_some_and(fits)
}

/// A replacement with `$1` and `${1}` as evenkeel writes it.
fn groups(to: &str) -> String {
    let mut parts = to.split('$');
    let mut out = braced(parts.next().unwrap_or_default());
    for part in parts {
        let bare = part.trim_start_matches('{');
        let end = bare.find(|c: char| !c.is_ascii_digit()).unwrap_or(bare.len());
        let (digits, rest) = bare.split_at(end);
        let rest = if part.starts_with('{') { rest.strip_prefix('}').unwrap_or(rest) } else { rest };
        out.push_str(&format!("{{{digits}}}{}", braced(rest)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_respelled() {
        assert_eq!(groups("/v2/$1/${2}{x"), "/v2/{1}/{2}{{x");
    }
}
