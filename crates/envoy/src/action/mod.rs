//! Action of a route: the clusters that get its requests, or a response by evenkeel itself.

// Order: prefix, retry
mod prefix;
mod retry;

use crate::matching::share;
use crate::node::{Node, TIME_MAX};
use evenkeel_config::plan::{
    Action, HashKey, Match, Mirror, Redirect, Respond, Rewrite, Route, Scheme, SendHost, Template, compile_regex,
    escaped,
};
pub use prefix::Replacement;
use retry::retry;
use std::time::Duration;

/// Envoy's time for a request, if a route sets none.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Largest weight of a pool in a split.
const WEIGHT_MAX: u64 = 1_000_000;

/// Most mirrors that the plan takes.
const MIRRORS_MAX: usize = 8;

/// Longest body of a direct response in bytes, as Envoy has it.
const BODY_MAX: usize = 4096;

/// Destination of the requests of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    Cluster(String),
    /// Clusters with their weights. True if the hash of a request decides.
    Clusters(Vec<(String, u32)>, bool),
    Answer(Action),
}

/// A route without its name, listeners and match.
#[derive(Clone, Debug, PartialEq)]
pub struct Acting {
    pub to: To,
    /// Status of the response if the cluster does not exist.
    pub missing: u16,
    /// Clusters that get copies, in the order of the mirrors of the route.
    pub mirrors: Vec<String>,
    /// Parts of requests that choose an endpoint of a cluster that hashes.
    pub hash: Vec<HashKey>,
    /// Replaced beginning of paths.
    pub prefix: Option<Replacement>,
    /// Filters, time limits and retries.
    pub route: Route,
}

impl Acting {
    /// Replaces the beginning of paths, where `prefix` has a replacement. `matching` may be a part of the match of the
    /// original route.
    ///
    /// # Errors
    /// The new path cannot be written.
    pub fn replace_prefix(&mut self, matching: &Match) -> Result<(), String> {
        let Some(prefix) = &self.prefix else { return Ok(()) };
        match &mut self.to {
            To::Answer(Action::Redirect(redirect)) => redirect.path = Some(prefix.path(matching)?),
            _ => self.route.filters.rewrite = Some(prefix.rewrite(matching)?),
        }
        Ok(())
    }
}

/// Mirrors and retries that routes have which set none.
pub struct Inherited<'n, 'a> {
    pub mirrors: Vec<&'n Node<'a>>,
    pub retry: Option<&'n Node<'a>>,
}

/// Returns the action of a `Route`, whose `match` is `of_match`.
///
/// # Errors
/// The field that no route of a plan can have.
pub fn action(
    node: &Node<'_>,
    of_match: &Node<'_>,
    matching: &Match,
    inherited: &Inherited<'_, '_>,
) -> Result<Acting, String> {
    if let Some(to) = node.node("route") {
        return forward(to, of_match, matching, inherited).map_err(|why| format!("route: {why}"));
    }
    let answer = if let Some(to) = node.node("redirect") {
        // Without a part of its target it would lead back to itself.
        let read = to.whole(redirect(to, of_match, matching)).map_err(|why| format!("redirect: {why}"))?;
        let (redirect, prefix) = read;
        if prefix.is_none()
            && redirect
                == (Redirect { status: redirect.status, keep_query: redirect.keep_query, ..Redirect::default() })
        {
            return Err("redirect: it leads back to where it comes from".to_owned());
        }
        return Ok(Acting { prefix, ..answering(Action::Redirect(redirect)) });
    } else if let Some(to) = node.node("direct_response") {
        Action::Respond(respond(to).map_err(|why| format!("direct_response: {why}"))?)
    } else {
        return Err("it has no action that can be kept: route, redirect or direct_response".to_owned());
    };
    Ok(answering(answer))
}

/// A route with a response by evenkeel itself.
pub fn answering(action: Action) -> Acting {
    let (to, route) = (To::Answer(action), Route::default());
    Acting { to, missing: 503, mirrors: Vec::new(), hash: Vec::new(), prefix: None, route }
}

fn forward(
    to: &Node<'_>,
    of_match: &Node<'_>,
    matching: &Match,
    inherited: &Inherited<'_, '_>,
) -> Result<Acting, String> {
    let destination = match (to.text("cluster"), to.node("weighted_clusters")) {
        (Some(cluster), _) if !cluster.is_empty() => To::Cluster(cluster.to_owned()),
        (_, Some(weighted)) => clusters(weighted)?,
        _ => return Err("it has no cluster that can be kept: cluster or weighted_clusters".to_owned()),
    };
    let missing = match to.number("cluster_not_found_response_code") {
        1 => 404,
        2 => 500,
        _ => 503,
    };
    let mut route = Route::default();
    let longest = to.node("max_stream_duration").and_then(|of| of.duration("max_stream_duration"));
    let timeout = to.duration("timeout").unwrap_or(TIMEOUT);
    let limits = [Some(timeout), longest].into_iter().flatten().filter(|time| !time.is_zero());
    route.timeouts.request = limits.min().map(|time| time.max(Duration::from_millis(1)));
    // Envoy has no separate limit for the head of a response.
    route.timeouts.response = None;
    if let Some(idle) = to.duration("idle_timeout") {
        route.timeouts.idle = if idle.is_zero() { TIME_MAX } else { idle.max(Duration::from_millis(10)) };
    }
    let policy = to.node("retry_policy").or(inherited.retry);
    route.retry = retry(policy, route.timeouts.request)?;
    let prefix = to.text("prefix_rewrite").filter(|prefix| !prefix.is_empty());
    let replaced = prefix.map(|prefix| to.part_of("prefix_rewrite", Replacement::of(prefix, of_match, matching)));
    let prefix = replaced.transpose()?.flatten().flatten();
    if let Some(substitute) = to.node("regex_rewrite") {
        route.filters.rewrite = to.part_of("regex_rewrite", found(substitute))?;
    }
    if let Some(host) = to.text("host_rewrite_literal").filter(|host| !host.is_empty()) {
        route.filters.send_host = SendHost::Fixed(host.into());
    }
    if to.wrapped("auto_host_rewrite") == Some(1) {
        route.filters.send_host = SendHost::Endpoint;
    }
    upgrades(to)?;
    let own: Vec<_> = to.nodes("request_mirror_policies").collect();
    let copied = mirrors(if own.is_empty() { &inherited.mirrors } else { &own });
    let (copies, mirrors) = to.part_of("request_mirror_policies", copied)?.unwrap_or_default();
    route.filters.mirrors = copies;
    let mut hash = Vec::new();
    for policy in to.nodes("hash_policy") {
        hash.extend(policy.part(policy.whole(hash_key(policy)))?);
    }
    if hash.len() > 1 {
        to.differs("hash_policy: the second key is hashed where a request does not have the first, and no further key");
    }
    Ok(Acting { to: destination, missing, mirrors, hash, prefix, route })
}

/// Checks that no protocol but WebSocket may take a connection over.
///
/// # Errors
/// The protocol.
pub fn upgrades(node: &Node<'_>) -> Result<(), String> {
    for upgrade in node.nodes("upgrade_configs") {
        let kind = upgrade.text("upgrade_type").unwrap_or_default();
        if upgrade.wrapped("enabled") != Some(0) && !kind.eq_ignore_ascii_case("websocket") {
            upgrade.part(Err::<(), _>(format!("upgrade_configs: {kind:?} is not forwarded")))?;
        }
    }
    Ok(())
}

fn clusters(weighted: &Node<'_>) -> Result<To, String> {
    let by_hash = weighted.wrapped("use_hash_policy") == Some(1);
    let mut all: Vec<(String, u64)> = Vec::new();
    for part in weighted.nodes("clusters") {
        let (name, weight) = (part.text("name").unwrap_or_default(), part.wrapped("weight").unwrap_or(0));
        match all.iter_mut().find(|(other, _)| other == name) {
            _ if name.is_empty() => return Err("weighted_clusters: an entry has no name".to_owned()),
            Some((_, before)) => *before = before.saturating_add(weight),
            None => all.push((name.to_owned(), weight)),
        }
    }
    match all.iter().all(|(_, weight)| *weight == 0) {
        true => Err("weighted_clusters: no cluster has a weight above 0".to_owned()),
        false => Ok(To::Clusters(scaled(all, weighted), by_hash)),
    }
}

/// Weights that a split can have. Shares stay if some are too large.
pub fn scaled(all: Vec<(String, u64)>, of: &Node<'_>) -> Vec<(String, u32)> {
    let most = all.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
    if most > WEIGHT_MAX {
        of.differs("weights above 1,000,000 are made smaller, all by one factor");
    }
    let scaled = |weight: u64| match most > WEIGHT_MAX {
        true => (u128::from(weight) * u128::from(WEIGHT_MAX)).div_ceil(u128::from(most)),
        false => weight.into(),
    };
    all.into_iter().map(|(name, weight)| (name, u32::try_from(scaled(weight)).unwrap_or(u32::MAX))).collect()
}

/// Rewriting of the parts of a path that an expression matches.
fn found(substitute: &Node<'_>) -> Result<Rewrite, String> {
    let search = substitute.node("pattern").and_then(|pattern| pattern.text("regex")).unwrap_or_default();
    if search.is_empty() {
        return Err("regex_rewrite has no pattern".to_owned());
    }
    compile_regex(search).map_err(|why| format!("regex_rewrite: {search:?} is not a regular expression: {why}"))?;
    let to = Template::of_groups(substitute.text("substitution").unwrap_or_default(), '\\', search);
    let to = to.map_err(|why| format!("regex_rewrite: {why}"))?;
    Ok(Rewrite { search: Some(search.into()), to: Some(to), ..Rewrite::default() })
}

/// The copies of a route, with the clusters that get them.
fn mirrors(policies: &[&Node<'_>]) -> Result<(Vec<Mirror>, Vec<String>), String> {
    let (mut copies, mut clusters) = (Vec::new(), Vec::new());
    for policy in policies {
        let fraction = policy.node("runtime_fraction").and_then(|fraction| fraction.node("default_value"));
        let share = fraction.map_or(1.0, share);
        let cluster = policy.text("cluster").unwrap_or_default();
        if share > 0.0 {
            policy.differs(
                "copies have the client's host, where Envoy adds -shadow; requests with bodies above 64 kB are not copied",
            );
            copies.push(Mirror { share, ..Mirror::default() });
            clusters.push(cluster.to_owned());
        }
    }
    match copies.len() > MIRRORS_MAX {
        true => Err(format!("request_mirror_policies: a route has at most {MIRRORS_MAX}")),
        false => Ok((copies, clusters)),
    }
}

fn hash_key(policy: &Node<'_>) -> Result<HashKey, String> {
    let is_set = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(header) = policy.node("header") {
        let name = is_set(header.text("header_name")).ok_or("hash_policy: a header has no name")?;
        return Ok(match &*name {
            ":path" => HashKey::Path,
            name if name.starts_with(':') => return Err(format!("hash_policy: {name:?} is not hashed")),
            name => HashKey::Header(name.to_ascii_lowercase()),
        });
    }
    if let Some(cookie) = policy.node("cookie") {
        return is_set(cookie.text("name"))
            .map(HashKey::Cookie)
            .ok_or_else(|| "hash_policy: a cookie has no name".into());
    }
    if let Some(query) = policy.node("query_parameter") {
        return is_set(query.text("name"))
            .map(HashKey::Query)
            .ok_or_else(|| "hash_policy: a parameter has no name".into());
    }
    match policy.node("connection_properties").is_some_and(|of| of.flag("source_ip")) {
        true => Ok(HashKey::ClientIp),
        false => Err("hash_policy: an entry has no key that can be kept".to_owned()),
    }
}

fn redirect(to: &Node<'_>, of_match: &Node<'_>, matching: &Match) -> Result<(Redirect, Option<Replacement>), String> {
    let is_set = |name| to.text(name).filter(|text| !text.is_empty());
    let mut redirect = Redirect { keep_query: !to.flag("strip_query"), ..Redirect::default() };
    redirect.status = match to.number("response_code") {
        0 => 301,
        1 => 302,
        2 => 303,
        3 => 307,
        4 => 308,
        other => return Err(format!("response_code {other} is not known")),
    };
    redirect.scheme = match (to.flag("https_redirect"), is_set("scheme_redirect")) {
        (true, _) | (_, Some("https")) => Some(Scheme::Https),
        (_, Some("http")) => Some(Scheme::Http),
        (_, Some(other)) => return Err(format!("scheme_redirect {other:?} is not http or https")),
        (false, None) => None,
    };
    redirect.host = is_set("host_redirect").map(Template::literal);
    redirect.port = u16::try_from(to.number("port_redirect")).ok().filter(|port| *port > 0);
    match is_set("path_redirect") {
        Some(path) if path.contains('#') || !path.starts_with('/') => {
            return Err(format!("path_redirect {path:?} is not a path"));
        }
        // The query replaces that of the client.
        Some(path) if path.contains('?') => redirect = with_query(path, &redirect)?,
        Some(path) => redirect.path = Some(Template::literal(path)),
        None => {}
    }
    // A redirect to the path of the route itself is a mistake in a plan unless it names its host.
    let is_own = matches!(&redirect, Redirect { path: Some(path), scheme: None, host: None, port: None, .. }
        if crate::pairs::whole(&matching.path).is_some_and(|own| *path == Template::literal(&own)));
    if is_own {
        redirect.host = Some(Template::of_field("{host}", false).map_err(|why| format!("path_redirect: {why}"))?);
    }
    let prefix = is_set("prefix_rewrite").map(|prefix| Replacement::of(prefix, of_match, matching)).transpose()?;
    let prefix = prefix.flatten();
    if redirect.path.is_none() && prefix.as_ref().is_some_and(Replacement::may_double_slashes) {
        to.differs(
            "a redirect to a path that begins with two slashes gets a 400, as browsers take it for another host",
        );
    }
    Ok((redirect, prefix))
}

/// A redirect to a path with a query: a whole URL, or the path alone.
fn with_query(path: &str, redirect: &Redirect) -> Result<Redirect, String> {
    let Redirect { scheme, host, port, status, .. } = redirect;
    let mut to = String::new();
    if scheme.is_some() || host.is_some() || port.is_some() {
        let scheme = match scheme {
            Some(Scheme::Https) => "https",
            Some(Scheme::Http) => "http",
            None => "{scheme}",
        };
        let host = host.as_ref().map_or_else(|| "{host}".to_owned(), ToString::to_string);
        let port = port.map_or(String::new(), |port| format!(":{port}"));
        to = format!("{scheme}://{host}{port}");
    }
    to.push_str(&escaped(path));
    let to = Template::of_field(&to, false).map_err(|why| format!("path_redirect: {why}"))?;
    Ok(Redirect { status: *status, to: Some(to), ..Redirect::default() })
}

fn respond(to: &Node<'_>) -> Result<Respond, String> {
    let status = u16::try_from(to.number("status")).ok().filter(|status| (200..600).contains(status));
    let status = status.ok_or_else(|| format!("status {} is not from 200 to 599", to.number("status")))?;
    let mut respond = Respond { status, ..Respond::default() };
    let Some(body) = to.node("body").filter(|_| !matches!(status, 204 | 304)) else { return Ok(respond) };
    if let Some(file) = body.text("filename") {
        respond.file = Some(file.into());
    }
    let text = body.text("inline_string").or(body.text("inline_bytes")).filter(|text| !text.is_empty());
    let fits = match text.is_some_and(|text| text.len() > BODY_MAX) {
        true => Err(format!("the body is longer than {BODY_MAX} bytes")),
        false => Ok(text.map(Into::into)),
    };
    respond.body = to.part_of("body", fits)?.flatten();
    Ok(respond)
}
