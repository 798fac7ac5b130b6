//! Middlewares: filters of routes, or a redirect instead of the service.

use super::auth;
use super::effect::{Effect, METHODS, Move, add, close};
use super::redirects;
use crate::compression::{codings, put, types};
use crate::ledger::Ledger;
use crate::model::{Action, Draft, FieldKeys, Target, braced, parse_size, size};
use crate::tree::Node;
use evenkeel_config::plan::{Cors, Limit};

/// Kinds that may refuse requests, in the order in which evenkeel asks them.
const CHECKS: [&[&str]; 5] = [
    &["ipallowlist", "ipwhitelist"],
    &["ratelimit", "inflightreq"],
    &["basicauth", "digestauth"],
    &["forwardauth"],
    &["redirectscheme", "redirectregex", "buffering"],
];

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
    if middleware.entries().is_empty() {
        close(middleware, "this middleware has no kind", effect, ledger);
    }
    for (kind, node) in middleware.entries() {
        if effect.action.is_some() {
            node.dropped("the redirect before it answers every request", ledger);
            continue;
        }
        if kind.eq_ignore_ascii_case("chain") && depth < DEPTH {
            for inner in node.texts("middlewares", ledger) {
                if !apply(&inner, all, effect, depth + 1, target, ledger) {
                    effect.is_closed = true;
                    let reason =
                        format!("the middleware \"{inner}\" of the chain is not in this file: all clients are refused");
                    ledger.decide(node.line, reason, "convert the file that has it, too");
                }
            }
            continue;
        }
        let kind = kind.to_ascii_lowercase();
        let rank = CHECKS.iter().position(|kinds| kinds.contains(&kind.as_str()));
        if rank.is_some_and(|rank| rank < effect.rank) {
            let reason = "address lists are asked first, then limits, passwords, services and bodies, in any order of \
                          middlewares: of several refusals the client may get another one";
            ledger.changes(node.line, reason, "nothing: the request is refused either way");
        }
        effect.rank = effect.rank.max(rank.unwrap_or(0));
        one(bare, &kind, node, effect, target, ledger);
    }
    true
}

fn one(name: &str, kind: &str, node: &Node, effect: &mut Effect, target: &mut Target, ledger: &mut Ledger) {
    match kind {
        "stripprefix" => {
            let prefixes = node.texts("prefixes", ledger);
            effect.moves.push(Move::Strip(prefixes));
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
        "redirectscheme" => redirect_scheme(node, effect, ledger),
        "headers" => headers(node, effect, ledger),
        "ratelimit" => rate_limit(node, effect, ledger),
        "inflightreq" => match node.take("amount", ledger).unwrap_or_default().parse::<u64>() {
            Ok(0) => node.dropped("without an amount there is no limit", ledger),
            Ok(amount) => {
                let key = criterion(node, "header:Host", effect, ledger);
                let limit = Draft::<Limit>::one(key!("in_flight"), amount.min(1_000_000)).with(key!("key"), key);
                effect.set.push(key!("limits"), limit);
            }
            Err(_) => close(node, "its amount was not understood", effect, ledger),
        },
        "ipallowlist" | "ipwhitelist" => {
            if let Some(strategy) = node.at("ipStrategy").filter(|node| is_decisive(node)) {
                strategy.lost(
                    "the address is the one that a field names",
                    "trusted_proxies of the listener, and access",
                    ledger,
                );
                let reason = "the address is the one that a field names, whose proxies trusted_proxies of the listener \
                              has to list";
                return close(node, reason, effect, ledger);
            }
            let mut set = Draft::one(key!("access.allow"), node.texts("sourceRange", ledger));
            if let Some(status) = node.take("rejectStatusCode", ledger).and_then(|status| status.parse::<u64>().ok()) {
                set.put(key!("access.status"), status);
            }
            let nets: Vec<String> = node.texts("sourceRange", ledger);
            if nets.is_empty() || !nets.iter().all(|net| is_network(net)) {
                return close(node, "its list has no network, or one that is not understood", effect, ledger);
            }
            add(set, node, effect, ledger);
            node.lost("the client is the one that trusted proxies report", "trusted_proxies of the listener", ledger);
        }
        "buffering" => {
            match node.take("maxRequestBodyBytes", ledger) {
                None | Some("0") => {}
                Some(text) => match parse_size(text) {
                    Some(bytes) => {
                        let least = effect.body_max.map_or(bytes, |other| other.min(bytes));
                        effect.body_max = Some(least);
                        effect.set.put(key!("body_max"), size(least));
                    }
                    None => return close(node, "its limit of bodies was not understood", effect, ledger),
                },
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
        "stripprefixregex" => {
            let all = node.texts("regex", ledger);
            match all.as_slice() {
                [one] if crate::expression::foreign(one).is_ok() => {
                    let search = format!("^(?:{})/?", one.trim_start_matches('^'));
                    effect.moves.push(Move::Search { search, to: "/".to_string() });
                }
                _ => {
                    effect.moves.push(Move::Unknown);
                    let reason = "of several expressions, the first that matches a path is not known";
                    ledger.changes(node.line, reason, "rewrite of the [[route]]");
                }
            }
        }
        "replacepathregex" => {
            effect.moves.push(Move::Unknown);
            let reason = "the replacement cannot be written";
            node.lost(reason, "rewrite = { path = \"/x/{id}\" } of the [[route]]", ledger);
        }
        "redirectregex" => redirects::regex(node, effect, ledger),
        "contenttype" => node.dropped("types of responses are never guessed", ledger),
        "passtlsclientcert" => {
            // A client must not set them instead.
            for field in ["X-Forwarded-Tls-Client-Cert", "X-Forwarded-Tls-Client-Cert-Info"] {
                effect.set.push(key!("request_headers.remove"), field);
            }
            let reason = "endpoints get no fields with the certificate of the client: such fields are removed";
            node.lost(reason, "request_headers with {tls.client.subject} of the [[route]]", ledger);
            ledger.changes(node.line, reason, "request_headers with {tls.client.subject} of the [[route]]");
        }
        "grpcweb" | "encodedcharacters" => {
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
    let is = |key: &str, ledger: &mut Ledger| node.take(key, ledger) == Some("true");
    if !is("isDevelopment", ledger) {
        if let Some(hosts) = node.get("allowedHosts") {
            hosts.lost("other hosts are not refused", "match.host of the [[route]]", ledger);
            close(node, "hosts other than those of a list are refused, which is not carried over", effect, ledger);
        }
        let moves = is("sslRedirect", ledger);
        if moves && !effect.is_tls {
            let status = if is("sslTemporaryRedirect", ledger) { 302 } else { 301 };
            let mut to = Draft::one(key!("status"), status).with(key!("scheme"), "https");
            if let Some(host) = node.take("sslHost", ledger) {
                to.put(key!("host"), braced(host));
            }
            effect.action = Some(Action::Redirect(to));
        }
    }
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
    let number = |key: &str, default: u64, ledger: &mut Ledger| match node.take(key, ledger) {
        Some(text) => text.parse::<u64>().ok(),
        None => Some(default),
    };
    let (average, burst) = (number("average", 0, ledger), number("burst", 1, ledger));
    let period = match node.take("period", ledger) {
        Some(text) => crate::durations::milliseconds(text).filter(|ms| *ms > 0),
        None => Some(1000),
    };
    let (Some(average), Some(burst), Some(period)) = (average, burst, period) else {
        return close(node, "its rate was not understood", effect, ledger);
    };
    if average == 0 {
        return node.dropped("without an average there is no limit", ledger);
    }
    let scaled = |unit: u64| Some((average.checked_mul(unit)?, unit));
    let units = [(1000, "s"), (60_000, "m"), (3_600_000, "h")];
    let exact = units.into_iter().find_map(|(unit, name)| {
        let (scaled, _) = scaled(unit)?;
        (scaled >= period && scaled.is_multiple_of(period)).then(|| format!("{}/{name}", scaled / period))
    });
    let rate = exact.or_else(|| {
        let hourly = scaled(3_600_000)?.0 / period;
        (hourly > 0).then(|| {
            ledger.changes(node.line, "its rate is rounded down to a whole number an hour", "limits of the [[route]]");
            format!("{hourly}/h")
        })
    });
    let Some(rate) = rate else {
        return close(node, "its rate is below a request an hour", effect, ledger);
    };
    let key = criterion(node, "client", effect, ledger);
    let limit = Draft::<Limit>::one(key!("requests"), rate)
        .with(key!("burst"), burst.clamp(1, 1_000_000))
        .with(key!("key"), key);
    effect.set.push(key!("limits"), limit);
    node.lost("the client is the one that trusted proxies report", "trusted_proxies of the listener", ledger);
}

/// Key by which a limit counts.
fn criterion(node: &Node, default: &str, effect: &mut Effect, ledger: &mut Ledger) -> String {
    let key = match node.take("sourceCriterion.requestHeaderName", ledger) {
        Some(name) => format!("header:{name}"),
        None if node.take("sourceCriterion.requestHost", ledger) == Some("true") => "header:Host".to_string(),
        None if node.at("sourceCriterion.ipStrategy").is_some() => "client".to_string(),
        None => default.to_string(),
    };
    let strategy = node.at("sourceCriterion.ipStrategy").filter(|strategy| is_decisive(strategy));
    if let (Some(strategy), "client") = (strategy, key.as_str()) {
        let reason = "requests are counted by the address that connects, unless trusted_proxies of the listener lists \
                      the proxies in front";
        strategy.lost(reason, "trusted_proxies of the listener", ledger);
    }
    if key.starts_with("header:") {
        let reason = "requests without the field are not counted";
        if key != "header:Host" {
            close(node, reason, effect, ledger);
        }
    }
    key
}

/// True for a way to find the client's address other than the connection.
fn is_decisive(strategy: &Node) -> bool {
    strategy.get("depth").is_some_and(|depth| depth.text() != Some("0")) || strategy.get("excludedIPs").is_some()
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok() || text.contains("${")
}

/// `redirectScheme`: a redirect of all requests with another scheme.
fn redirect_scheme(node: &Node, effect: &mut Effect, ledger: &mut Ledger) {
    let permanent = node.take("permanent", ledger) == Some("true");
    let scheme = node.take("scheme", ledger).unwrap_or("https").to_ascii_lowercase();
    let port = node.take("port", ledger).and_then(|port| port.parse::<u64>().ok());
    if !matches!(&*scheme, "http" | "https") {
        return close(node, "it redirects to another scheme than HTTP's", effect, ledger);
    }
    if effect.is_tls == (scheme == "https") && port.is_none_or(|port| port == if effect.is_tls { 443 } else { 80 }) {
        return node.dropped("requests there have this scheme already", ledger);
    }
    let mut to = Draft::one(key!("status"), if permanent { 301 } else { 302 }).with(key!("scheme"), scheme);
    if let Some(port) = port {
        to.put(key!("port"), port);
    }
    ledger.changes(node.line, METHODS.0, METHODS.1);
    effect.action = Some(Action::Redirect(to));
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
