//! `proxy_cache` and its directives: the cache of a route.

use crate::model::{Draft, Entries, RouteKeys, Value, duration, parse_size, size};
use crate::nginx::lexer::Directive;
use crate::nginx::time::milliseconds;
use crate::nginx::world::{World, group, single};
use evenkeel_config::plan::Cache;

/// Time without a request after which NGINX drops a response, if `inactive` is not set.
const INACTIVE_MS: u64 = 600_000;

/// Largest `max_size` that is taken over: NGINX's is of a disk, and here it is memory.
const MEMORY_MAX: u64 = 1 << 30;

/// Least memory for a cache.
const MEMORY_MIN: u64 = 1 << 20;

/// Longest time that a key for a time takes.
const YEAR_MS: u64 = 8760 * 3_600_000;

/// Directives that say the same as evenkeel always does, or tune how NGINX keeps files.
const LOSSLESS: &[(&str, &str)] = &[
    ("proxy_cache_min_uses", "what is asked for once makes no room for itself in a full cache"),
    ("proxy_cache_revalidate", "stale responses are always validated, if they can be"),
    ("proxy_cache_background_update", "a stale response that may be served is validated behind the request"),
    ("proxy_cache_convert_head", "a HEAD is answered with what is stored for GET"),
    ("proxy_cache_max_range_offset", "ranges are answered from whole responses"),
    ("proxy_cache_lock_age", "requests wait for a fetch for as long as `collapse` at most"),
];

/// Directives of this file, for those that no location has used.
pub(in crate::nginx) const NAMES: &[&str] = &[
    "proxy_cache",
    "proxy_cache_valid",
    "proxy_cache_key",
    "proxy_cache_bypass",
    "proxy_no_cache",
    "proxy_cache_use_stale",
    "proxy_cache_lock",
    "proxy_cache_lock_timeout",
    "proxy_cache_lock_age",
    "proxy_cache_background_update",
    "proxy_cache_revalidate",
    "proxy_cache_min_uses",
    "proxy_cache_methods",
    "proxy_cache_convert_head",
    "proxy_cache_max_range_offset",
    "proxy_ignore_headers",
];

/// Adds `cache` for a location with these levels, if it has `proxy_cache`.
pub(in crate::nginx) fn read(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let Some(directive) = single(levels, "proxy_cache") else { return };
    if directive.word(1) == "off" {
        return world.ledger.carried(directive.line);
    }
    let key = match key(levels, world) {
        Ok(key) => key,
        Err((line, reason)) => {
            // If a part of the key were missing, a client could get another client's response.
            let todo = "cache = true in the [[route]], with `headers` or `by_user` for what tells responses apart";
            let reason = format!("{reason}: the cache stays off here");
            world.ledger.changes(line, &*reason, todo);
            return world.ledger.changes(directive.line, reason, todo);
        }
    };
    if !exceptions(levels, directive, world) {
        return;
    }
    let mut cache = key;
    let inactive = zone(directive, world);
    times(levels, &mut cache, world);
    stale(levels, inactive, &mut cache, world);
    lock(levels, directive, &mut cache, world);
    ignored(levels, &mut cache, world);
    for directive in group(levels, "proxy_cache_methods") {
        match directive.words.iter().any(|word| word == "POST") {
            true => world.ledger.changes(directive.line, "only responses to GET are stored", "nothing, or use GET"),
            false => world.ledger.dropped(directive.line, "responses to GET are stored, and answer HEAD too"),
        }
    }
    for (name, reason) in LOSSLESS {
        group(levels, name).into_iter().for_each(|directive| world.ledger.dropped(directive.line, *reason));
    }
    if [key!("basic_auth"), key!("forward_auth"), key!("jwt")].into_iter().any(|key| set.has(key)) {
        world.ledger.changes(
            directive.line,
            "of a route that asks who clients are, only responses with public, s-maxage or must-revalidate are stored",
            "have the application say `Cache-Control: public` where all users get the same",
        );
    }
    world.ledger.carried(directive.line);
    set.put(key!("cache"), if cache.is_empty() { Value::Bool(true) } else { cache.into() });
}

/// Parts of the key in addition to scheme, host, path and query.
fn key(levels: &[&[Directive]], world: &mut World<'_>) -> Result<Draft<Cache>, (crate::ledger::Line, String)> {
    let mut cache = Draft::default();
    let Some(directive) = single(levels, "proxy_cache_key") else { return Ok(cache) };
    let text = directive.from(1).join(" ");
    let mut has_query = false;
    let mut headers: Vec<Value> = Vec::new();
    for name in variables(&text) {
        match name.as_str() {
            "scheme" | "host" | "http_host" | "proxy_host" | "server_name" | "server_port" | "request_method"
            | "uri" | "document_uri" | "is_args" | "proxy_port" => {}
            "request_uri" | "args" | "query_string" => has_query = true,
            name if name.starts_with("http_") => headers.push(crate::nginx::variable::field_of(&name[5..]).into()),
            name if name.starts_with("cookie_") => {
                world.ledger.changes(
                    directive.line,
                    format!("all cookies of a request tell responses apart, not {} alone", &name[7..]),
                    "a field of its own for what tells responses apart, in `headers`",
                );
                headers.push("Cookie".into());
            }
            name if name.starts_with("arg_") => {
                has_query = true;
                let reason = format!("the whole query tells responses apart, not {} alone", &name[4..]);
                world.ledger.changes(directive.line, reason, "query_ignore for parameters that make no difference");
            }
            name => return Err((directive.line, format!("its key has ${name}, which is not a part of keys"))),
        }
    }
    headers.dedup();
    if !has_query {
        cache.put(key!("query"), "none");
        world.ledger.changes(
            directive.line,
            "its key has no query, so the endpoint gets none either: it could not answer for all queries",
            "query = \"all\" in cache of the [[route]]",
        );
    }
    if !headers.is_empty() {
        cache.put(key!("headers"), Value::List(headers));
    }
    world.ledger.carried(directive.line);
    Ok(cache)
}

/// Names of the variables in a text.
fn variables(text: &str) -> Vec<String> {
    let name = |part: &str| {
        let part = part.trim_start_matches('{');
        part.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
    };
    text.split('$').skip(1).map(name).collect()
}

/// Settles conditions under which NGINX bypasses the cache. False if the cache is unsafe without them.
fn exceptions(levels: &[&[Directive]], cache: &Directive, world: &mut World<'_>) -> bool {
    let mut is_safe = true;
    for directive in group(levels, "proxy_cache_bypass").into_iter().chain(group(levels, "proxy_no_cache")) {
        let names = variables(&directive.from(1).join(" "));
        let of_client = ["http_pragma", "http_cache_control"];
        // Query parameters are part of the key, and responses to Authorization are stored only if they allow it.
        let is_harmless = |name: &String| {
            of_client.contains(&name.as_str()) || name.starts_with("arg_") || name == "http_authorization"
        };
        if names.iter().all(is_harmless) {
            let todo = match names.iter().any(|name| of_client.contains(&name.as_str())) {
                true => "client_directives = true in cache, if clients may pass the cache by",
                false => {
                    "a [[route]] without cache before it, with match = { query = { nocache = { present = true } } }"
                }
            };
            world.ledger.changes(directive.line, "no condition of requests passes the cache by", todo);
            continue;
        }
        is_safe = false;
        let todo = "cache = true in the [[route]], and before it one without cache for the others: match = { cookie = { session = { present = true } } }";
        let reason = "what keeps some clients out of the cache is not carried over: the cache stays off here";
        world.ledger.changes(directive.line, reason, todo);
        world.ledger.changes(cache.line, reason, todo);
    }
    is_safe
}

/// Settles the zone of a cache, and adds its memory. Returns the milliseconds
/// without a request after which it drops a response.
fn zone(directive: &Directive, world: &mut World<'_>) -> u64 {
    let Some(path) = world.caches.get(directive.word(1)).copied() else {
        world.ledger.changes(directive.line, "its zone is not there", "[cache] memory, if 256 MiB is not right");
        return INACTIVE_MS;
    };
    let parameter = |name: &str| path.from(2).iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let most = parameter("max_size").and_then(parse_size);
    let taken = most.filter(|most| (MEMORY_MIN..=MEMORY_MAX).contains(most));
    // All zones share the memory, so the largest counts.
    if let Some(taken) = taken.filter(|taken| *taken > world.cache_memory) {
        world.cache_memory = taken;
        world.target.root.put(key!("cache.memory"), size(taken));
    }
    let reason = "responses are kept in memory, which all routes share, and not on disk: a restart loses them";
    world.ledger.changes(path.line, reason, "[cache] memory, and object_max for large files");
    parameter("inactive").and_then(milliseconds).unwrap_or(INACTIVE_MS).min(YEAR_MS)
}

/// `proxy_cache_valid`: lifetimes of responses that state none.
fn times(levels: &[&[Directive]], cache: &mut Draft<Cache>, world: &mut World<'_>) {
    let mut ttl = Entries::default();
    for directive in group(levels, "proxy_cache_valid") {
        let words = directive.from(1);
        let Some((time, codes)) = words.split_last() else { continue };
        let Some(ms) = milliseconds(time) else {
            world.ledger.changes(directive.line, "its time was not understood", "ttl = { 200 = \"10m\" } in cache");
            continue;
        };
        let time = duration(ms.min(YEAR_MS));
        let usual: Vec<String> = ["200", "301", "302"].map(str::to_owned).to_vec();
        for code in if codes.is_empty() { &usual } else { codes } {
            let statuses = if code == "any" { "200..=599" } else { code };
            // The first line of a status counts, as in NGINX.
            if ttl.get(statuses).is_none() {
                ttl.set(statuses, time.as_str());
            }
        }
        world.ledger.carried(directive.line);
    }
    if !ttl.is_empty() {
        cache.put(key!("ttl"), ttl);
    }
}

/// `proxy_cache_use_stale`: times in which a stale response is served. In NGINX, only the zone limits them.
fn stale(levels: &[&[Directive]], inactive: u64, cache: &mut Draft<Cache>, world: &mut World<'_>) {
    let Some(directive) = single(levels, "proxy_cache_use_stale") else { return };
    let words: Vec<&str> = directive.from(1).iter().map(String::as_str).collect();
    world.ledger.carried(directive.line);
    if words.contains(&"updating") {
        cache.put(key!("stale_while_revalidate"), duration(inactive));
    }
    let statuses = ["http_500", "http_502", "http_503", "http_504"];
    let on_error =
        words.iter().any(|word| ["error", "timeout", "invalid_header"].contains(word) || statuses.contains(word));
    if on_error {
        cache.put(key!("stale_if_error"), duration(inactive));
        if !statuses.iter().all(|status| words.contains(status)) {
            world.ledger.changes(
                directive.line,
                "a stale response is served if no endpoint answers, and for each of 500, 502, 503 and 504",
                "nothing, or leave out stale_if_error of cache",
            );
        }
    }
    for word in words.iter().filter(|word| ["http_403", "http_404", "http_429"].contains(word)) {
        let reason = format!("a stale response is not served instead of {}", &word[5..]);
        world.ledger.changes(directive.line, reason, "nothing, unless clients must not see that status");
    }
}

/// `proxy_cache_lock`: the wait for the response that another request fetches.
fn lock(levels: &[&[Directive]], cache_line: &Directive, cache: &mut Draft<Cache>, world: &mut World<'_>) {
    let lock = single(levels, "proxy_cache_lock");
    let is_on = lock.is_some_and(|lock| lock.word(1) == "on");
    lock.into_iter().for_each(|lock| world.ledger.carried(lock.line));
    if let Some(timeout) = single(levels, "proxy_cache_lock_timeout") {
        match milliseconds(timeout.word(1)).filter(|ms| *ms > 0) {
            Some(ms) if is_on => {
                cache.put(key!("collapse"), duration(ms.min(86_400_000)));
                world.ledger.carried(timeout.line);
            }
            _ => world.ledger.dropped(timeout.line, "there is no lock that it could be for"),
        }
    }
    if !is_on {
        world.ledger.changes(
            cache_line.line,
            "requests for the same response wait for one fetch, as with proxy_cache_lock",
            "nothing, or collapse = \"off\" in cache of the [[route]]",
        );
    }
}

/// `proxy_ignore_headers`: fields of responses that do not decide.
fn ignored(levels: &[&[Directive]], cache: &mut Draft<Cache>, world: &mut World<'_>) {
    for directive in group(levels, "proxy_ignore_headers") {
        world.ledger.carried(directive.line);
        for word in directive.from(1) {
            match word.to_ascii_lowercase().as_str() {
                "set-cookie" => {
                    cache.put(key!("set_cookie"), "strip");
                    world.ledger.changes(
                        directive.line,
                        "responses that set cookies are stored without them; NGINX sends the stored cookies to all clients",
                        "nothing: a cookie of one client is not for the others",
                    );
                }
                "cache-control" | "expires" => of_times(directive, cache, world),
                "vary" => world.ledger.changes(
                    directive.line,
                    "Vary is always obeyed: without that, a client may get what is for another",
                    "have the application leave it out",
                ),
                _ => world.ledger.dropped(directive.line, "fields X-Accel-* mean nothing here"),
            }
        }
    }
}

/// Makes the lifetime of status 200 the minimum. It also applies to responses that state a shorter lifetime.
fn of_times(directive: &Directive, cache: &mut Draft<Cache>, world: &mut World<'_>) {
    let time = match cache.get(key!("ttl")) {
        Some(Value::Table(ttl)) => ttl.get("200").or_else(|| ttl.get("200..=599")).cloned(),
        _ => None,
    };
    time.into_iter().for_each(|time| drop(cache.put(key!("min_ttl"), time)));
    world.ledger.changes(
        directive.line,
        "no-store, private and no-cache of responses are always obeyed; of lifetimes, `min_ttl` is the least",
        "have the application send other fields, or CDN-Cache-Control for the cache alone",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_key_are_found_in_any_spelling() {
        assert_eq!(variables("$scheme${host}$request_uri-x"), ["scheme", "host", "request_uri"]);
        assert_eq!(variables("plain"), Vec::<String>::new());
    }
}
