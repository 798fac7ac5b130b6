//! Answers to questions about picks: where a request went or would go, as the workers report.

use evenkeel_admin::api::problem::Problem;
use evenkeel_proxy::look::Described;
use evenkeel_proxy::{Looker, explanations, look, route_why};
use evenkeel_view as types;
use evenkeel_view::picks::{
    Armed, Candidate, Considered, Counted, Excluded, Explained, ExplainedTry, Pick, Routed, WouldGo,
};
use std::sync::Arc;

/// The requests that are kept, the latest first: so many of a pool, or of all.
pub async fn kept(looker: &Looker, pool: Option<&str>, limit: usize) -> Vec<Explained> {
    let all = looker.explanations().await.into_iter();
    all.filter(|one| pool.is_none_or(|pool| *one.pool == *pool)).take(limit).map(explained).collect()
}

/// One of them.
///
/// # Errors
/// It is not kept.
pub async fn one(looker: &Looker, id: &str) -> Result<Explained, Problem> {
    let none = || {
        let why = format!("no explanation of request \"{id}\" is kept: telemetry.explain says of which there are");
        Problem::not_found(why)
    };
    looker.explanation(id).await.map(explained).ok_or_else(none)
}

/// Has the next request of a pool explained.
///
/// # Errors
/// There is no such pool.
pub fn arm(looker: &Looker, pool: String) -> Result<Armed, Problem> {
    looker.arm(&pool).map_err(Problem::not_found)?;
    Ok(Armed { pool, armed: true })
}

/// Where a request would go.
///
/// # Errors
/// It is none, or there is no such listener.
pub async fn would_go(looker: &Looker, request: types::Described) -> Result<WouldGo, Problem> {
    let described = described(request).map_err(Problem::malformed)?;
    let look::WouldGo { routed, pick, worker } = looker.would_go(described).await.map_err(Problem::not_found)?;
    Ok(WouldGo { routed: self::routed(routed), pick: pick.map(self::pick), worker: worker.map(|index| index as u64) })
}

fn text(name: Option<Arc<str>>) -> Option<String> {
    name.map(|name| name.to_string())
}

fn explained(one: explanations::Explained) -> Explained {
    let tried = |one: explanations::Try| ExplainedTry {
        at_ns: one.at_ns,
        how: one.how.into(),
        endpoint: text(one.endpoint),
        pick: one.pick.map(pick),
        failed: one.failed,
    };
    Explained {
        request_id: one.request_id,
        trace_id: one.trace_id,
        at_ms: one.at_ms,
        asked: one.asked.into(),
        worker: one.worker as u64,
        listener: one.listener.to_string(),
        route: one.route.to_string(),
        pool: one.pool.to_string(),
        method: one.method,
        host: one.host,
        path: one.path,
        tries: one.tries.into_iter().map(tried).collect(),
        queue_ns: one.queue_ns,
        status: one.status,
        end: one.end.into(),
        phase: one.phase.into(),
        total_ns: one.total_ns,
    }
}

fn pick(one: explanations::Pick) -> Pick {
    let candidate = |one: explanations::Candidate| Candidate {
        endpoint: one.endpoint.to_string(),
        in_flight: one.in_flight,
        weight: one.weight,
        score: one.score,
        ahead: one.ahead,
        load: one.load,
        latency_ns: one.latency_ns,
        counted: one.parts.map(|parts| Counted { here: parts.here, siblings: parts.siblings, others: parts.others }),
        place: one.place,
        tier: one.tier,
        zone: text(one.zone),
    };
    let excluded = |one: explanations::Excluded| Excluded {
        endpoint: one.endpoint.to_string(),
        reason: one.reason,
        since_ms: one.since_ms,
    };
    Pick {
        rule: one.rule.into(),
        by: one.by.into(),
        decides: one.decides,
        picked: text(one.picked),
        refused: one.refused,
        candidates: one.candidates.into_iter().map(candidate).collect(),
        unlisted: one.unlisted as u64,
        excluded: one.excluded.into_iter().map(excluded).collect(),
        excluded_more: one.excluded_more as u64,
        level: one.level as u64,
        key: one.key,
        in_flight: one.in_flight,
        in_panic: one.in_panic,
    }
}

fn routed(one: route_why::Routed) -> Routed {
    let considered = |one: route_why::Considered| Considered {
        route: one.route.to_string(),
        pool: one.pool.to_string(),
        taken: one.taken,
        why: one.why,
    };
    Routed {
        listener: one.listener.to_string(),
        route: text(one.route),
        pool: text(one.pool),
        routes: one.routes.into_iter().map(considered).collect(),
    }
}

fn described(request: types::Described) -> Result<Described, String> {
    let (host, target) = host_and_target(&request.url)?;
    let field = |field: &String| {
        let (name, value) = field.split_once(':').ok_or_else(|| format!("the field \"{field}\" is not NAME: VALUE"))?;
        Ok((name.trim().to_string(), value.trim().to_string()))
    };
    let client = request.client.map(|ip| ip.parse().map_err(|_| format!("\"{ip}\" is no IP address")));
    Ok(Described {
        method: request.method.unwrap_or_else(|| "GET".to_string()),
        host,
        target,
        fields: request.fields.iter().map(field).collect::<Result<_, String>>()?,
        listener: request.listener,
        client: client.transpose()?,
    })
}

/// Of `http://HOST/PATH?QUERY`, or of a path alone.
fn host_and_target(url: &str) -> Result<(String, String), String> {
    if url.starts_with('/') {
        return Ok((String::new(), url.to_string()));
    }
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(|| format!("\"{url}\" is not http://HOST/PATH, https://HOST/PATH or /PATH"))?;
    let rest = rest.split('#').next().unwrap_or_default();
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let target = if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
    if host.is_empty() { Err(format!("\"{url}\" names no host")) } else { Ok((host.to_string(), target)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let taken = |url| host_and_target(url).unwrap();
        assert_eq!(taken("https://a.test:8443/x?y#z"), ("a.test:8443".into(), "/x?y".into()));
        assert_eq!(taken("http://[::1]?q"), ("[::1]".into(), "/?q".into()));
        assert_eq!(taken("/only"), (String::new(), "/only".into()));
        assert!(["a.test/x", "http:///x", "ftp://a/"].iter().all(|url| host_and_target(url).is_err()));
    }
}
