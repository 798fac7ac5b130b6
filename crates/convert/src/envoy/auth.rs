//! HTTP filters that refuse requests: `jwt_authn` and `basic_auth` become keys of routes. Where a filter is not carried
//! over, the routes are closed.

use super::behind::{Behind, close};
use super::per_route::has_settings;
use super::read::message;
use super::settled::settle;
use crate::ledger::Ledger;
use crate::protection::user;
use crate::report::{OPEN, PROTECTED};
use crate::tree::Node;
use evenkeel_config::plan::{BasicAuth, Jwt, KeySource, Match, Template, TokenField, Users, Variable};
use evenkeel_envoy::matching::{is_never, matching};
use evenkeel_envoy::pairs::{are_apart, takes_all};
use evenkeel_envoy::schema::ROUTE_MATCH;
use std::sync::Arc;
use std::time::Duration;

/// Names and types of filters that refuse no request, as parts of both. All others may.
const OPEN_FILTERS: [&str; 27] = [
    "alternate_protocols_cache",
    "aws_",
    "bandwidth_limit",
    "cdn_loop",
    "compressor",
    "credential_injector",
    "custom_response",
    "dynamic_forward_proxy",
    "fault",
    "filters.http.cache",
    "filters.http.cors",
    "filters.http.grpc_",
    "filters.http.gzip",
    "filters.http.router",
    "filters.http.tap",
    "gcp_authn",
    "geoip",
    "header_mutation",
    "health_check",
    "ip_tagging",
    "istio.",
    "on_demand",
    "original_src",
    "set_filter_state",
    "set_metadata",
    "stateful_session",
    "to_metadata",
];

/// Adds the protection of an HTTP filter to the routes. False if the filter never refuses a request. Users in the
/// configuration itself become lines for the file `users`.
pub(super) fn read(filter: &Node, manager: &Node, users: &str, routes: &mut [Behind<'_>], ledger: &mut Ledger) -> bool {
    let name = filter.at("name").and_then(Node::text).unwrap_or_default();
    let of = filter.at("typed_config.@type").and_then(Node::text).unwrap_or_default();
    let found = each_text(filter.at("config_discovery.type_urls"));
    let kind = format!("{name} {of} {found}").to_ascii_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    let differs = has_settings(manager, name);
    let config = filter.get("typed_config");
    let result = match config {
        Some(_) if is(&["jwt_authn", "jwtauthn", "basic_auth", "basicauth"]) && differs => {
            Err("routes have settings of their own for the filter".to_string())
        }
        Some(config) if is(&["jwt_authn", "jwtauthn"]) => tokens(config, routes, ledger),
        Some(config) if is(&["basic_auth", "basicauth"]) => {
            passwords(config, users, routes, ledger);
            Ok(())
        }
        _ if is(&["ext_authz", "extauthz"]) => {
            Err("forward_auth asks by GET, with the method in X-Forwarded-Method, and Envoy by the method itself"
                .into())
        }
        _ if is(&OPEN_FILTERS) => return false,
        _ => Err("the filter is not carried over".to_string()),
    };
    if let Err(reason) = result {
        routes.iter_mut().for_each(|route| close(route.filters));
        ledger.decide(filter.line, format!("{reason}; {PROTECTED}"), OPEN);
    } else {
        for key in ["name", "typed_config.@type"] {
            filter.take(key, ledger);
        }
    }
    filter.lost("no filter here has such a setting", "see jwt, basic_auth and forward_auth of a [[route]]", ledger);
    true
}

/// Texts of a list, with spaces between them.
fn each_text(list: Option<&Node>) -> String {
    list.map_or(&[][..], Node::list).iter().filter_map(Node::text).collect::<Vec<_>>().join(" ")
}

fn passwords(config: &Node, users: &str, routes: &mut [Behind<'_>], ledger: &mut Ledger) {
    let file = match config.take("users.filename", ledger) {
        Some(file) => {
            let reason =
                "hashes of SHA-1, which Envoy has, are refused: those of bcrypt, Argon2id and SHA-crypt are read";
            ledger.changes(config.line, reason, "htpasswd -B FILE NAME for each user");
            file.to_string()
        }
        None => users.to_string(),
    };
    if let Some(users) = config.at("users.inline_string").or_else(|| config.at("users.inline_bytes")) {
        for line in users.text().unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
            let (name, hash) = line.trim().split_once(':').unwrap_or((line, ""));
            user(users.line, name, hash, &file, ledger);
        }
    }
    let field = config.take("forward_username_header", ledger);
    let user = field.and_then(|field| Some((Arc::<str>::from(field), Template::of_variable(&Variable::User)?)));
    for route in routes {
        // Envoy forwards the credentials too.
        let users = Users::File(file.clone().into());
        route.filters.basic_auth = Some(BasicAuth { users, keep: true, ..BasicAuth::default() });
        route.filters.request_headers.set.extend(user.clone());
    }
}

/// Gives each route the token that the first rule for its requests asks for.
///
/// # Errors
/// The reason why a route cannot have the token that its rule asks for.
fn tokens(config: &Node, routes: &mut [Behind<'_>], ledger: &mut Ledger) -> Result<(), String> {
    let mut rules = Vec::new();
    for rule in config.get("rules").map_or(&[][..], Node::list) {
        let taken = match rule.get("match") {
            Some(table) => {
                let node = message(table, &ROUTE_MATCH, ledger);
                let read = node.whole(matching(&node));
                let is_never = is_never(&node);
                settle(table, &node, ledger);
                if is_never {
                    continue;
                }
                read?
            }
            None => Match::all(),
        };
        let jwt = match (rule.get("requires"), rule.get("requirement_name")) {
            (None, None) => None,
            (Some(requires), None) => {
                let name = requires.take("provider_name", ledger).ok_or("a rule asks for more than one provider")?;
                let provider = config.get("providers").and_then(|all| all.get(name));
                Some(provider_of(provider.ok_or("a provider is not there")?, ledger)?)
            }
            _ => return Err("a rule asks for a requirement by name".to_string()),
        };
        rules.push((taken, jwt));
    }
    let mut found = Vec::new();
    for route in routes.iter() {
        found.push(first(route.matching, &rules)?);
    }
    for (route, jwt) in routes.iter_mut().zip(found) {
        route.filters.jwt = jwt.or(route.filters.jwt.take());
    }
    let reason =
        "tokens are read from one place: Authorization, unless `from` is set, and not from access_token of a query";
    ledger.changes(config.line, reason, "from = \"cookie:NAME\" or \"header:NAME\" in jwt of the [[route]]");
    Ok(())
}

/// Requirement of the first rule for the requests of a match.
fn first(matching: &Match, rules: &[(Match, Option<Jwt>)]) -> Result<Option<Jwt>, String> {
    for (rule, jwt) in rules {
        if takes_all(rule, matching) {
            return Ok(jwt.clone());
        }
        if !are_apart(rule, matching) {
            return Err("a rule concerns a part of a route".to_string());
        }
    }
    Ok(None)
}

fn provider_of(provider: &Node, ledger: &mut Ledger) -> Result<Jwt, String> {
    for key in ["forward_payload_header", "subjects", "max_lifetime", "from_params"] {
        if provider.get(key).is_some() {
            return Err(format!("`{key}` has no counterpart"));
        }
    }
    let keys = match provider.take("remote_jwks.http_uri.uri", ledger) {
        Some(url) => {
            if let Some(remote) = provider.get("remote_jwks") {
                remote.dropped("keys are fetched by evenkeel itself, not through a cluster", ledger);
            }
            url
        }
        None => provider.take("local_jwks.filename", ledger).ok_or("its keys are not in a file, and not at a URL")?,
    };
    let is_near = ["http://127.0.0.1", "http://localhost", "http://[::1]"].iter().any(|start| keys.starts_with(start));
    if keys.starts_with("http://") && !is_near {
        return Err("keys are not fetched in clear text".to_string());
    }
    let keys = match keys.contains("://") {
        true => KeySource::Url(keys.into()),
        false => KeySource::File(keys.into()),
    };
    let audience = provider.texts("audiences", ledger);
    let audience = if audience.is_empty() { vec!["*".to_string()] } else { audience };
    let mut jwt = Jwt {
        keys,
        issuer: provider.take("issuer", ledger).map(Arc::from),
        audience: audience.into_iter().map(Arc::from).collect(),
        from: place(provider, ledger)?,
        keep: provider.take("forward", ledger) == Some("true"),
        require_exp: provider.take("require_expiration", ledger) == Some("true"),
        ..Jwt::default()
    };
    for claim in provider.get("claim_to_headers").map_or(&[][..], Node::list) {
        let (field, name) = (claim.take("header_name", ledger), claim.take("claim_name", ledger));
        let (Some(field), Some(name)) = (field, name) else { continue };
        let name = if name.contains('.') { format!("/{}", name.replace('.', "/")) } else { name.to_string() };
        jwt.claims_to.push((field.into(), name.into()));
    }
    if let Some(seconds) = provider.take("clock_skew_seconds", ledger).and_then(|seconds| seconds.parse::<u64>().ok()) {
        jwt.leeway = Duration::from_secs(seconds.min(600));
    }
    Ok(jwt)
}

/// Place of the tokens of a provider.
fn place(provider: &Node, ledger: &mut Ledger) -> Result<TokenField, String> {
    let headers = provider.get("from_headers").map_or(&[][..], Node::list);
    let cookies = provider.texts("from_cookies", ledger);
    match (headers, cookies.as_slice()) {
        ([], []) => Ok(TokenField::Bearer),
        ([], [cookie]) => Ok(TokenField::Cookie(cookie.clone())),
        ([header], []) => {
            let name = header.take("name", ledger).unwrap_or_default().to_string();
            match header.take("value_prefix", ledger).unwrap_or_default() {
                "Bearer " if name.eq_ignore_ascii_case("authorization") => Ok(TokenField::Bearer),
                "" if !name.is_empty() => Ok(TokenField::Header(name)),
                _ => Err("tokens behind another prefix than `Bearer ` are not read".to_string()),
            }
        }
        _ => Err("tokens are read from one place".to_string()),
    }
}
